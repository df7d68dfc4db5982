"""Rows explained per second on a 100-tree forest. Run it with ``make bench-batch``.

Peers go row by row, as they do for their users; their speed is measured on some of the same rows.
The floor is the forest itself on the rows that credex sends, in one call.
"""

from __future__ import annotations

import argparse
import io
import time
from contextlib import redirect_stderr

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from benchmarks.timing import publish, table

LIME, SHAP = 4.0, 10.0


class Counted:
    """A model that remembers how long it took and how many rows it saw."""

    def __init__(self, model: RandomForestClassifier) -> None:
        self.model, self.rows, self.seconds = model, 0, 0.0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Predict probabilities."""
        start = time.perf_counter()
        out = self.model.predict_proba(X)
        self.seconds += time.perf_counter() - start
        self.rows += len(X)
        return out


def data(n_rows: int) -> tuple[np.ndarray, np.ndarray, RandomForestClassifier]:
    """Training rows, rows to explain, and the forest."""
    X, y = make_classification(3000, 12, n_informative=8, random_state=0)
    forest = RandomForestClassifier(100, random_state=0).fit(X[:2000], y[:2000])
    return X[:2000], X[2000 : 2000 + n_rows], forest


def per_second(explain: object, rows: np.ndarray) -> float:
    """Rows per second of something that explains one row."""
    explain(rows[0])
    start = time.perf_counter()
    for x in rows:
        explain(x)
    return len(rows) / (time.perf_counter() - start)


def cell(name: str, queries: int, n_rows: int, peer_rows: int, background: int) -> list[str]:
    """Measure one line of the table."""
    train, rows, forest = data(n_rows)
    model = Counted(forest)
    if name == "BayesLIME":
        from lime.lime_tabular import LimeTabularExplainer

        ours = cx.BayesLIME(model, train, target=1)
        lime = LimeTabularExplainer(train, random_state=0)
        peer = per_second(
            lambda x: lime.explain_instance(x, forest.predict_proba, num_samples=queries),
            rows[:peer_rows],
        )
    else:
        import shap

        ours = cx.BayesSHAP(model, cx.Tabular(train[:background]), target=1)
        kernel = shap.KernelExplainer(lambda X: forest.predict_proba(X)[:, 1], train[:background])
        with redirect_stderr(io.StringIO()):
            peer = per_second(
                lambda x: kernel.shap_values(x, nsamples=queries, silent=True), rows[:peer_rows]
            )
    ours.explain_many(rows[:5], queries=queries, progress=False)
    model.rows, model.seconds = 0, 0.0
    start = time.perf_counter()
    batch = ours.explain_many(rows, queries=queries, progress=False)
    batch.interval()
    seconds = time.perf_counter() - start
    speed = n_rows / seconds
    return [
        name,
        f"{queries:,}",
        str(background) if name == "BayesSHAP" else "–",
        f"{speed:,.0f}",
        f"{speed / peer:.1f}×",
        f"{model.rows:,}",
        f"{seconds / model.seconds:.2f}×",
    ]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 rows, one N, printed only")
    quick = parser.parse_args().quick
    n_rows, peer_rows = (100, 5) if quick else (1000, 20)
    sizes = (1000,) if quick else (200, 1000, 4000)
    out = []
    for queries in sizes:
        for name, background in (("BayesLIME", 1), ("BayesSHAP", 1), ("BayesSHAP", 10)):
            if background * queries > 10_000:
                continue
            out.append(cell(name, queries, n_rows, peer_rows, background))
            print("  ".join(out[-1]), flush=True)
    head = ["explainer", "N", "background", "rows/s", "peer", "model rows", "of the floor"]
    body = table(head, out)
    body += f"\n\n{n_rows:,} rows, 12 columns, a forest of 100 trees, one worker. Peer: lime for "
    body += "BayesLIME, shap's KernelExplainer for BayesSHAP, row by row, same N, same background. "
    body += f"Targets: {LIME:g}× and {SHAP:g}×. The floor is the forest's own time."
    publish("batch", "Rows per second", "make bench-batch", body, quick=quick)


if __name__ == "__main__":
    main()
