"""Rows: packed and unpacked without loss, cut into chunks that cover everything."""

import tracemalloc

import numpy as np
import pytest

from credex import LinearPosterior, Prior
from credex import history as packed_rows
from credex.history import MAX_CHUNK_ROWS, Rows, spans


@pytest.mark.parametrize("d", [1, 7, 8, 9, 12, 64, 65])
@pytest.mark.parametrize("n", [1, 2, 333, MAX_CHUNK_ROWS + 5])
def test_masks_come_back_as_they_were(n, d):
    rng = np.random.default_rng(d)
    z = rng.random((n, d)) < 0.5
    rows = Rows().add(z[: n // 2], np.zeros((n // 2, 1)), np.ones(n // 2)) if n > 1 else Rows()
    rows = rows.add(z[n // 2 :], np.zeros((n - n // 2, 1)), np.ones(n - n // 2))
    np.testing.assert_array_equal(rows.design(), z)
    bits = np.concatenate([b.packed for b in rows.blocks])
    np.testing.assert_array_equal(bits, np.packbits(z, axis=1))  # what JSON files hold


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1001, 12), (9000, 3), (5000, 100), (700, 5000)])
def test_spans_cover_all_rows_once_and_never_part_a_pair(n, d):
    parts = list(spans(n, d))
    assert [i for p in parts for i in range(p.start, p.stop)] == list(range(n))
    assert all(p.start % 2 == 0 for p in parts)


@pytest.mark.parametrize("design", ["masks", "numbers"])
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_fit_does_not_depend_on_how_rows_are_cut(design, cluster, monkeypatch):
    rng = np.random.default_rng(1)
    z = rng.random((3000, 9)) < 0.3
    z = z if design == "masks" else z + rng.normal(size=z.shape)
    y = np.stack([z @ rng.normal(size=9) + rng.normal(size=3000), 1e6 + z[:, 0] * 2.0], axis=1)
    w = rng.random(3000)

    def fitted():
        p = LinearPosterior.fit(z, y, w, cluster=cluster)
        return p.mean, p.robust_covariance(), np.asarray(p.robust_dof), p.s2, p.r2

    whole = fitted()
    monkeypatch.setattr(packed_rows, "CHUNK_BYTES", 1)  # 256 rows at a time
    for a, b in zip(whole, fitted(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_a_fit_unpacks_a_bounded_number_of_rows():
    rng = np.random.default_rng(0)
    n, d = 100_000, 30
    rows = Rows().add(rng.random((n, d)) < 0.5, rng.normal(size=(n, 1)), np.ones(n))
    LinearPosterior.fit(np.eye(3), np.ones(3)).interval(robust=True)  # imports SciPy
    tracemalloc.start()
    try:
        p = LinearPosterior(rows, Prior(), "flat", squeeze=False)
        p.interval(robust=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6  # all rows as floats take 24 MB


@pytest.mark.parametrize("d", [1, 3, 8, 11])
def test_any_piece_of_packed_rows_can_be_read(d):
    z = np.random.default_rng(d).random((37, d)) < 0.5
    (block,) = Rows().add(z, np.zeros((37, 1)), np.ones(37)).blocks
    assert block.packed.shape == (37, -(-d // 8))
    for start in range(37):
        for stop in range(start, 38):
            np.testing.assert_array_equal(block.design(start, stop), z[start:stop])
