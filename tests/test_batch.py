"""`explain_many`: the same numbers as one by one, however the work is divided."""

import pickle
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import credex as cx
from tests.strategies import Bumpy, Counting, FailsAfter, mixed, numbers

CLASSES = [cx.BayesSHAP, cx.BayesLIME]

# Two forests that predict in two threads race for Python's list of warning filters.
race = pytest.mark.filterwarnings("ignore:.sklearn.utils.parallel.delayed")


@pytest.fixture(scope="module")
def X():  # noqa: N802 - a matrix
    return numbers(200, 9)


@pytest.fixture(scope="module")
def forest(X):
    model = RandomForestClassifier(8, max_depth=6, random_state=0, n_jobs=1)
    return model.fit(X, (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int))


def identical(e, other):
    """Bit by bit."""
    np.testing.assert_array_equal(e.mean, other.mean)
    np.testing.assert_array_equal(e.interval().lower, other.interval().lower)
    np.testing.assert_array_equal(e.interval().upper, other.interval().upper)
    np.testing.assert_array_equal(e.prediction, other.prediction)
    np.testing.assert_array_equal(e.base_value, other.base_value)
    np.testing.assert_array_equal(e.prob_positive, other.prob_positive)
    np.testing.assert_array_equal(e.error.scale, other.error.scale)
    assert e.n_queries == other.n_queries
    assert e.stop_reason == other.stop_reason
    assert e.converged == other.converged


SPLITS = [
    {},
    {"batch_rows": 50},
    {"batch_rows": 333},
    {"batch_rows": 1},
    {"n_jobs": 2, "workers": "threads"},
    {"n_jobs": 2, "workers": "processes"},
    {"n_jobs": 2, "workers": "threads", "batch_rows": 77},
    {"n_jobs": -1},
]


@race
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("goal", [{"queries": 60}, {"width": 0.5, "max_queries": 300}], ids=str)
def test_a_batch_equals_its_rows_however_it_is_split(cls, goal, X, forest):
    explainer = cls(forest, cx.Tabular(X, background=5), target=1, seed=3)
    alone = [explainer.explain(x, **goal) for x in X[:5]]
    splits = SPLITS if goal.get("queries") else [s for s in SPLITS if s.get("batch_rows") != 1]
    for split in splits:
        batch = explainer.explain_many(X[:5], **goal, **split)
        assert batch.complete
        for one, other in zip(alone, batch, strict=True):
            identical(one, other)
            assert other.label is None


@race
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "domain",
    [
        {"around": "instance"},
        {"bins": None},
        {"bins": None, "around": "instance"},
        {"bins": "decile"},
    ],
    ids=str,
)
def test_every_neighbourhood_batches(cls, domain, X, forest):
    explainer = cls(forest, cx.Tabular(X, background=5, **domain), target=1)
    alone = [explainer.explain(x, queries=50) for x in X[:3]]
    for split in ({}, {"batch_rows": 40}, {"n_jobs": 2, "workers": "threads"}):
        for one, other in zip(
            alone, explainer.explain_many(X[:3], queries=50, **split), strict=True
        ):
            identical(one, other)


@pytest.mark.parametrize("cls", CLASSES)
def test_options_of_one_call_reach_every_row(cls, X, forest):
    explainer = cls(forest, cx.Tabular(X, background=5))
    options = {"seed": 11, "level": 0.7, "target": 0, "queries": 64, "features": 3}
    batch = explainer.explain_many(X[:3], **options)
    for x, e in zip(X[:3], batch, strict=True):
        identical(e, explainer.explain(x, **options))
        assert e.level == 0.7


@pytest.mark.parametrize("cls", CLASSES)
def test_batch_rows_change_nothing_for_a_single_row(cls, X, forest):
    explainer = cls(forest, cx.Tabular(X, background=5), target=1)
    whole = explainer.explain(X[0], queries=60)
    for batch_rows in (1, 7, 64, 10_000):
        identical(whole, explainer.explain(X[0], queries=60, batch_rows=batch_rows))


