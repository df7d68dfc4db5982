"""Explain one prediction of a random forest, with intervals; ``make demo`` runs this."""

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import credex as cx

mpl.use("Agg")  # write a file, open no window

# A model as anybody would train it: a pandas frame in, class names out.
data = load_breast_cancer(as_frame=True)
diagnosis = data.target.map(dict(enumerate(data.target_names)))
X_train, X_test, y_train, y_test = train_test_split(data.data, diagnosis, random_state=0)
model = RandomForestClassifier(n_estimators=100, random_state=0).fit(X_train, y_train)
x = X_test.iloc[0]
print(f"A random forest is right about {model.score(X_test, y_test):.0%} of new tumours.")
print("Why does it call this one malignant?\n")

# BayesSHAP: ask for certainty, not for a number of samples.
shap = cx.BayesSHAP(model, X_train, target="malignant").explain(x, width=0.05)
print(shap)
print("""
The importances share out the difference between this prediction and the average one over all rows
of the training data. Rows were asked until no 95 % interval was wider than 0.05. The intervals
include the coalitions and the background rows that were not asked.
""")

# BayesLIME: a linear model around the instance, on quartile bins.
lime = cx.BayesLIME(model, X_train, target="malignant").explain(x, width=0.05)
print(lime)
print("""
Around this tumour, having a value in the bin named, rather than in another one, changes the
prediction by so much. Where the interval includes 0, even the direction is open.
""")

fig, (left, right) = plt.subplots(1, 2, figsize=(16, 6), layout="constrained")
shap.plot.intervals(most=12, ax=left)
lime.plot.intervals(most=12, ax=right)
out = Path("out/demo.png")
out.parent.mkdir(exist_ok=True)
fig.savefig(out, dpi=120)
report = shap.report(out.with_suffix(".html"), title="Why is this tumour called malignant?")
print(f"The picture of both is in {out}, an interactive report of the first in {report}.")
