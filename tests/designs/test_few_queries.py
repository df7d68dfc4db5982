"""The focused sampler asks single coalitions where queries are too few for pairs."""

import numpy as np
import pytest

import credex as cx
from credex.errors import InputError
from tests.games import shapley, smooth_game, table_game

D = 10


def explainer(game=0, **options):
    return cx.BayesSHAP(table_game(smooth_game(D, game)), cx.Masks(D), posterior="gp", **options)


def asked(e):
    return e.history.rows.design()


def in_pairs(z):
    n = len(z) // 2 * 2
    return np.array_equal(z[0:n:2], ~z[1:n:2])


@pytest.mark.parametrize(("queries", "pairs"), [(20, False), (23, False), (24, True), (40, True)])
def test_pairs_begin_where_they_determine_the_importances(queries, pairs):
    e = explainer().explain(queries=queries)
    assert in_pairs(asked(e)) == pairs
    assert queries - e.n_queries in (0, 1)
    assert e.sampler == "focused"


def test_additive_games_are_found_with_fewer_queries_than_pairs_take():
    w = np.random.default_rng(0).normal(size=12)
    e = cx.BayesSHAP(lambda z: z @ w, cx.Masks(12), posterior="gp").explain(queries=20)
    np.testing.assert_allclose(e.mean, w, atol=1e-9)


def test_it_goes_on_as_it_began():
    shap = explainer()
    few = shap.explain(queries=20)
    more = shap.refine(few, queries=60)
    assert more.n_queries == 60
    assert not in_pairs(asked(more))
    assert np.array_equal(asked(more)[: len(asked(few))], asked(few))
    begun = shap.explain(queries=40)
    assert in_pairs(asked(shap.refine(begun, queries=60)))


@pytest.mark.parametrize("other", [{"posterior": "exact"}, {"sampler": "exhaustive"}])
def test_single_coalitions_are_not_read_as_pairs(other):
    few = explainer().explain(queries=20)
    with pytest.raises(InputError, match="paired=False"):
        explainer().refine(few, **other)


def test_a_coalition_costs_as_many_queries_as_there_are_background_rows():
    X = np.random.default_rng(0).normal(size=(20, 6))
    shap = cx.BayesSHAP(lambda A: np.tanh(A.sum(axis=1)), X, posterior="gp", sampler="focused")
    x = np.ones(6)
    assert not in_pairs(asked(shap.explain(x, queries=21 + 13 * 20)))  # 6 pairs and one more
    assert in_pairs(asked(shap.explain(x, queries=21 + 14 * 20)))


def test_saved_runs_go_on_as_well(tmp_path):
    shap = explainer()
    few = shap.explain(queries=20)
    few.to_json(tmp_path / "few.json")
    read = cx.Explanation.from_json(tmp_path / "few.json")
    np.testing.assert_allclose(
        shap.refine(read, queries=60).mean, shap.refine(few, queries=60).mean, atol=1e-12
    )


def test_random_coalitions_follow_where_the_process_ends(monkeypatch):
    for module in ("credex.designs.coalitions", "credex.estimators.process_shapley"):
        monkeypatch.setattr(f"{module}.PROCESS_UNITS", 50)
    shap = explainer()
    e = shap.refine(shap.explain(queries=20), queries=250)
    assert e.n_queries == 250
    assert any("control variate" in note for note in e.notes)
    assert e.interval(0.999).covers(shapley(smooth_game(D, 0))).all()
    assert e.interval().width.mean() < 0.2


def test_errors_are_smaller_than_those_of_pairs():
    """Over 12 games single coalitions have half the error of random pairs."""
    errors = []
    for seed in range(12):
        table = smooth_game(D, seed, curvature=0.3)
        means = [
            cx.BayesSHAP(table_game(table), cx.Masks(D), posterior="gp", sampler=sampler)
            .explain(queries=20, seed=seed)
            .mean
            for sampler in ("focused", "paired")
        ]
        errors.append([np.sum((mean - shapley(table)) ** 2) for mean in means])
    singles, pairs = np.sqrt(np.sum(errors, axis=0))
    assert singles < 0.7 * pairs, (singles, pairs)


def test_it_is_said_when_no_row_was_asked_twice():
    """The repeat of f(x) would leave fewer pairs than players and one more."""
    few, enough = (explainer().explain(queries=q) for q in (24, 25))
    assert few.n_queries == 24
    assert any("no row was asked twice" in note for note in few.notes)
    assert not few.history.checked
    assert enough.history.checked
    assert not any("no row was asked twice" in note for note in enough.notes)


@pytest.mark.parametrize(("d", "pairs"), [(20, False), (30, True)])
def test_many_players_are_asked_in_pairs_from_twice_as_many_queries_on(d, pairs):
    """d - 1 pairs and f(x) - base are as many equations as players."""
    w = np.random.default_rng(1).normal(size=d)
    shap = cx.BayesSHAP(lambda z: np.tanh(z @ w / 3), cx.Masks(d), posterior="gp")
    assert in_pairs(asked(shap.explain(queries=2 * d))) == pairs
    assert not in_pairs(asked(shap.explain(queries=2 * d - 1)))