@pytest.mark.parametrize("cls", CLASSES)
def test_a_slow_model_gives_the_same_numbers_alone_and_in_a_batch(cls, X):
    """How long a call takes must not decide how sums are rounded."""

    class Slow:
        def __init__(self):
            self.inner, self.first = Bumpy(9, 0), True

        def __call__(self, rows):
            if self.first:  # one slow call makes credex think that all are
                self.first = False
                time.sleep(0.15)
            return self.inner(rows)

    quick = cls(Bumpy(9, 0), cx.Tabular(X, background=3))
    slow = cls(Slow(), cx.Tabular(X, background=3))
    for goal in ({"queries": 200}, {"width": 1.0, "max_queries": 500}):
        identical(quick.explain(X[0], **goal), slow.explain(X[0], **goal))
        slow.model.first = True


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.integers(0, 199), min_size=1, max_size=6),
    batch_rows=st.integers(1, 400),
    queries=st.integers(26, 80),
    cls=st.sampled_from(CLASSES),
    seed=st.integers(0, 99),
)
def test_any_batch_equals_its_rows(rows, batch_rows, queries, cls, seed):
    X = numbers(200, 9)
    explainer = cls(Bumpy(9, 0), cx.Tabular(X, background=3), seed=seed)
    batch = explainer.explain_many(X[rows], queries=queries, batch_rows=batch_rows)
    for i, e in zip(rows, batch, strict=True):
        identical(e, explainer.explain(X[i], queries=queries))


def test_mixed_frames_batch_and_keep_their_labels():
    table = mixed()
    for cls in CLASSES:
        explainer = cls(lambda r: r["income"].to_numpy() * (r["job"] == "pilot").to_numpy(), table)
        batch = explainer.explain_many(table.iloc[3:6], queries=50)
        assert [e.label for e in batch] == ["r3", "r4", "r5"]
        for name, e in zip(["r3", "r4", "r5"], batch, strict=True):
            identical(e, explainer.explain(table.loc[name], queries=50))


def test_a_blas_model_agrees_to_nine_digits(X):
    w = np.random.default_rng(0).normal(size=(9, 40))

    def model(rows):
        return np.tanh(rows @ w).sum(axis=1)

    for cls in CLASSES:
        explainer = cls(model, cx.Tabular(X, background=5))
        batch = explainer.explain_many(X[:6], queries=60)
        for x, e in zip(X, batch, strict=False):
            np.testing.assert_allclose(e.mean, explainer.explain(x, queries=60).mean, atol=1e-9)


# -- calls and rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_and_calls_are_counted(cls, n_jobs, X):
    model = Counting(Bumpy(9, 0))
    explainer = cls(model, cx.Tabular(X, background=5))
    batch = explainer.explain_many(X[:8], queries=60, n_jobs=n_jobs, workers="threads")
    assert batch.n_model_rows == model.rows
    assert batch.n_calls == model.calls
    assert model.rows <= sum(e.n_model_rows for e in batch)


@pytest.mark.parametrize("cls", CLASSES)
def test_rows_are_stacked_into_few_calls(cls, X):
    model = Counting(Bumpy(9, 0))
    cls(model, cx.Tabular(X, background=5)).explain_many(X[:20], queries=60)
    assert model.calls <= 6  # one by one it is 40 and more


@pytest.mark.parametrize("batch_rows", [64, 500])
@pytest.mark.parametrize("cls", CLASSES)
def test_batch_rows_bounds_every_call(cls, batch_rows, X):
    largest = []

    def model(rows):
        largest.append(len(rows))
        return rows[:, 0] * rows[:, 1]

    explainer = cls(model, cx.Tabular(X, background=5))
    explainer.explain_many(X[:10], queries=200, batch_rows=batch_rows)
    assert max(largest) <= batch_rows
    assert max(largest) > batch_rows / 3


def test_lime_shares_its_perturbations_between_rows(X):
    model = Counting(Bumpy(9, 0))
    cx.BayesLIME(model, X).explain_many(X[:20], queries=200)
    assert model.rows <= 200 + 2 * 20


# -- workers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("workers", ["auto", "threads", "processes"])
def test_lambdas_work_on_two_workers(cls, workers, X):
    explainer = cls(lambda r: r[:, 0] * r[:, 1], cx.Tabular(X, background=5))
    batch = explainer.explain_many(X[:4], queries=50, n_jobs=2, workers=workers)
    for x, e in zip(X[:4], batch, strict=True):
        identical(e, explainer.explain(x, queries=50))
    if workers != "auto":
        assert workers in batch.workers
    assert "2" in batch.workers


