"""Dtypes, names, order and index survive every way of making rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credex import BayesSHAP
from credex.cells import is_missing
from credex.domains import Tabular
from credex.domains.tabular.columns import rounded
from credex.domains.tabular.table import Table
from credex.errors import InputError
from tests.needs import need

pl = need("polars")

RNG = np.random.default_rng(0)


def masks(n: int, d: int) -> Any:
    return np.random.default_rng(1).random((n, d)) < 0.5


def same_pandas(left: pd.DataFrame, right: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(left, right, check_exact=True)


def brute(background: pd.DataFrame, x: pd.DataFrame, rows: Any) -> pd.DataFrame:
    """Mask by mask, cell by cell, with pandas' own tools."""
    blocks = []
    for mask in rows:
        block = background.copy()
        for j, keep in enumerate(mask):
            if keep:
                one = pd.concat([x.iloc[:, j]] * len(block))
                one.index = block.index
                block.isetitem(j, one)
        blocks.append(block)
    return pd.concat(blocks)


def expand(rows: Any, index: Any, shape: tuple[int, int]) -> Any:
    """Undo the merging of equal rows."""
    flat = np.arange(shape[0] * shape[1]) if index is None else index.reshape(-1)
    return rows[flat] if isinstance(rows, np.ndarray | pl.DataFrame) else rows.iloc[flat]


def test_pandas_coalitions_equal_cell_by_cell(frame: pd.DataFrame) -> None:
    domain = Tabular(frame, background=20)
    here = domain.at(frame.iloc[[5]])
    zs = masks(40, len(here.names))
    rows, index = here.coalition_inputs(zs)
    assert index is None
    expected = brute(here.base_inputs(), frame.iloc[[5]], zs)
    same_pandas(rows, expected)
    assert rows.columns.name == "column"
    assert rows.index.name == "id"
    same_pandas(here.instance_inputs(), frame.iloc[[5]])
    assert set(here.base_inputs().index) <= set(frame.index)


def test_base_rows_are_training_rows(frame: pd.DataFrame) -> None:
    base = Tabular(frame, background=20).at(frame.iloc[0]).base_inputs()
    same_pandas(base, frame.loc[base.index])


def test_default_index_stays_default(plain_frame: pd.DataFrame) -> None:
    here = Tabular(plain_frame, background=10).at(plain_frame.iloc[7])
    rows, _ = here.coalition_inputs(masks(6, len(here.names)))
    default = pd.RangeIndex(len(rows))
    assert isinstance(rows.index, pd.RangeIndex)
    assert rows.index.equals(default)
    assert here.perturb(0, 0, 9).inputs().index.equals(pd.RangeIndex(9))
    assert here.label == 7


def test_numeric_frame_uses_one_buffer_and_keeps_labels() -> None:
    data = pd.DataFrame(
        RNG.normal(size=(30, 3)), columns=[3, 1, 2], index=pd.date_range("2020", periods=30)
    )
    domain = Tabular(data, background="all")
    assert domain.column_names == ("3", "1", "2")
    here = domain.at(data.iloc[[4]])
    zs = masks(11, 3)
    rows, _ = here.coalition_inputs(zs)
    same_pandas(rows, brute(here.base_inputs(), data.iloc[[4]], zs))
    assert rows.columns.equals(data.columns)
    assert isinstance(rows.index, pd.DatetimeIndex)
    assert here.instance_inputs().index[0] == data.index[4]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "int16", "bool"])
def test_homogeneous_dtypes_survive(dtype: str) -> None:
    array = RNG.integers(0, 2 if dtype == "bool" else 90, (40, 4)).astype(dtype)
    for data in (array, pd.DataFrame(array)):
        here = Tabular(data).at(array[3])
        rows, index = here.coalition_inputs(masks(50, 4))
        found = rows.dtype if isinstance(rows, np.ndarray) else set(rows.dtypes)
        assert found in (np.dtype(dtype), {np.dtype(dtype)})
        values = np.asarray(expand(rows, index, (50, len(here.background_weights))))
        base = np.asarray(here.base_inputs())
        expected = np.where(masks(50, 4)[:, None, :], array[3], base).reshape(-1, 4)
        np.testing.assert_array_equal(values, expected)


def test_numpy_rows_are_contiguous(floats: Any) -> None:
    rows, _ = Tabular(floats).at(floats[0]).coalition_inputs(masks(9, 5))
    assert rows.flags.c_contiguous
    assert rows.dtype == np.float64


