"""Explain which stretch of a signal a forest looks at, and draw it; writes out/series.png."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import credex as cx

mpl.use("Agg")  # write a file, open no window

# Two sensors, 120 time steps. In a fault the second one spikes about five steps after the first.
rng = np.random.default_rng(0)
n, steps = 600, 120
fault = rng.random(n) < 0.5
X = rng.normal(0, 0.3, (n, steps, 2)) + np.sin(np.arange(steps) / 9)[:, None]
for i, at in enumerate(rng.integers(40, 80, n)):
    X[i, at : at + 4, 0] += 2
    if fault[i]:
        X[i, at + 5 : at + 9, 1] += 2


def features(series: np.ndarray) -> np.ndarray:
    """Peak and spread of every sensor in windows of eight steps."""
    windows = series.reshape(len(series), -1, 8, series.shape[2])
    both = [windows.max(axis=2), windows.std(axis=2)]
    return np.concatenate([a.reshape(len(series), -1) for a in both], axis=1)


forest = RandomForestClassifier(200, random_state=0).fit(features(X[100:]), fault[100:])
print(
    f"The forest is right about {forest.score(features(X[:100]), fault[:100]):.0%} of new signals."
)


def model(series: np.ndarray) -> np.ndarray:
    """(n, 120, 2) signals to the probability of a fault."""
    return forest.predict_proba(features(series))[:, 1]


x = X[np.flatnonzero(fault[:100])[0]]
domain = cx.Series(length=8, channels=["sensor A", "sensor B"], fill="linear")
e = cx.BayesSHAP(model, domain).explain(x, queries=600)
print(e)
out = Path("out/series.png")
out.parent.mkdir(exist_ok=True)
e.plot.series()[0].figure.savefig(out, dpi=110)
print(f"The picture is {out}.")