def test_a_model_that_cannot_be_pickled_works_and_it_says_so(X):
    lock = threading.Lock()

    def model(rows):
        with lock:
            return rows[:, 0] * rows[:, 1]

    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=5))
    batch = explainer.explain_many(X[:4], queries=50, n_jobs=2)
    assert "threads" in batch.workers
    for x, e in zip(X[:4], batch, strict=True):
        identical(e, explainer.explain(x, queries=50))


@race
def test_global_random_state_is_neither_read_nor_changed(X, forest):
    means = []
    for seed in (1, 2):
        for split in ({}, {"n_jobs": 2, "workers": "threads"}):
            np.random.seed(seed)
            before = np.random.get_state()
            batch = cx.BayesSHAP(forest, X, target=1).explain_many(X[:3], queries=60, **split)
            after = np.random.get_state()
            assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
            means.append(batch.mean)
    for mean in means[1:]:
        np.testing.assert_array_equal(mean, means[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": -3}, "n_jobs"),
        ({"n_jobs": 1.5}, "n_jobs"),
        ({"workers": "gpu"}, "workers.*gpu"),
        ({"on_error": "ignore"}, "on_error.*ignore"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"width": -1}, "width"),
        ({"queries": 3}, "queries=3.*at least"),
        ({"cohort": ["a", "b"]}, "cohort"),
    ],
    ids=str,
)
def test_bad_options_are_named_before_the_model_is_called(options, words, X):
    model = Counting(Bumpy(9, 0))
    with pytest.raises(cx.InputError, match=words):
        cx.BayesSHAP(model, X).explain_many(X[:3], **options)
    assert model.calls == 0


def test_n_jobs_may_be_a_numpy_integer(X):
    batch = cx.BayesSHAP(Bumpy(9, 0), cx.Tabular(X, background=2)).explain_many(
        X[:2], queries=50, n_jobs=np.int64(2), workers="threads"
    )
    assert len(batch) == 2


# -- bad rows ----------------------------------------------------------------------------------


@pytest.fixture
def spoiled(X):
    rows = X[:4].copy()
    rows[2, 3] = np.nan
    return rows


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("split", [{}, {"n_jobs": 2, "workers": "threads"}, {"n_jobs": 2}], ids=str)
def test_a_bad_row_is_recorded(cls, split, X, spoiled):
    explainer = cls(Bumpy(9, 0), cx.Tabular(X, background=5))
    batch = explainer.explain_many(spoiled, queries=50, on_error="record", **split)
    assert len(batch) == 4
    assert list(batch.errors) == [2]
    assert isinstance(batch.errors[2].error, cx.InputError)
    assert "x3" in str(batch.errors[2])
    assert np.isnan(batch.mean[2]).all()
    for i in (0, 1, 3):
        identical(batch[i], explainer.explain(X[i], queries=50))
    with pytest.raises(cx.InputError, match="x3"):
        batch[2]
    assert set(batch.to_frame()["row"]) == {0, 1, 3}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("split", [{}, {"n_jobs": 2, "workers": "threads"}, {"n_jobs": 2}], ids=str)
def test_a_bad_row_is_raised_by_default(cls, split, X, spoiled):
    with pytest.raises(cx.InputError, match="x3") as info:
        cls(Bumpy(9, 0), X).explain_many(spoiled, queries=50, **split)
    assert any("2" in note and "record" in note for note in info.value.__notes__)


class Touchy:
    """Raises on rows whose first value is exactly 7."""

    def __call__(self, rows):
        x = np.asarray(rows)
        if np.any(x[:, 0] == 7.0):
            message = "seven!"
            raise ValueError(message)
        return x[:, 0] * x[:, 1]