def test_polars_coalitions_equal_cell_by_cell(polars: pl.DataFrame) -> None:
    here = Tabular(polars, background=15).at(polars[3])
    zs = masks(30, polars.width)
    rows, index = here.coalition_inputs(zs)
    assert index is None
    assert rows.schema == polars.schema
    base = here.base_inputs()
    assert base.schema == polars.schema
    got = rows.rows()
    for i, mask in enumerate(zs):
        for b in range(base.height):
            pairs = zip(mask, polars.row(3), base.row(b), strict=True)
            assert got[i * base.height + b] == tuple(x if keep else own for keep, x, own in pairs)


@pytest.mark.parametrize("bins", ["quartile", None])
@pytest.mark.parametrize("around", ["training", "instance"])
def test_perturbed_dtypes(
    frame: pd.DataFrame, polars: pl.DataFrame, bins: Any, around: Any
) -> None:
    known = frame.dropna()
    here = Tabular(frame, bins=bins, around=around).at(known.iloc[0])
    out = here.perturb(1, 0, 50).inputs()
    assert out.dtypes.equals(frame.dtypes)
    assert out.columns.equals(frame.columns)
    assert set(out.index) <= set(frame.index)
    assert out["town"].cat.categories.equals(frame["town"].cat.categories)
    full = polars.drop_nulls()
    there = Tabular(polars, bins=bins, around=around).at(full[0])
    assert there.perturb(1, 0, 50).inputs().schema == polars.schema


def test_object_arrays_keep_python_values() -> None:
    data = np.array(
        [[1, "a", True, None], [2, "b", False, "t"], [3, "a", True, "t"], [7, "c", False, "s"]],
        dtype=object,
    )
    table = Table.of(data)
    assert table.kinds == ("number", "category", "boolean", "category")
    here = Tabular(data).at([3, "new", False, None])
    rows, index = here.coalition_inputs(np.array([[True, False, True, True]]))
    assert expand(rows, index, (1, 4)).tolist() == [
        [3, "a", False, None],
        [3, "b", False, None],
        [3, "a", False, None],
        [3, "c", False, None],
    ]
    assert all(type(v) is int for v in rows[:, 0])


def test_object_columns_of_dates_and_decimals() -> None:
    day, moment = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)  # noqa: DTZ001
    data = pd.DataFrame(
        {
            "day": [day + dt.timedelta(days=i) for i in range(9)],
            "moment": pd.Series([moment + dt.timedelta(hours=i) for i in range(9)], dtype=object),
            "aware": pd.Series(
                [moment.replace(tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(9)],
                dtype=object,
            ),
            "paid": [Decimal(i) / 4 for i in range(9)],
            "lasted": pd.Series([dt.timedelta(hours=i) for i in range(9)], dtype=object),
        }
    )
    table = Table.of(data)
    assert table.kinds == ("date", "date", "date", "number", "date")
    out = Tabular(data, bins=None).at(data.iloc[2]).perturb(0, 0, 20).inputs()
    kinds = (dt.date, dt.datetime, dt.datetime, Decimal, dt.timedelta)
    for name, kind in zip(data, kinds, strict=True):
        assert all(type(v) in (kind, pd.Timestamp) for v in out[name]), name
    for j in range(5):
        back = table.backend.from_floats(table.columns[j], table.floats(j))
        assert list(back) == list(data.iloc[:, j])
    assert Tabular(data).at(data.iloc[2]).feature_labels[0] == "day ≤ 2020-01-03"


def test_numpy_text_and_dates() -> None:
    words = np.array([["ab", "x"], ["c", "y"], ["ab", "z"]])
    here = Tabular(words).at(["a longer word", "x"])
    rows, index = here.coalition_inputs(np.array([[True, False]]))
    assert expand(rows, index, (1, 3)).tolist() == [
        ["a longer word", "x"],
        ["a longer word", "y"],
        ["a longer word", "z"],
    ]
    days = np.array([["2020-01-01", "2021-01-01"], ["2020-03-01", "NaT"]], dtype="M8[D]")
    there = Tabular(days).at(days[0])
    rows, _ = there.coalition_inputs(np.array([[False, True]]))
    assert rows.dtype == days.dtype
    assert there.perturb(0, 0, 5).inputs().dtype == days.dtype


@given(
    st.lists(st.floats(-1e25, 1e25), min_size=1, max_size=20),
    st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64]),
)
@settings(max_examples=60, deadline=None)
def test_rounding_never_wraps(values: list[float], dtype: Any) -> None:
    out = rounded(np.array(values), np.dtype(dtype))
    info = np.iinfo(dtype)
    for value, got in zip(values, out.tolist(), strict=True):
        assert got == min(max(round(value), info.min), info.max)


