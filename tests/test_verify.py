"""`verify`: measured coverage on one's own model."""

from dataclasses import replace

import numpy as np
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
    assert "hold the exact value (" in str(v)


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


@pytest.mark.parametrize("coverage", [0.8, 0.88, 0.92])
@pytest.mark.parametrize("rows", [5, 10, 40])
def test_low_coverage_is_not_called_safe(coverage, rows):
    """Hits of a row are correlated: the interval of the coverage knows it."""
    rng = np.random.default_rng(0)
    found = SHAP.explain_many(X.iloc[:rows], queries=60)
    called, held = [], []
    for _ in range(60):
        p = rng.beta(coverage * 4, (1 - coverage) * 4, size=rows)  # correlation 0.2
        reference = []
        for e, own in zip(found, p, strict=True):
            off = np.where(rng.random(e.belief.mean.shape) < own, 0.0, 1e3)
            belief = replace(e.belief, mean=e.belief.mean + off)
            reference.append(replace(e, estimate=replace(e.estimate, belief=belief)))
        v = compare(found, reference, 0.95)
        called.append("safe side" in v.verdict)
        held.append(v.low <= coverage <= v.high)
    assert not any(called)
    assert np.mean(held) > 0.9


def test_intervals_that_all_hold_have_an_uncertain_coverage():
    found = SHAP.explain_many(X.iloc[:10], queries=60)
    v = compare(found, list(found), 0.95)
    assert v.coverage == 1.0
    assert 0.9 < v.low < 0.97
    assert v.high == 1.0


@pytest.mark.parametrize("n", [1, 3])
def test_few_rows_are_too_few_to_tell(n):
    v = SHAP.verify(X, n, queries=60)
    assert "too few rows to tell" in str(v)
    assert "nan" not in str(v)
