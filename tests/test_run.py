"""One driver for `explain`, `iterate` and `explain_many`: states, errors and interruption."""

import numpy as np
import pytest

import credex as cx
from credex.errors import InputError, InterruptedRun
from credex.explainer_base import Case
from credex.run import drive
from credex.stopping import Goals

X = np.random.default_rng(0).normal(size=(60, 9))


def model(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


class Failing:
    """A sampler that takes what comes, and raises at the given call of `select`."""

    paired = uniform = False

    def __init__(self, error, at):
        self.error, self.at, self.calls = error, at, 0

    def select(self, stream, n, posterior, rng):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return stream.take(min(n, 30))


def shap(**options):
    return cx.BayesSHAP(model, cx.Tabular(X, background=1), posterior="linear", **options)


def runs_of(explainer, rows, goals):
    queue = explainer._queue(explainer.options, {})
    runs = [explainer._begin(Case(x), goals, explainer.options, queue) for x in rows]
    return runs, queue


def test_a_run_is_yielded_at_each_new_state_until_it_stops():
    explainer = shap()
    runs, queue = runs_of(explainer, X[:3], Goals(width=0.5))
    seen = {run: [] for run in runs}
    for run in drive(runs, queue):
        seen[run].append(run.state)
    for run, x in zip(runs, X[:3], strict=True):
        states = seen[run]
        assert len({id(state) for state in states}) == len(states)
        assert [state.stop_reason is None for state in states] == [True] * (len(states) - 1) + [
            False
        ]
        alone = explainer.explain(x, width=0.5)
        assert np.array_equal(states[-1].explanation.mean, alone.mean)
        assert states[-1].n_queries == alone.n_queries


def test_rows_that_fill_a_call_are_begun_together_the_others_later():
    explainer = shap(batch_rows=100)
    begun = []

    def begin():
        for run in runs:
            begun.append(run)
            yield run

    runs, queue = runs_of(explainer, X[:6], Goals(queries=50))
    driven = drive(begin(), queue)
    next(driven)
    assert len(begun) == 2
    assert len([run for run in driven if run.state.stop_reason]) == 5
    assert len(begun) == 6


def test_an_error_between_two_model_calls_is_raised():
    explainer = shap(sampler=Failing(InputError("no more"), at=2))
    with pytest.raises(InputError, match="no more"):
        explainer.explain(X[0], queries=200)
    explainer = shap(sampler=Failing(InputError("no more"), at=2))
    with pytest.raises(InputError, match="no more"):
        list(explainer.iterate(X[0], queries=200))


def test_an_error_between_two_model_calls_ends_one_row_of_a_batch():
    explainer = shap(sampler=Failing(InputError("no more"), at=5))
    batch = explainer.explain_many(X[:3], queries=80, on_error="record")
    assert len(batch.explained) == 2
    ((_, failure),) = batch.errors.items()
    assert "no more" in str(failure)


def test_ctrl_c_between_two_model_calls_keeps_what_was_asked():
    explainer = shap(sampler=Failing(KeyboardInterrupt(), at=4))
    with pytest.raises(InterruptedRun) as caught:
        explainer.explain(X[0], queries=400)
    partial = caught.value.partial
    assert partial.stop_reason == "interrupted"
    assert partial.history.rows.n == 90
    whole = explainer.refine(partial, queries=400, sampler=Failing(None, at=0))
    assert whole.n_queries == 400


def test_ctrl_c_between_two_model_calls_of_a_batch():
    explainer = shap(sampler=Failing(KeyboardInterrupt(), at=8))
    with pytest.raises(InterruptedRun) as caught:
        explainer.explain_many(X[:3], queries=400)
    partial = caught.value.partial
    assert not partial.complete
    assert [e.history.rows.n for e in partial.begun.values()] == [60, 60, 60]
    assert explainer.explain_many(X[:3], queries=400, start=partial).complete


def test_a_sampler_that_draws_follows_the_seed():
    class Drawing(cx.Random):
        def select(self, stream, n, posterior, rng):
            return stream.take(int(rng.integers(20, n)))

    def asked(seed):
        return shap(sampler=Drawing(), seed=seed).explain(X[0], width=0.3).n_queries

    assert asked(1) == asked(1)