def test_floats_round_trip(frame: pd.DataFrame, polars: pl.DataFrame) -> None:
    for data in (frame, polars):
        table = Table.of(data)
        for j, kind in enumerate(table.kinds):
            if kind in ("number", "date"):
                values = table.floats(j)
                if table.names[j] == "when" and data is polars:
                    continue  # nanoseconds have more digits than a float
                back = table.backend.from_floats(table.columns[j], values)
                assert back.dtype == table.columns[j].dtype
                for a, b in zip(list(back), table.objects(j), strict=True):
                    assert is_missing(b) if is_missing(a) else a == b


def test_periods_intervals_and_tuples() -> None:
    data = pd.DataFrame(
        {
            "month": pd.period_range("2020-01", periods=6, freq="M"),
            "band": pd.cut(np.arange(6.0), 3),
            "k": np.arange(6),
        }
    )
    data.columns = pd.MultiIndex.from_tuples([("a", "month"), ("a", "band"), ("b", "k")])
    domain = Tabular(data)
    assert domain.names == ("a / month", "a / band", "b / k")
    here = domain.at(data.iloc[1])
    rows, _ = here.coalition_inputs(masks(5, 3))
    assert rows.dtypes.equals(data.dtypes)
    assert rows.columns.equals(data.columns)
    again = domain.at(domain.restore(here.payload()))
    same_pandas(again.instance_inputs(), here.instance_inputs())


def test_the_users_data_may_change_later(frame: pd.DataFrame, floats: Any) -> None:
    kept = floats.copy()
    domain = Tabular(floats, background="all")
    floats[:] = 0
    np.testing.assert_array_equal(domain.at(kept[0]).base_inputs(), kept)
    wide = Tabular(frame, background="all")
    before = wide.at(frame.iloc[0]).base_inputs()
    first = frame.iloc[[0]].copy()
    frame.loc[:, "age"] = 0
    frame.loc[:, "thing"] = "w"
    same_pandas(wide.at(first).base_inputs(), before)


