"""The list of rows and the inputs: what is shown, searched, typed and read back."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import credex as cx
from credex.serve.fields import MAX_CHOICES
from credex.serve.goals import Goal
from credex.serve.rows import Rows
from tests.needs import need
from tests.serve.live import people, risk


def rows_of(X, **options):
    return Rows.of(cx.Tabular(X, **options), X)


def first(rows, j, typed):
    """Return the value of column j of the first row, edited."""
    return rows.domain.at(rows.edited(0, {j: typed})).values[j]


def test_inputs_by_dtype():
    rows = rows_of(people())
    kinds = {field.name: field.kind for field in rows.fields}
    assert kinds == {
        "age": "number",
        "income": "number",
        "city": "choice",
        "member": "choice",
        "since": "date",
        "score": "number",
    }
    assert rows.fields[2].choices == ("Lima", "Oslo", "Rome")
    assert rows.fields[3].choices == ("False", "True")
    assert [field.may_miss for field in rows.fields] == [False] * 5 + [True]
    assert rows.fields[0].whole
    assert not rows.fields[1].whole
    low, high = people()["age"].min(), people()["age"].max()
    assert rows.fields[0].hint == f"{low} to {high}"


def test_what_an_input_holds_is_read_as_the_same_value():
    X = people()
    rows = rows_of(X)
    for i in range(len(rows)):
        same = rows.edited(i, dict(enumerate(rows.typed(i))))
        expected = rows.domain.at(X.iloc[i]).values
        for a, b in zip(rows.domain.at(same).values, expected, strict=True):
            assert a == b or (pd.isna(a) and pd.isna(b))


def test_typed_values():
    rows = rows_of(people())
    assert first(rows, 0, " 41 ") == 41
    assert first(rows, 0, "41.0") == 41
    assert first(rows, 1, "−2.5e3") == -2500
    assert first(rows, 2, 1) == "Oslo"
    assert first(rows, 3, 1)
    assert first(rows, 4, "2021-02-03") == pd.Timestamp("2021-02-03")
    assert pd.isna(first(rows, 5, None))
    assert pd.isna(first(rows, 5, " "))


@pytest.mark.parametrize(
    ("j", "typed", "words"),
    [
        (0, "4x", "age: '4x' is no number; enter one such as"),
        (0, "1,5", "with a point for decimals"),
        (0, "1_000", "is no number"),
        (0, "nan", "is no number"),
        (0, "inf", "is no number"),
        (0, "9" * 500, "is no number"),
        (0, "41.5", "age: 41.5 is no whole number"),
        (0, "9" * 30, "holds integers"),
        (0, "", "age: enter a value; no training row misses it"),
        (0, None, "age: enter a value"),
        (0, 41, "age: enter a text"),
        (2, 3, "city: 3 is no choice"),
        (2, -1, "city: -1 is no choice"),
        (2, "Oslo", "city: 'Oslo' is no choice"),
        (4, "03/04/2021", "since: '03/04/2021' cannot be read; enter it like 20"),
        (4, "2021-02-30", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused(j, typed, words):
    rows = rows_of(people())
    with pytest.raises(cx.InputError) as caught:
        rows.edited(0, {j: typed})
    assert words in str(caught.value)
    if "holds integers" not in words:
        assert caught.value.field == j


@pytest.mark.parametrize(
    ("column", "typed", "expected"),
    [
        (pd.array([1, None, 3], dtype="Int64"), "7", 7),
        (np.array([1, 2, 3], dtype=np.float32), "0.1", np.float32(0.1)),
        (pd.Categorical(["a", "b", "a"]), 1, "b"),
        (np.array([1, "1", None], dtype=object), 1, "1"),
        (pd.date_range("2020-01-01", periods=3, freq="7h"), "2021-01-01 09:30", None),
        (
            pd.to_datetime(["2020-01-01"] * 3).tz_localize("Europe/Rome"),
            "2021-05-01 00:00+02:00",
            None,
        ),
        (pd.to_timedelta(["1D", "2D", "3D"]), "36 hours", pd.Timedelta("36h")),
        (pd.period_range("2020-01", periods=3, freq="M"), "2021-04", pd.Period("2021-04")),
        (
            np.array([dt.date(2020, 1, d) for d in (1, 2, 3)], object),
            "2020-02-02",
            dt.date(2020, 2, 2),
        ),
        (np.array([Decimal("1.5")] * 3, object), "2.25", Decimal("2.25")),
    ],
)
def test_other_dtypes(column, typed, expected):
    X = pd.DataFrame({"a": column, "b": [1.0, 2.0, 3.0]})
    rows = rows_of(X)
    value = first(rows, 0, typed)
    if expected is None:
        assert value == pd.Timestamp(typed)
    else:
        assert value == expected
        assert isinstance(value, str) == isinstance(expected, str)
    for i in range(3):
        if rows.typed(i)[0] is not None:
            again = rows.domain.at(rows.edited(i, {0: rows.typed(i)[0]})).values[0]
            assert again == rows.domain.at(X.iloc[i]).values[0]


def test_polars_rows():
    pl = need("polars")
    X = pl.DataFrame({name: column.to_list() for name, column in people().items()})
    rows = rows_of(X)
    assert first(rows, 0, "41") == 41
    assert first(rows, 2, 0) == "Lima"
    assert first(rows, 3, 0) is False
    assert str(first(rows, 4, "2021-02-03"))[:10] == "2021-02-03"
    with pytest.raises(cx.InputError, match="no whole number"):
        rows.edited(0, {0: "1.5"})


def test_numpy_rows_and_columns_that_are_categories():
    X = np.random.default_rng(0).integers(0, 3, (50, 2)).astype(float)
    rows = rows_of(X, categorical=[0])
    assert [field.kind for field in rows.fields] == ["choice", "number"]
    assert first(rows, 0, 2) == 2.0
    assert rows.columns == ["x0", "x1"]


def test_many_categories_are_typed():
    names = [f"name {i}" for i in range(MAX_CHOICES + 1)]
    rows = rows_of(pd.DataFrame({"who": names, "b": 1.0}))
    assert rows.fields[0].kind == "text"
    assert first(rows, 0, "name 7") == "name 7"
    assert first(rows, 0, "new") == "new"


def test_a_category_that_training_did_not_have():
    X = people()
    new = X.iloc[:3].assign(city="Bergen")
    rows = Rows.of(cx.Tabular(X), new)
    assert rows.typed(0)[2] == -1
    assert rows.edited(0, {0: "41"}) is not None  # the city stays


def test_groups_are_edited_by_column():
    X = people()
    rows = rows_of(X, groups={"both": ["age", "income"]})
    assert len(rows.fields) == 6
    edited = rows.domain.at(rows.edited(0, {0: "33"}))
    assert "33" in str(edited.values[0])


def test_pages_and_search():
    X = people(120).set_index(pd.Index([f"id-{i:03}" for i in range(120)]))
    rows = rows_of(X)
    page = rows.page("", 100, 50)
    assert (page["total"], page["found"], page["offset"]) == (120, 120, 100)
    assert [row["row"] for row in page["rows"]] == list(range(100, 120))
    assert page["rows"][0]["label"] == "id-100"
    oslo = [i for i in range(120) if X["city"].iloc[i] == "Oslo" and X["member"].iloc[i]]
    found = rows.page("OSLO  true", 0, 200)
    assert [row["row"] for row in found["rows"]] == oslo
    assert found["found"] == len(oslo)
    assert rows.page("id-07", 0, 50)["found"] == 10
    assert rows.page("nowhere", 0, 50)["rows"] == []
    assert rows.page("", 10**9, 50)["rows"] == []


def test_numbers_are_found_as_they_are_shown():
    values = [-1.5, 12_345.678, 2e9, 0.00012345, np.nan, np.inf, 0.0]
    X = pd.DataFrame({"a": values, "b": range(-3, 4)})
    rows = rows_of(X)
    for i in range(len(values)):
        shown = rows.cells(i)
        assert i in [row["row"] for row in rows.page(f"{shown[0]} {shown[1]}", 0, 9)["rows"]]
    assert rows.page("-1.5", 0, 9)["found"] == 1
    assert rows.page("missing", 0, 9)["found"] == 1


def test_a_hundred_thousand_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=100_000), "b": rng.choice(["u", "v"], 100_000)})
    rows = Rows.of(cx.Tabular(X.iloc[:500]), X)
    assert rows.page("", 99_990, 50)["rows"][-1]["row"] == 99_999
    found = rows.page("99999 v" if X["b"].iloc[-1] == "v" else "99999 u", 0, 50)
    assert 99_999 in [row["row"] for row in found["rows"]]
    assert found["found"] < 100


def test_instances_in_a_list_and_sparse_rows():
    sparse = pytest.importorskip("scipy.sparse")
    X = people(20)
    rows = Rows.of(cx.Tabular(X), [dict(X.iloc[i]) for i in range(3)])
    assert rows.page("", 0, 5)["rows"][2]["label"] == "3"
    numbers = np.eye(4)
    assert len(Rows.of(cx.Tabular(numbers), sparse.csr_matrix(numbers))) == 4
    with pytest.raises(cx.InputError, match="rows is empty"):
        Rows.of(cx.Tabular(X), X.iloc[:0])


def test_texts_can_be_edited_and_images_cannot():
    rows = Rows.of(cx.Text(), pd.Series(["good film", "bad film"], index=["a", "b"]))
    assert rows.page("bad", 0, 5)["rows"] == [{"row": 1, "label": "b", "cells": ["bad film"]}]
    assert rows.typed(0) == ["good film"]
    assert rows.edited(0, {0: "a fine film"}) == "a fine film"
    with pytest.raises(cx.InputError, match="only white space"):
        rows.edited(0, {0: " "})
    images = Rows.of(cx.Image(segments=cx.Grid(2, 2)), np.zeros((3, 8, 8)))
    assert images.page("", 0, 5)["rows"][0]["cells"] == ["8 × 8"]
    assert images.typed(0) == []
    assert list(images.fields) == []


HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "x" * 5_000,
    "🙂" * 50,
    "\u202eright to left \u05d0\u05d1\u05d2",
    "line\nbreak\ttab\x00null",
    "",
]


def test_hostile_names_and_values_stay_text_and_short():
    X = pd.DataFrame({name: [value, "b"] * 4 for name, value in zip(HOSTILE, HOSTILE, strict=True)})
    rows = rows_of(X)
    shown = rows.page("", 0, 5)["rows"][0]
    for text in [*shown["cells"], shown["label"], *rows.columns]:
        assert not set(text) & {"\n", "\t", "\x00", "\u202e"}
    assert max(map(len, shown["cells"])) <= 40
    assert rows.columns[-1] == "(no name)"
    for j, value in enumerate(HOSTILE):
        kept = rows.typed(0)[j]
        assert rows.domain.at(rows.edited(0, {j: kept})).values[j] == value


def test_goals():
    explainer = cx.BayesSHAP(risk, people(), level=0.9)
    proposed = Goal.proposed(None, explainer)
    assert proposed == Goal("relative", 0.2, 0.9)
    assert Goal.read(None, proposed) is proposed
    assert Goal.read(proposed.as_json, proposed) == proposed
    several = Goal.proposed([0.1, 0.2], explainer)
    assert Goal.read(several.as_json, several) == several
    assert several.keywords["width"] == (0.1, 0.2)
    ranking = Goal.read({"kind": "ranking", "value": 2, "max_queries": 99}, proposed)
    assert ranking.keywords == {
        "level": 0.9,
        "max_queries": 99,
        "stop": cx.RankingSettled(2, 0.95),
    }
    assert Goal.read({"kind": "queries", "value": 70}, proposed).keywords["queries"] == 70