@pytest.mark.parametrize(
    "split",
    [{}, {"n_jobs": 2, "workers": "threads"}, {"n_jobs": 2, "workers": "processes"}],
    ids=str,
)
def test_a_row_the_model_cannot_take_spoils_no_other(split, X):
    rows = X[:4].copy()
    rows[1, 0] = 7.0
    explainer = cx.BayesSHAP(Touchy(), cx.Tabular(X, background=5))
    batch = explainer.explain_many(rows, queries=50, on_error="record", **split)
    assert list(batch.errors) == [1]
    error = batch.errors[1].error
    assert isinstance(error, cx.ModelRaisedError)
    assert "seven!" in str(error)
    assert isinstance(error.__cause__, ValueError)
    for i in (0, 2, 3):
        identical(batch[i], explainer.explain(X[i], queries=50))
    with pytest.raises(cx.ModelRaisedError) as info:
        explainer.explain_many(rows, queries=50, **split)
    assert isinstance(info.value.__cause__, ValueError)


def test_rows_given_to_a_failing_model_are_counted(X):
    rows = X[:4].copy()
    rows[1, 0] = 7.0
    model = Counting(Touchy())
    batch = cx.BayesSHAP(model, cx.Tabular(X, background=5)).explain_many(
        rows, queries=50, on_error="record"
    )
    assert batch.n_calls == model.calls
    assert batch.n_model_rows == model.rows


def test_failures_can_be_pickled(X, spoiled):
    batch = cx.BayesSHAP(Bumpy(9, 0), X).explain_many(spoiled, queries=50, on_error="record")
    again = pickle.loads(pickle.dumps(batch))
    assert str(again.errors[2]) == str(batch.errors[2])


# -- interrupted -------------------------------------------------------------------------------


def interrupted(cls, X, share, **options):
    """Explain 20 rows, interrupted after ``share`` of the calls; and the uninterrupted cost."""
    domain = cx.Tabular(X, background=5, around="instance")
    dry = Counting(Bumpy(9, 0))
    whole = cls(dry, domain).explain_many(X[:20], **options)
    model = Counting(FailsAfter(Bumpy(9, 0), int(share * dry.calls), KeyboardInterrupt()))
    explainer = cls(model, domain)
    with pytest.raises(cx.InterruptedRun, match="start") as info:
        explainer.explain_many(X[:20], **options)
    return explainer, info.value.partial, model, whole


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("split", [{}, {"n_jobs": 2, "workers": "threads"}], ids=str)
def test_an_interrupted_batch_goes_on(cls, split, X):
    options = {"queries": 30, "batch_rows": 12, **split}
    explainer, partial, inner, whole = interrupted(cls, X, 0.85, **options)
    assert isinstance(partial, cx.Explanations)
    assert not partial.complete
    assert len(partial) == 20
    done = [i for i, item in enumerate(partial.items) if isinstance(item, cx.Explanation)]
    assert 0 < len(done) < 20
    assert partial.n_model_rows == inner.rows  # they were asked, whatever came of it
    before = inner.rows
    explainer.model.inner.mended = True
    batch = explainer.explain_many(X[:20], start=partial, **options)
    assert batch.complete
    assert inner.rows - before < whole.n_model_rows
    assert batch.n_model_rows == inner.rows
    for e, other in zip(batch, whole, strict=True):
        identical(e, other)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_interrupted_batch_keeps_what_was_asked(cls, X):
    options = {"queries": 30, "batch_rows": 100}
    explainer, partial, inner, whole = interrupted(cls, X, 0.85, **options)
    explainer.model.inner.mended = True
    explainer.explain_many(X[:20], start=partial, **options)
    # one call was lost; the rest was asked once
    assert inner.rows <= whole.n_model_rows + 100


def test_a_batch_goes_on_only_with_as_many_rows(X):
    explainer, partial, _, _ = interrupted(cx.BayesSHAP, X, 0.5, queries=30, batch_rows=12)
    with pytest.raises(cx.InputError, match=r"20 rows.*3"):
        explainer.explain_many(X[:3], start=partial, queries=30)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_interrupted_run_goes_on(cls):
    model = FailsAfter(Bumpy(12, 0), 4, KeyboardInterrupt())
    explainer = cls(model, cx.Masks(12))
    with pytest.raises(cx.InterruptedRun, match="partial") as info:
        explainer.explain(queries=400, batch_rows=50)
    assert isinstance(info.value, KeyboardInterrupt)
    partial = info.value.partial
    assert 50 < partial.n_queries < 400
    assert not partial.converged
    assert partial.stop_reason == "interrupted"
    model.mended = True
    more = explainer.refine(partial, queries=400)
    whole = cls(Bumpy(12, 0), cx.Masks(12)).explain(queries=400)
    assert more.n_queries == whole.n_queries
    np.testing.assert_allclose(more.mean, whole.mean, atol=1e-9)