def test_what_is_handed_out_may_be_changed(floats: Any) -> None:
    here = Tabular(floats, background="all").at(floats[0])
    here.base_inputs()[:] = 9
    here.instance_inputs()[:] = 9
    np.testing.assert_array_equal(here.base_inputs(), floats)
    np.testing.assert_array_equal(here.instance_inputs()[0], floats[0])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros(3), "dimension"),
        (np.zeros((0, 3)), "0 rows"),
        (np.zeros((3, 0)), "0 columns"),
        (np.zeros((2, 2), dtype=complex), "complex"),
        ([[1, 2]], "list"),
        (pd.DataFrame(), "0 rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "repeat: 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "repeat: '1'"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "to_dense"),
        (pd.Series([1, 2]), "Series"),
        (pl.DataFrame({"a": [[1], [2]]}), "unnest"),
        (pl.DataFrame(), "0 rows"),
    ],
)
def test_bad_training_data(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Tabular(data)


def test_values_that_cannot_be_compared() -> None:
    data = pd.DataFrame({"a": [[1], [2], [1]], "b": [1, 2, 3]})
    with pytest.raises(InputError, match="'a'"):
        Tabular(data).at(data.iloc[0])


MASK = np.array([[False, True, False], [False] * 3, [False] * 3, [False, False, True]])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_masked_entries_are_missing_values(dtype: str) -> None:
    numbers = np.arange(12).reshape(4, 3)
    data = np.ma.masked_array(numbers.astype(dtype), mask=MASK)
    expected = np.where(MASK, np.nan, numbers)
    domain = Tabular(data, background="all")
    base = domain.at(data[1]).base_inputs()
    assert type(base) is np.ndarray
    assert base.dtype == (dtype if dtype[0] == "f" else "f8")
    np.testing.assert_array_equal(base, expected)
    row = np.ma.masked_array(numbers[0].astype(dtype), mask=MASK[0])
    values = (0.0, None, 2.0)
    for x in (row, row[None, :], list(row), dict(zip(domain.names, row, strict=True))):
        assert domain.at(x).values == values
    for x, expected_row in zip(domain.split(data), expected, strict=True):
        np.testing.assert_array_equal(domain.at(x).instance_inputs()[0], expected_row)
    with pytest.raises(InputError, match=r"'x1'.*missing"):
        Tabular(numbers.astype(float)).at(row)


def test_arrays_without_masked_entries_keep_their_dtype() -> None:
    data = np.ma.masked_array(np.arange(6).reshape(2, 3))
    assert Tabular(data).at(data[0]).base_inputs().dtype == np.int64
    words = np.ma.masked_array([["a", "b"], ["c", "d"]])
    assert Tabular(words).at(words[0]).values == ("a", "b")


@pytest.mark.parametrize("dtype", ["bool", "U3", "O", "M8[D]"])
def test_masked_entries_of_other_dtypes_are_refused(dtype: str) -> None:
    data = np.ma.masked_array(np.zeros((4, 3)).astype("i8").astype(dtype), mask=MASK)
    with pytest.raises(InputError, match=r"masked.*filled"):
        Tabular(data)
    with pytest.raises(InputError, match=r"masked.*filled"):
        Tabular(data.data).at(data[0])


def test_rows_are_encoded_as_mean_ranks_and_codes():
    """Ties share a rank, missing values are −1, weights count, and the instance fits in."""
    table = pd.DataFrame(
        {"a": [1.0, 3.0, 3.0, np.nan, 9.0], "b": ["u", "v", "u", "w", "v"], "c": [0, 1, 2, 3, 4]}
    )
    weights = [1.0, 2.0, 3.0, 4.0, 2.0]
    nb = Tabular(table, weights=weights).at(table.iloc[2])
    x, background = nb.encoded, nb.encode(np.arange(5))
    np.testing.assert_allclose(background[:, 0], [0.5 / 8, 3.5 / 8, 3.5 / 8, -1.0, 7.0 / 8])
    np.testing.assert_allclose(background[:, 2], [0.5 / 12, 2 / 12, 4.5 / 12, 8 / 12, 11 / 12])
    np.testing.assert_allclose(x[0, [0, 2]], background[2, [0, 2]], rtol=1e-12)
    for j in range(5):
        assert (background[j, 1] == x[0, 1]) == (table.b[j] == "u")
    new = pd.Series({"a": 4.0, "b": "never seen", "c": -1})
    nb = Tabular(table, weights=weights).at(new)
    x, background = nb.encoded, nb.encode(np.arange(5))
    np.testing.assert_allclose(x[0, [0, 2]], [6.0 / 8, 0.0])
    assert x[0, 1] not in background[:, 1]


def test_a_background_without_equal_rows_is_not_copied():
    X = np.random.default_rng(0).normal(size=(50, 3))
    domain = Tabular(X)
    assert domain._training.background is domain._training.table
    twice = Tabular(np.concatenate([X, X]))
    assert twice._training.background.n_rows == 50


def test_equal_rows_are_found_whatever_their_hashes():
    """Rows with the same hash and other values are told apart by their values."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 3, size=(400, 3)).astype(float)
    summary = Tabular(table)._training.summary
    assert len(summary.rows) == len(np.unique(table, axis=0))
    for row, weight in zip(summary.rows, summary.weights, strict=True):
        assert weight == pytest.approx((table == table[row]).all(axis=1).mean())

    def mixed(first: int) -> int:  # the hash of one column
        key = first * 0x9E3779B97F4A7C15 % 2**64
        return key ^ key >> 29

    a, b = 5, 11
    second = np.array([7, 7 ^ mixed(a) ^ mixed(b)], dtype=np.uint64).view(np.int64)
    collide = np.column_stack([np.array([a, b]), second])
    assert len(Tabular(np.concatenate([collide, collide[:1]]))._training.summary.rows) == 2


def test_a_large_background_is_not_copied_whole():
    """Beside the table, an explanation holds some numbers per row, none per cell."""
    import tracemalloc

    X = np.random.default_rng(0).normal(size=(200_000, 20))
    explainer = BayesSHAP(lambda rows: rows[:, 0] * rows[:, 1], X)
    explainer.explain(X[0], queries=60)  # loads what is imported on the way
    explainer = BayesSHAP(lambda rows: rows[:, 0] * rows[:, 1], X)
    tracemalloc.start()
    try:
        explainer.explain(X[1], queries=60)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.8 * X.nbytes
