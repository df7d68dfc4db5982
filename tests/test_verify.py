"""`verify`: measured coverage on one's own model."""

from dataclasses import replace

import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import credex as cx
from credex.verify import compare

X, y = load_diabetes(return_X_y=True, as_frame=True)
FOREST = RandomForestRegressor(30, random_state=0).fit(X, y)
SHAP = cx.BayesSHAP(FOREST, cx.Tabular(X, background=5))


def test_honest_intervals_pass():
    v = SHAP.verify(X, 12, queries=60)
    assert v.exact
    assert v.rows == 12
    assert v.features == 120
    assert 0.85 < v.coverage <= 1
    assert v.low <= v.coverage <= v.high
    assert "narrow" not in v.verdict
    assert "exact values" in str(v)


def test_dishonest_intervals_are_called_too_narrow():
    """The same explanations with intervals a fifth as wide."""
    rows = X.iloc[:12]
    found = SHAP.explain_many(rows, queries=60)
    truth = list(SHAP.explain_many(rows, posterior="exact"))
    honest = compare(found, truth, 0.95)
    narrow = []
    for e in found.explained:
        belief = replace(e.belief, scale=e.belief.scale / 25)
        narrow.append(replace(e, estimate=replace(e.estimate, belief=belief)))
    v = compare(replace(found, items=tuple(narrow)), truth, 0.95)
    assert "too narrow" in v.verdict
    assert v.coverage < 0.7 < honest.coverage
    assert "too narrow" in str(v)


def test_a_sampled_reference_says_so():
    v = cx.BayesLIME(FOREST, X).verify(X, 6, queries=150)
    assert not v.exact
    assert "much larger run" in str(v)
    assert v.n_model_rows > 10_000


def test_nothing_to_check():
    v = SHAP.verify(X, 2, posterior="exact")
    assert v.features == 0
    assert "exactly" in str(v)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_bad_n(n):
    with pytest.raises(cx.InputError, match="n must"):
        SHAP.verify(X, n)


@pytest.mark.parametrize("n", [1, 3])
def test_few_rows_are_too_few_to_tell(n):
    v = SHAP.verify(X, n, queries=60)
    assert "too few rows to tell" in str(v)
    assert "nan" not in str(v)