def test_interrupting_the_very_first_call():
    model = FailsAfter(Bumpy(12, 0), 0, KeyboardInterrupt())
    explainer = cx.BayesSHAP(model, cx.Masks(12))
    with pytest.raises(cx.InterruptedRun) as info:
        explainer.explain(queries=400)
    partial = info.value.partial
    assert partial.n_queries == 0
    assert str(partial)
    assert len(partial.to_frame()) == 12
    model.mended = True
    assert explainer.refine(partial, queries=400).n_queries >= 399


# -- shapes of input ---------------------------------------------------------------------------


def test_forms_of_a_batch(X, forest):
    explainer = cx.BayesSHAP(forest, cx.Tabular(X, background=5), target=1)
    expected = explainer.explain_many(X[:3], queries=50).mean
    forms = [
        pd.DataFrame(X[:3]),
        list(X[:3]),
        tuple(X[:3]),
        X[:3].tolist(),
        X[:3].astype(object),
        np.asfortranarray(X[:3]),
    ]
    for form in forms:
        np.testing.assert_array_equal(explainer.explain_many(form, queries=50).mean, expected)


def test_an_empty_batch(X):
    model = Counting(Bumpy(9, 0))
    batch = cx.BayesSHAP(model, X).explain_many(X[:0], queries=50)
    assert len(batch) == 0
    assert list(batch) == []
    assert len(batch.mean) == 0
    assert len(batch.to_frame()) == 0
    assert model.calls == 0


def test_one_row_where_a_batch_is_meant(X):
    with pytest.raises(cx.InputError, match="2-D"):
        cx.BayesSHAP(Bumpy(9, 0), X).explain_many(X[0])


def test_progress_is_shown_on_request_only(X, capfd):
    explainer = cx.BayesSHAP(Bumpy(9, 0), cx.Tabular(X, background=2))
    explainer.explain_many(X[:2], queries=50)
    assert capfd.readouterr().err == ""
    explainer.explain_many(X[:2], queries=50, progress=True)
    assert "2/2" in capfd.readouterr().err


def test_cohorts_row_by_row(X):
    labels = np.where(X[:, 0] > 0, "high", "low")
    explainer = cx.BayesSHAP(Bumpy(9, 0), cx.Tabular(X, background=5, cohort=labels))
    batch = explainer.explain_many(X[:4], queries=50, cohort=labels[:4])
    for x, label, e in zip(X, labels, batch, strict=False):
        identical(e, explainer.explain(x, queries=50, cohort=label))
    one = explainer.explain_many(X[:2], queries=50, cohort="low")
    identical(one[1], explainer.explain(X[1], queries=50, cohort="low"))
    assert np.any(one[1].mean != explainer.explain(X[1], queries=50).mean)


def test_every_row_has_a_clock_of_its_own(X):
    def slow(rows):
        time.sleep(0.01)
        return np.sin(3 * rows).sum(axis=1)

    explainer = cx.BayesSHAP(slow, cx.Tabular(X, background=1), batch_rows=20)  # row after row
    stop = cx.WallClock(0.1) | cx.Queries(10**6)
    batch = explainer.explain_many(X[:3], stop=stop, max_queries=10**6, posterior="linear")
    assert [e.stop_reason for e in batch] == ["wall clock"] * 3
    assert all(e.seconds >= 0.1 for e in batch)
    assert batch.seconds >= 0.3
    assert "not of the batch" in explainer.explain_many.__doc__
    assert "a clock of its own" in cx.WallClock.__doc__


def test_regressors_batch(X):
    model = RandomForestRegressor(5, random_state=0, n_jobs=1).fit(X, X[:, 0])
    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=5))
    batch = explainer.explain_many(X[:2], width=0.3, max_queries=400)
    for x, e in zip(X, batch, strict=False):
        identical(e, explainer.explain(x, width=0.3, max_queries=400))
