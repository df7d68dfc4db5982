"""Explain one prediction of a random forest, with intervals; ``make demo`` runs this."""

from pathlib import Path

import matplotlib as mpl
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import credex as cx

mpl.use("Agg")  # write files, open no window
OUT = Path("out")

# A model as anybody would train it: a pandas frame in, class names out.
data = load_breast_cancer(as_frame=True)
diagnosis = data.target.map(dict(enumerate(data.target_names)))
X_train, X_test, y_train, y_test = train_test_split(data.data, diagnosis, random_state=0)
model = RandomForestClassifier(n_estimators=100, random_state=0).fit(X_train, y_train)
print(f"A random forest on {len(X_train)} tumours; {model.score(X_test, y_test):.0%} of the")
print(f"{len(X_test)} others are told apart. Why does it say what it says about this one?\n")

# The test case the model is least sure about.
unsure = abs(model.predict_proba(X_test)[:, 0] - 0.5).argmin()
x = X_test.iloc[unsure]

# BayesSHAP. Ask for certainty, not for a number of samples: no interval wider than 0.05.
shap = cx.BayesSHAP(model, X_train, target="malignant")
why = shap.explain(x, width=0.05)
print(why)
print("""
Read it like this: the importances share out the difference between this prediction and the
average one. Sampling went on until no 95 % interval was wider than 0.05.
""")

# BayesLIME. A straight line around the instance, on quartile bins.
lime = cx.BayesLIME(model, X_train, target="malignant")
line = lime.explain(x, width=0.05)
print(line)
print("""
Read it like this: near this tumour, a value inside the bin named changes the prediction by so
much, compared with a value outside it. An interval that includes 0 leaves the sign open.
""")

OUT.mkdir(exist_ok=True)
for name, e in {"demo-shap.png": why, "demo-lime.png": line}.items():
    e.plot.intervals(most=12).figure.savefig(OUT / name, dpi=150)
    print(f"picture: {OUT / name}")
