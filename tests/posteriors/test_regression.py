"""The sandwich, its degrees of freedom and factors, against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from credex import LinearPosterior, Prior
from credex.posteriors import regression
from credex.posteriors.regression import inverse


def written_out(z, y, w, lam, *, flat, cluster):
    """Covariance ``(d, d, k)``, trace of the hat matrix and dof from dense matrices."""
    z, root = z.astype(float), np.sqrt(w)[:, None]
    centre, top = (w @ z / w.sum(), w @ y / w.sum()) if flat else (0.0, 0.0)
    a, b = root * (z - centre), root * (y - top)
    v = np.linalg.inv(a.T @ a + np.diag(lam))
    phi = v @ a.T @ b
    bias = v @ ((lam / np.maximum(1 - lam * np.diag(v), 1e-8))[:, None] * phi)
    influence = a @ v
    hat = (influence * a).sum(axis=1) + (w / w.sum() if flat else 0.0)
    e = (b - a @ (phi + bias)) / (1 - hat)[:, None]
    scores = influence[:, :, None] * e[:, None, :]
    scores = scores.reshape(len(z) // cluster, cluster, *scores.shape[1:]).sum(axis=1)
    dof = len(z) - hat.sum()
    rows = (influence**2).sum(axis=0) ** 2 / (influence**4).sum(axis=0)
    wider = stats.t.ppf(0.975, 1 + rows) / stats.t.ppf(0.975, dof)
    root = np.where(rows < min(30, dof), np.maximum(wider, 1.0), 1.0)
    out = np.einsum("nik,njk->ijk", scores, scores) + np.einsum("ik,jk->ijk", bias, bias)
    return out * np.outer(root, root)[:, :, None], hat.sum(), root**2


@pytest.mark.parametrize("n", [40, 150, 1200, 9000])
@pytest.mark.parametrize("d", [3, 12, 40])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("kind", ["masks", "numbers"])
@pytest.mark.parametrize("cluster", [1, 2])
def test_all_of_it_is_as_written_out(n, d, flat, kind, cluster):
    rng = np.random.default_rng(n + d)
    z = rng.random((n, d)) < 0.3
    z[:, 0] = rng.random(n) < 15 / n  # a column of which few rows tell
    z[0, 0] = True
    if kind == "numbers":
        z = z + 0.1 * rng.normal(size=z.shape)
    y = np.stack([z @ rng.normal(size=d), rng.normal(size=n) + 1e3], axis=1)
    w = rng.uniform(0.2, 1.0, n)
    lam = np.full(d, 1.0)
    p = LinearPosterior.fit(z, y, w, intercept="flat" if flat else "none", cluster=cluster)
    expected, trace, factors = written_out(z, y, w, lam, flat=flat, cluster=cluster)
    if kind == "masks" and n > 40:  # column 0 rests on about 15 rows
        assert factors[0] > 1.01
    got = p.robust_covariance()
    # Rounding is relative to the outputs, not to a variance that may be (almost) nothing: the
    # first output is exactly linear.
    scale = np.abs(y).max(axis=0) ** 2 * np.linalg.norm(p.v, 2)
    np.testing.assert_allclose(got / scale, expected / scale, rtol=1e-7, atol=1e-18)
    assert p.robust_dof == pytest.approx(max(n - trace, 1.0), rel=1e-9)


@pytest.mark.parametrize("precision", [0.0, 1e-12, (1.0, 0.0, 0.0, 2.0)])
def test_columns_that_say_the_same_count_once(precision):
    rng = np.random.default_rng(0)
    z = rng.random((200, 4)) < 0.5
    z[:, 2] = z[:, 1]
    y = z @ np.array([1.0, 2.0, 0.0, -1.0]) + rng.normal(size=200)
    p = LinearPosterior.fit(z, y, prior=Prior(precision=precision))
    alone = LinearPosterior.fit(z[:, [0, 1, 3]], y, prior=Prior(precision=1e-12))
    assert p.robust_dof == pytest.approx(alone.robust_dof, abs=0.1)
    assert p.mean[1] + p.mean[2] == pytest.approx(alone.mean[1], rel=0.05)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_an_inverse_does_not_depend_on_units(scale):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(50, 6))
    units = np.array([1.0, scale, 1.0, 1.0 / scale, 1.0, 1.0])
    gram = a.T @ a
    got = inverse(gram * np.outer(units, units)) * np.outer(units, units)
    np.testing.assert_allclose(got, np.linalg.inv(gram), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(got, got.T)


def test_masks_centred_last_are_as_centred_first():
    rng = np.random.default_rng(0)
    z = rng.random((500, 7)) < np.linspace(0.002, 0.998, 7)
    y, w = rng.normal(size=500), rng.uniform(1e-6, 1.0, 500)
    bits, numbers = LinearPosterior.fit(z, y, w), LinearPosterior.fit(z.astype(float), y, w)
    np.testing.assert_allclose(bits.mean, numbers.mean, rtol=1e-10, atol=1e-14)
    one, other = (p.interval(robust=True).width for p in (bits, numbers))
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_what_is_nearly_singular_is_told_in_any_units(scale):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(50, 3))
    a[:, 2] = a[:, 1] + 1e-8 * rng.normal(size=50)
    units = scale * np.array([1.0, 30.0, 1.0])
    got = inverse((a * units).T @ (a * units)) * np.outer(units, units)
    assert 1e7 < got[1, 1] < 1e9  # a jitter of 1e-10, not the digits that are lost


@pytest.mark.parametrize("precision", [0.0, 1e-12, 1.0])
def test_a_column_of_ones_says_nothing(precision):
    rng = np.random.default_rng(0)
    for _ in range(20):
        z = rng.random((300, 5)) < 0.3
        z[:, 4] = True
        y, w = z @ rng.normal(size=5) + rng.normal(size=300), rng.uniform(0.3, 1.0, 300)
        p = LinearPosterior.fit(z, y, w, prior=Prior(precision=precision))
        rest = LinearPosterior.fit(z[:, :4], y, w, prior=Prior(precision=precision))
        assert p.mean[4] == 0.0
        assert p.intercept == pytest.approx(rest.intercept, abs=1e-7)
        np.testing.assert_allclose(p.mean[:4], rest.mean, rtol=1e-6)


@pytest.mark.parametrize("kind", [bool, float])
def test_no_column_at_all(kind):
    y = np.arange(9.0)
    p = LinearPosterior.fit(np.empty((9, 0), dtype=kind), y)
    assert (p.intercept, p.robust_dof, p.dof) == (4.0, 8.0, pytest.approx(8.0, abs=1e-3))
    assert p.interval(robust=True).width.shape == (0,)


def test_a_strong_prior_leaves_the_count_of_rows_its_digits(monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.random((900, 3)) < 0.5
    z[:, 2] = np.arange(900) < 3
    y, w = rng.normal(size=900), np.where(np.arange(900) < 3, 1e-9, 1.0)
    p, again = (LinearPosterior.fit(z, y, w, prior=Prior(precision=1e6)) for _ in range(2))
    variance = p.robust_covariance()[2, 2]
    monkeypatch.setattr(regression, "ENOUGH_ROWS", 0.0)  # no widening
    few, many = stats.t.ppf(0.975, [4, p.robust_dof])  # three rows and one more
    expected = (few / many) ** 2
    assert variance / again.robust_covariance()[2, 2] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-10, 1e-13, 1e-16])
def test_rows_of_hardly_any_weight_are_no_certainty(scale):
    rng = np.random.default_rng(0)
    z = rng.random((400, 4)) < 0.5
    phi = np.array([1.0, 2.0, 3.0, 0.0])
    y = z @ phi + 0.1 * rng.normal(size=400)
    p = LinearPosterior.fit(z, y, np.full(400, scale))
    assert phi in p.interval(robust=True)


def test_a_kernel_that_sees_one_row_only_measures_nothing():
    rng = np.random.default_rng(0)
    z = rng.random((400, 3)) < 0.5
    y = z @ np.array([1.0, 2.0, 3.0])
    w = np.full(400, 1e-30)
    w[0] = 1.0
    p = LinearPosterior.fit(z, y, w)
    assert p.unidentified.all()
    assert (p.interval(robust=True).width > 2 * y.std()).all()
