"""The many forms of an instance, batches, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credex.domains import Tabular
from credex.errors import InputError
from tests.needs import need

pl = need("polars")

DATA = pd.DataFrame(
    {
        "n": [1, 2, 3, 4],
        "v": [0.5, 1.5, 2.5, 3.5],
        "s": ["a", "b", "a", "c"],
        "c": pd.Categorical(["p", "q", "p", "q"]),
        "b": [True, False, True, False],
        "t": pd.date_range("2020-01-01", periods=4),
    }
)
ONE = {"n": 3, "v": 9.0, "s": "new", "c": "q", "b": False, "t": pd.Timestamp("2020-05-05")}
POLARS = pl.DataFrame(
    {
        "n": [1, 2, 3],
        "s": ["a", "b", "a"],
        "e": pl.Series(["p", "q", "p"], dtype=pl.Enum(["p", "q"])),
        "k": pl.Series(["p", "q", "p"], dtype=pl.Categorical),
        "d": pl.Series([18000, 18001, 18005], dtype=pl.Int32).cast(pl.Date),
    }
)


@pytest.mark.parametrize(
    "x",
    [
        list(ONE.values()),
        tuple(ONE.values()),
        ONE,
        dict(reversed(ONE.items())),
        pd.Series(ONE),
        pd.Series(ONE)[::-1],
        pd.DataFrame([ONE]),
        pd.DataFrame([ONE])[["t", "b", "c", "s", "v", "n"]],
        np.array(list(ONE.values()), dtype=object),
        np.array([list(ONE.values())], dtype=object),
        [list(ONE.values())],
        {**ONE, "n": 3.0, "b": 0, "t": "2020-05-05"},
        {**ONE, "n": np.float64(3), "t": np.datetime64("2020-05-05")},
        pl.DataFrame([ONE]),
    ],
)
def test_forms_of_one_row(x: Any) -> None:
    row = Tabular(DATA).at(x).instance_inputs()
    assert row.dtypes.equals(DATA.dtypes)
    assert row.iloc[0].tolist() == list(ONE.values())


@pytest.mark.parametrize(
    "x", [[1.0, 2.0], (1, 2), np.array([[1, 2]]), pd.Series([1, 2]), {"x0": 1, "x1": 2}]
)
def test_forms_for_arrays(x: Any) -> None:
    out = Tabular(np.array([[0.0, 5.0], [3.0, 4.0]])).at(x).instance_inputs()
    assert out.dtype == np.float64
    assert out.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 3.5}, "'n'.*3.5"),
        ({"n": 1e30}, "'n'.*1e\\+30"),
        ({"n": "3"}, "'n'.*'3'"),
        ({"n": None}, "'n'.*missing=True"),
        ({"n": float("nan")}, "'n'.*missing=True"),
        ({"v": float("nan")}, "'v'.*missing=True"),
        ({"v": "x"}, "'v'.*'x'"),
        ({"s": 5}, "'s'.*5"),
        ({"s": None}, "'s'.*missing=True"),
        ({"c": "zzz"}, "'c'.*'zzz'.*'p', 'q'"),
        ({"b": 2}, "'b'.*2"),
        ({"b": "yes"}, "'b'.*'yes'"),
        ({"t": 5}, "'t'.*5"),
        ({"t": "not a day"}, "'t'"),
        ({"t": pd.Timestamp("2020", tz="UTC")}, "'t'"),
    ],
)
def test_values_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Tabular(DATA).at({**ONE, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 1.5}, "'n'.*1.5"),
        ({"n": "x"}, "'n'"),
        ({"s": 5}, "'s'.*5"),
        ({"e": "zz"}, "'e'.*'zz'.*'p', 'q'"),
        ({"k": "zz"}, "'k'.*'zz'.*'p', 'q'"),
        ({"d": "x"}, "'d'"),
        ({"d": 3}, "'d'"),
        ({"d": pd.Timedelta("3D")}, "'d'.*Date"),
        ({"d": dt.time(3)}, "'d'.*Date"),
        ({"n": None}, "missing=True"),
    ],
)
def test_values_that_do_not_fit_polars(change: dict[str, Any], words: str) -> None:
    one = {"n": 1, "s": "new", "e": "q", "k": "p", "d": "2020-02-02"}
    domain = Tabular(POLARS)
    assert domain.at(one).instance_inputs().schema == POLARS.schema
    with pytest.raises(InputError, match=words):
        domain.at({**one, **change})


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1, 2], "2 values.*6 columns"),
        (np.zeros(7), "7 values"),
        (np.zeros((2, 6)), "explain_many"),
        (DATA, "4 rows.*explain_many"),
        ({k: v for k, v in ONE.items() if k != "v"}, "missing 'v'"),
        ({**ONE, "zip": 1}, "unknown 'zip'"),
        (pd.Series(ONE).rename({"v": "w"}), "missing 'v'; unknown 'w'"),
        (None, "None"),
        (3.0, "float"),
        ("text", "str"),
    ],
)
def test_rows_that_do_not_fit(x: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Tabular(DATA).at(x)


def test_numeric_buffers_check_too() -> None:
    domain = Tabular(np.arange(12).reshape(4, 3))
    with pytest.raises(InputError, match=r"'x1'.*2\.5"):
        domain.at([1.0, 2.5, 3.0])
    with pytest.raises(InputError, match="'x2'"):
        domain.at(np.array([1.0, 2.0, 1e19]))
    with pytest.raises(InputError, match=r"'x0'.*missing=True"):
        domain.at(np.array([np.nan, 2.0, 1.0]))
    assert domain.at(np.array([1.0, 2.0, 3.0])).instance_inputs().dtype == np.int64
    single = Tabular(np.ones((3, 2), np.float32))
    with pytest.raises(InputError, match=r"'x0'.*float32"):
        single.at([1e300, 1.0])


def test_missing_true_widens_only_what_it_must() -> None:
    data = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6], "f": [True, False, True]})
    domain = Tabular(data, missing=True)
    here = domain.at([None, 5, None])
    rows, _ = here.coalition_inputs(np.eye(3, dtype=bool))
    assert rows.dtypes.tolist() == [np.dtype(float), np.dtype(int), np.dtype(object)]
    assert here.instance_inputs().dtypes.equals(rows.dtypes)
    assert here.base_inputs().dtypes.equals(rows.dtypes)
    usual = domain.at([1, 5, True])
    assert usual.coalition_inputs(np.eye(3, dtype=bool))[0].dtypes.equals(data.dtypes)
    assert here.base_key != usual.base_key
    assert here.active.tolist() == [True, True, True]
    block = Tabular(data[["a", "b"]], missing=True).at([np.nan, 4])
    rows, _ = block.coalition_inputs(np.ones((1, 2), bool))
    assert rows.dtypes.tolist() == [np.dtype(float), np.dtype(int)]
    array = Tabular(data[["a", "b"]].to_numpy(), missing=True).at([np.nan, 4])
    rows, _ = array.coalition_inputs(np.array([[True, False]]))
    np.testing.assert_array_equal(rows, [[np.nan, 4], [np.nan, 5], [np.nan, 6]])
    assert Tabular(data, missing=True).at([None, 5, None]).perturb(0, 0, 4).design.shape == (4, 3)


def test_missing_false_refuses_training_gaps() -> None:
    with pytest.raises(InputError, match="'x0'"):
        Tabular(np.array([[np.nan, 1.0], [2.0, 1.0]]), missing=False)
    with pytest.raises(InputError, match="missing"):
        Tabular(np.ones((2, 2)), missing=False).at([np.nan, 1.0])


def test_missing_is_fine_where_training_has_it() -> None:
    data = pd.DataFrame({"a": [1.0, np.nan, 2.0], "s": ["u", None, "v"]})
    here = Tabular(data).at([None, None])
    assert here.values == (None, None)
    assert here.active.tolist() == [True, True]
    assert Tabular(data.iloc[[1]]).at([None, np.nan]).active.tolist() == [False, False]


def test_split_keeps_labels_and_bad_rows_fail_alone() -> None:
    domain = Tabular(DATA)
    batch = DATA.astype({"n": float})[["t", "b", "c", "s", "v", "n"]].set_axis(list("wxyz"))
    batch.loc["x", "n"] = np.nan
    rows = domain.split(batch)
    assert domain.at(rows[0]).label == "w"
    assert domain.at(rows[2]).instance_inputs().dtypes.equals(DATA.dtypes)
    with pytest.raises(InputError, match="'n'"):
        domain.at(rows[1])
    with pytest.raises(InputError, match="missing 'v'"):
        domain.split(batch.drop(columns="v"))
    with pytest.raises(InputError, match="5 values"):
        domain.split(np.zeros((3, 5)))
    with pytest.raises(InputError, match="shape"):
        domain.split(np.zeros(6))
    with pytest.raises(InputError, match="int"):
        domain.split(3)


def test_categories_in_another_order() -> None:
    batch = DATA.assign(c=DATA["c"].cat.set_categories(["q", "p"]))
    domain = Tabular(DATA)
    for i, row in enumerate(domain.split(batch)):
        found = domain.at(row).instance_inputs()["c"]
        assert found.tolist() == [DATA["c"].iloc[i]]
        assert found.cat.categories.tolist() == ["p", "q"]


def test_split_rows_equal_single_rows(
    frame: pd.DataFrame, polars: pl.DataFrame, floats: Any
) -> None:
    for data in (frame, polars, floats):
        domain = Tabular(data)
        for i, row in enumerate(domain.split(data)):
            alone = domain.at(data.iloc[[i]] if isinstance(data, pd.DataFrame) else data[i : i + 1])
            copy = pickle.loads(pickle.dumps(row))
            for other in (row, copy):
                left, right = domain.at(other).instance_inputs(), alone.instance_inputs()
                if isinstance(data, pd.DataFrame):
                    pd.testing.assert_frame_equal(left, right)
                    pd.testing.assert_frame_equal(left, data.iloc[[i]])
                elif isinstance(data, pl.DataFrame):
                    assert left.equals(right)
                    assert left.equals(data[i])
                else:
                    np.testing.assert_array_equal(left, right)


def test_a_pickled_row_is_small(floats: Any) -> None:
    big = np.tile(floats, (200, 1))
    row = Tabular(floats).split(big)[3]
    assert len(pickle.dumps(row)) < 2000


def test_concat_keeps_dtypes(
    frame: pd.DataFrame, plain_frame: pd.DataFrame, polars: pl.DataFrame
) -> None:
    for data in (frame, plain_frame):
        domain = Tabular(data)
        parts = [
            domain.at(data.iloc[i]).coalition_inputs(np.eye(14, dtype=bool))[0] for i in (5, 6)
        ]
        whole = domain.concat(parts)
        assert whole.dtypes.equals(data.dtypes)
        assert whole.columns.equals(data.columns)
        assert len(whole) == sum(map(len, parts))
        expected = pd.concat(parts, ignore_index=data is plain_frame)
        pd.testing.assert_frame_equal(whole, expected)
        if data is plain_frame:
            assert isinstance(whole.index, pd.RangeIndex)
    domain = Tabular(polars)
    parts = [domain.at(polars[i]).instance_inputs() for i in range(4)]
    assert domain.concat(parts).equals(polars[:4])
    with pytest.raises(InputError):
        domain.concat([])


def test_payload_round_trip_through_json(frame: pd.DataFrame, polars: pl.DataFrame) -> None:
    for data in (frame, polars):
        domain = Tabular(data)
        for row in domain.split(data):
            here = domain.at(row)
            text = json.dumps(here.payload(), allow_nan=False)
            again = domain.at(domain.restore(json.loads(text)))
            left, right = here.instance_inputs(), again.instance_inputs()
            if isinstance(data, pd.DataFrame):
                pd.testing.assert_frame_equal(left, right, check_exact=True)
            else:
                assert left.equals(right)
            assert again.label == here.label


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3))
@settings(max_examples=50, deadline=None)
def test_payload_of_any_float(values: list[float]) -> None:
    domain = Tabular(np.zeros((2, 3)), missing=True)
    here = domain.at(values)
    text = json.dumps(here.payload(), allow_nan=False)
    again = domain.at(domain.restore(json.loads(text))).instance_inputs()
    np.testing.assert_array_equal(again[0], values)


def test_payload_of_large_integers_and_datetimes() -> None:
    big = np.array([[2**62 + 1, 3], [5, 6]])
    domain = Tabular(big)
    back = domain.restore(json.loads(json.dumps(domain.at(big[0]).payload())))
    assert domain.at(back).instance_inputs().tolist() == [[2**62 + 1, 3]]
    days = np.array([["2020-01-01T00:00:00.123456789", "NaT"]] * 2, dtype="M8[ns]")
    domain = Tabular(days)
    back = domain.restore(json.loads(json.dumps(domain.at(days[0]).payload())))
    np.testing.assert_array_equal(domain.at(back).instance_inputs(), days[:1])


@pytest.mark.parametrize("payload", [None, {}, {"values": [1]}, {"values": [1], "label": None}, 3])
def test_payloads_that_are_not(payload: Any) -> None:
    with pytest.raises(InputError):
        Tabular(DATA).restore(payload)


def test_label_of_the_instance_reaches_the_model(frame: pd.DataFrame) -> None:
    domain = Tabular(frame)
    x = frame.iloc[3].rename("stranger")
    assert domain.at(x).label == "stranger"
    assert domain.at(x).instance_inputs().index.tolist() == ["stranger"]
    assert domain.at(list(x)).instance_inputs().index.name == "id"
    numbered = Tabular(pd.DataFrame({"a": [1.0, 2.0]}, index=[10, 20]))
    assert numbered.at(pd.Series({"a": 1.0}, name="word")).instance_inputs().index.tolist() == [10]
