"""`Explainer.frames`: tidy frames that do not depend on how the rows are divided."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from pandas.testing import assert_frame_equal
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from tests.strategies import Bumpy, Counting, mixed, numbers

COLUMNS = "row output feature value value_text estimate lower upper prob_positive rank_low"
COLUMNS += " rank_high base_value prediction n_queries converged stop_reason error"


@pytest.fixture(scope="module")
def train():
    return pd.DataFrame(numbers(120, 5), columns=list("abcde"))


@pytest.fixture(scope="module")
def forest(train):
    model = RandomForestClassifier(5, max_depth=4, random_state=0, n_jobs=1)
    return model.fit(train, (train.a * train.b > 0).astype(int))


@pytest.fixture(scope="module")
def explainer(train, forest):
    return cx.BayesSHAP(forest, cx.Tabular(train, background=3), target=1)


@pytest.fixture(scope="module")
def rows(train):
    out = train.iloc[20:32].copy()
    out.loc[25, "c"] = np.nan  # no training row misses it
    return out


def cut(rows, *sizes):
    ends = np.cumsum(sizes)
    return [rows.iloc[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def joined(frames):
    return pd.concat(frames, ignore_index=True)


def test_the_columns_are_those_of_the_schema(explainer, rows):
    [frame] = explainer.frames([rows], queries=20)
    assert list(frame.columns) == COLUMNS.split()
    assert {name: str(t) for name, t in frame.dtypes.items()} == explainer.schema(rows)
    assert list(explainer.schema()) == COLUMNS.split()
    for name in explainer.schema():
        assert f"``{name}``" in type(explainer).schema.__doc__


def test_numbers_are_those_of_explain(explainer, rows):
    [frame] = explainer.frames([rows], queries=20)
    for label in (20, 31):
        e = explainer.explain(rows.loc[label], queries=20)
        own = frame[frame["row"] == label]
        np.testing.assert_array_equal(own["estimate"], e.mean)
        np.testing.assert_array_equal(own["lower"], e.interval().lower)
        np.testing.assert_array_equal(own["upper"], e.interval().upper)
        np.testing.assert_array_equal(own["prob_positive"], e.prob_positive)
        assert set(own["prediction"]) == {e.prediction}
        assert set(own["base_value"]) == {e.base_value}
        assert set(own["n_queries"]) == {e.n_queries}
        assert set(own["stop_reason"]) == {e.stop_reason}
        assert list(own["feature"]) == list(e.names)


@pytest.mark.parametrize("sizes", [(12,), (5, 7), (1,) * 12, (4, 0, 8)], ids=str)
@pytest.mark.parametrize("cls", [cx.BayesSHAP, cx.BayesLIME])
def test_partitions_make_no_difference(cls, sizes, train, forest, rows):
    explainer = cls(forest, cx.Tabular(train, background=1), target=1)
    whole = joined(explainer.frames([rows], queries=40))
    assert_frame_equal(joined(explainer.frames(cut(rows, *sizes), queries=40)), whole)


def test_a_bad_row_is_recorded(explainer, rows):
    [frame] = explainer.frames([rows], queries=20)
    bad = frame[frame["error"].notna()]
    assert list(bad["row"]) == [25]
    assert bad["error"].str.contains("InputError.*'c' is missing").all()
    assert bad.drop(columns=["row", "error"]).isna().all(axis=None)
    assert list(dict.fromkeys(frame["row"])) == list(rows.index)  # in its place


def test_rows_are_named_by_index_id_or_position(explainer, train):
    def names(*blocks, **options):
        return list(dict.fromkeys(joined(explainer.frames(blocks, queries=20, **options))["row"]))

    two = train.iloc[4:6]
    assert names(two) == [4, 5]
    assert names(two.set_axis(["x", "y"])) == ["x", "y"]
    assert names(two.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))) == [
        "('a', 1)",
        "('b', 2)",
    ]
    dates = pd.to_datetime(["2024-01-01", "2024-01-02"])
    assert names(two.set_axis(dates)) == list(dates)
    assert names(two.assign(who=["u", "v"]), id="who") == ["u", "v"]
    again = two.reset_index(drop=True)
    assert names(again, again) == [0, 1, 2, 3]  # files that all begin with 0
    array = cx.BayesSHAP(Bumpy(4), numbers(30, 4))
    frames = list(array.frames([numbers(2, 4), sp.csr_array(numbers(1, 4))], queries=20))
    assert list(dict.fromkeys(joined(frames)["row"])) == [0, 1, 2]


def test_kept_columns_are_repeated_and_not_given_to_the_model(explainer, train):
    given = train.iloc[:3].assign(region=["n", "s", None], score=[1, 2, 3])
    [frame] = explainer.frames([given], keep=["region", "score", "a"], queries=20)
    assert list(frame.columns[:4]) == ["row", "region", "score", "a"]
    assert {name: str(t) for name, t in frame.dtypes.items()} == explainer.schema(
        given, keep=["region", "score", "a"]
    )
    assert list(frame.groupby("row")["score"].first()) == [1, 2, 3]
    assert frame["region"].isna().sum() == 5
    [plain] = explainer.frames([train.iloc[:3]], queries=20)
    assert_frame_equal(frame.drop(columns=["region", "score", "a"]), plain)


def test_polars_batches(train, forest):
    frame = pl.DataFrame({name: train[name].to_numpy() for name in train})
    explainer = cx.BayesSHAP(
        lambda r: (
            forest.predict_proba(r.to_pandas(use_pyarrow_extension_array=False))[:, 1]
            if hasattr(r, "to_pandas")
            else forest.predict_proba(r)[:, 1]
        ),
        cx.Tabular(frame, background=2),
    )
    given = frame[:6].with_columns(who=pl.Series(list("uvwxyz")))
    whole = joined(explainer.frames([given], id="who", queries=20))
    assert list(dict.fromkeys(whole["row"])) == list("uvwxyz")
    assert_frame_equal(joined(explainer.frames(given.iter_slices(4), id="who", queries=20)), whole)


def test_texts_in_a_frame():
    words = pd.DataFrame({"text": ["good film", "a bad film indeed"], "n": [7, 8]})
    explainer = cx.BayesSHAP(lambda texts: np.array([float("good" in t) for t in texts]), cx.Text())
    [frame] = explainer.frames([words], id="n", queries=40)
    assert list(frame["row"]) == [7] * 2 + [8] * 4
    with pytest.raises(cx.InputError, match=r"one column.*text, n"):
        next(explainer.frames([words]))


def test_several_outputs_and_mixed_columns():
    X = mixed(60)
    model = Counting(lambda r: np.stack([r["income"] * r["owner"], r["age"]], axis=1))
    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=2))
    [frame] = explainer.frames([X.iloc[:3]], queries=40)
    assert list(dict.fromkeys(frame["output"])) == ["0", "1"]
    assert len(frame) == 3 * 2 * 7
    assert frame.loc[frame["feature"] == "job", "value"].isna().all()
    assert set(frame.loc[frame["feature"] == "job", "value_text"]) <= {"clerk", "nurse", "pilot"}


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.drop(columns="c"), {}, "missing 'c'"),
        (lambda f: f.assign(z=1), {}, "unknown 'z'"),
        (lambda f: f, {"id": "z"}, "no column 'z'"),
        (lambda f: f.assign(z=[1, 1, 2]), {"id": "z"}, "id 1 is there more than once"),
        (lambda f: f.assign(z=[1, None, 2]), {"id": "z"}, "1 rows have no id"),
        (lambda f: f, {"keep": ["error"]}, "'error' is a column of the result"),
        (lambda f: f, {"queries": 3}, "queries=3.*at least"),
    ],
)
def test_what_concerns_all_rows_is_raised(change, options, words, train, forest):
    model = Counting(forest.predict_proba)
    explainer = cx.BayesSHAP(model, cx.Tabular(train, background=3), target=1)
    with pytest.raises(cx.InputError, match=words):
        list(explainer.frames([change(train.iloc[:3])], **{"queries": 20, **options}))
    assert model.calls == 0


def test_other_dtypes_in_a_later_frame(explainer, train):
    first = train.iloc[:2].assign(who=[1, 2])
    floats = train.iloc[2:4].assign(who=[3.0, 4.0])
    text = train.iloc[4:6].assign(who=["5", "x"])
    frames = explainer.frames([first, floats, text], id="who", queries=20)
    assert set(next(frames)["row"]) == {1, 2}
    assert set(next(frames)["row"]) == {3, 4}
    with pytest.raises(cx.InputError, match=r"'row' is int64 in the first frame") as info:
        next(frames)
    assert "frame 2" in info.value.__notes__[0]
    halves = explainer.frames([first, train.iloc[2:4].assign(who=[3.5, 4.0])], id="who", queries=20)
    next(halves)
    with pytest.raises(cx.InputError, match="'row' is int64 in the first frame"):
        next(halves)
    values = train.iloc[:2].astype(object)
    values.iloc[1, 0] = "many"
    frame = joined(
        explainer.frames([first.drop(columns="who"), values.set_axis([8, 9])], queries=20)
    )
    assert list(frame.loc[frame["error"].notna(), "row"]) == [9]
