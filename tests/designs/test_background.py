"""One background row per query: whose turn it is, which masks, and who pays for what."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import credex as cx
from credex.designs.background import BackgroundDesign, pair_scale
from credex.designs.design import Context
from credex.designs.samplers import Paired
from credex.errors import ModelRaisedError
from credex.history import History
from credex.options import Options
from tests.strategies import Counting, FailsAfter, numbers

X = numbers(60, 6)
FOREST = RandomForestRegressor(10, max_depth=5, random_state=0)
FOREST.fit(X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3])
POSTERIORS = ["gp", "linear"]

# Two forests that predict in two threads race for Python's list of warning filters.
race = pytest.mark.filterwarnings("ignore:.sklearn.utils.parallel.delayed")


def forest(rows):
    return FOREST.predict(np.asarray(rows))


def design(data=X, seed=0, weights=None, **options):
    nb = cx.Tabular(data, weights=weights).at(data[0] + 0.1)
    return BackgroundDesign(nb, Options(seed=seed, **options), Context(), History())


def same(a, b, tolerance=0.0):
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.interval().lower, b.interval().lower, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.interval().upper, b.interval().upper, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.base_value, b.base_value, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.base_interval.width, b.base_interval.width, rtol=0, atol=tolerance)
    assert (a.n_queries, a.exact) == (b.n_queries, b.exact)


# -- whose turn it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_in_every_cycle_each_row_has_a_pair(seed):
    pairs = design(seed=seed).pair_rows(0, 5 * 60).reshape(5, 60)
    np.testing.assert_array_equal(np.sort(pairs, axis=1), np.tile(np.arange(60), (5, 1)))
    assert len(np.unique(pairs, axis=0)) == 5  # in another order each time


def test_rows_have_pairs_in_proportion_to_their_weights():
    weights = np.random.default_rng(0).lognormal(0, 1.5, 60)
    share = weights / weights.sum()
    counts = []
    for seed in range(40):
        d = design(seed=seed, weights=weights)
        np.testing.assert_allclose(d.weights, share)
        cycles = d.pair_rows(0, 5 * 60).reshape(5, 60)
        counts += [np.bincount(c, minlength=60) for c in cycles]
    counts = np.array(counts)
    assert np.all(np.abs(counts - 60 * share) < 1)  # in every cycle, to the nearest whole number
    error = np.sqrt(0.25 / len(counts))  # of a mean of numbers that differ by one
    assert np.abs(counts.mean(axis=0) - 60 * share).max() < 5 * error


def test_no_row_gives_the_base_value_twice():
    d = design()
    rows = d.base_rows(0, 60)
    np.testing.assert_array_equal(np.sort(rows), np.arange(60))
    pieces = [d.base_rows(a, min(a + 7, 60)) for a in range(0, 60, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), rows)
    assert not np.array_equal(rows, design(seed=1).base_rows(0, 60))


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 61.0)])
def test_units_are_a_function_of_their_position(weights):
    d = design(weights=weights)
    rows, masks = d.pair_rows(0, 3000), d.pair_masks(0, 3000)
    for start, stop in ((0, 1), (59, 61), (100, 1500), (1020, 1030), (2999, 3000), (5, 5)):
        np.testing.assert_array_equal(d.pair_rows(start, stop), rows[start:stop])
        np.testing.assert_array_equal(d.pair_masks(start, stop), masks[start:stop])


# -- which masks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 6, 15])
def test_sizes_of_masks_follow_the_shapley_distribution(d):
    masks = design(numbers(30, d)).pair_masks(0, 20_000)
    sizes = np.arange(1, d)
    mass = 1.0 / (sizes * (d - sizes))
    for start, stop in ((0, 200), (0, 20_000), (7_000, 9_000)):
        n = stop - start
        got = np.bincount(masks[start:stop].sum(axis=1), minlength=d + 1)
        assert got[0] == got[d] == 0
        # evenly spread points miss a stretch by a few, where random ones miss it by √n
        np.testing.assert_allclose(got[1:d], n * mass / mass.sum(), atol=8)
    left = masks - masks.mean(axis=1, keepdims=True)
    expected = (np.eye(d) - 1.0 / d) / pair_scale(d)
    np.testing.assert_allclose(left.T @ left / len(masks), expected, atol=5 * 0.5 / np.sqrt(20_000))


def test_a_pair_is_a_mask_and_its_complement_on_one_row():
    d = design()
    chosen = d.choose(History(), 101, None)
    base = int((~chosen.design.any(axis=1)).sum())
    z = chosen.design[base:]
    assert 2 <= base < 101
    assert not chosen.design[:base].any()
    np.testing.assert_array_equal(z[1::2], ~z[0::2])
    np.testing.assert_array_equal(chosen.position[:base], np.arange(base))
    np.testing.assert_array_equal(chosen.position[base:], np.repeat(np.arange(len(z) // 2), 2))
    first, second = d.perturbation_queries(chosen)
    rows, x = np.asarray(first.make(0, base)[0]), np.asarray(d.neighbourhood.instance_inputs())
    np.testing.assert_array_equal(rows, X[d.base_rows(0, base)])
    rows = np.asarray(second.make(0, len(z))[0])
    np.testing.assert_array_equal(
        rows, np.where(z, x, X[np.repeat(d.pair_rows(0, len(z) // 2), 2)])
    )


def test_background_rows_keep_their_share_until_there_are_no_more():
    d = design(numbers(20, 6))
    for n in (2, 10, 50, 100, 400):
        base = int((~d.choose(History(), n, None).design.any(axis=1)).sum())
        wanted = max(2, d.base_share * n)
        assert min(wanted - 1, 20) <= base <= min(wanted + 2, 20)


def test_a_sampler_of_the_users_choice_asks_each_coalition_on_every_row():
    explainer = cx.BayesSHAP(forest, X[:10])
    e = explainer.explain(X[0], queries=300, sampler="random", posterior="linear")
    n_coalitions = e.history.rows.n
    assert e.n_queries == 10 * n_coalitions + 10 + 1
    assert e.sampler == "random"
    assert explainer.explain(X[0], queries=300, sampler=Paired()).sampler == ("paired")


# -- cutting a run -------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize(
    "stops", [(60, 120), (33, 60, 120), (40, 80, 200, 401)], ids=lambda s: "-".join(map(str, s))
)
def test_a_run_that_is_continued_is_the_whole_run(posterior, stops):
    explainer = cx.BayesSHAP(forest, X, posterior=posterior, seed=2)
    e = explainer.explain(X[0], queries=stops[0])
    for n in stops[1:]:
        e = explainer.refine(cx.Explanation.from_json(e.to_json()), queries=n)
    whole = explainer.explain(X[0], queries=stops[-1])
    np.testing.assert_array_equal(
        np.sort(e.history.rows.y(), axis=0), np.sort(whole.history.rows.y(), axis=0)
    )
    same(e, whole, 1e-9)
    assert e.n_model_rows == whole.n_model_rows + len(stops) - 1  # f(x) again: is it the model?


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("batch_rows", [1, 7, 50])
def test_small_calls_change_nothing(posterior, batch_rows):
    explainer = cx.BayesSHAP(forest, X, posterior=posterior)
    same(
        explainer.explain(X[0], queries=80, batch_rows=batch_rows),
        explainer.explain(X[0], queries=80),
    )


def test_a_query_is_a_model_row_and_the_budget_is_kept():
    for queries in range(40, 70):
        model = Counting(forest)
        e = cx.BayesSHAP(model, X, posterior="linear").explain(X[0], queries=queries)
        assert queries - 1 <= e.n_queries <= queries
        assert model.rows == e.n_model_rows == e.n_queries + 1  # f(x) again


def test_no_hybrid_row_is_asked_twice_but_f_of_x():
    model = Counting(forest, keep=True)
    e = cx.BayesSHAP(model, X, posterior="linear").explain(X[0] + 0.1, queries=300)
    assert len(set(model.seen)) > 0.97 * e.n_queries  # a mask may meet a row again by chance
    assert model.seen.count((X[0] + 0.1).tobytes()) == 2
    asked = {x.tobytes() for x in X}
    counts = [model.seen.count(b) for b in asked]
    n_base = int((~e.history.rows.design().any(axis=1)).sum())
    assert max(counts) == 1
    assert sum(counts) == n_base


# -- calls that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "batch_rows"), [(4, 1), (24, 1), (25, 1), (26, 1), (3, 7), (5, 7), (6, 10)]
)
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_after_a_failed_call_nothing_is_lost_and_every_row_is_counted(posterior, good, batch_rows):
    fails = FailsAfter(forest, good, ValueError("out of order"))
    model = Counting(fails, keep=True)
    explainer = cx.BayesSHAP(model, X, posterior=posterior, batch_rows=batch_rows)
    with pytest.raises(ModelRaisedError, match="out of order") as caught:
        explainer.explain(X[0], queries=80)
    partial = caught.value.partial
    assert partial.n_model_rows == model.rows
    assert any("in calls that failed" in note for note in partial.notes)
    n = partial.history.rows.n
    masks = partial.history.rows.design()
    pairs = masks[masks.any(axis=1)]
    assert len(pairs) % 2 == 0
    np.testing.assert_array_equal(pairs[1::2], ~pairs[0::2])
    assert n >= (good - 2) * batch_rows - 1  # the first call is f(x), the last row half a pair
    fails.mended = True
    whole = cx.BayesSHAP(forest, X, posterior=posterior).explain(X[0], queries=80)
    before = model.rows
    more = explainer.refine(partial, queries=80)
    assert more.n_model_rows == model.rows
    assert model.rows - before <= 80 - n + 1
    np.testing.assert_allclose(more.mean, whole.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(more.interval().lower, whole.interval().lower, rtol=0, atol=1e-12)
    assert more.n_queries == whole.n_queries


# -- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [{"queries": 90}, {"width": 0.6, "max_queries": 400}], ids=str)
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 61.0)], ids=["equal", "weights"])
def test_a_batch_asks_background_rows_once_for_all_instances(goal, weights):
    rows = X[:4] + 0.05
    alone, together = Counting(forest, keep=True), Counting(forest, keep=True)
    domain = cx.Tabular(X, weights=weights)
    each = [cx.BayesSHAP(alone, domain, posterior="linear").explain(x, **goal) for x in rows]
    batch = cx.BayesSHAP(together, domain, posterior="linear").explain_many(rows, **goal)
    base = {x.tobytes() for x in X}
    counts = [together.seen.count(b) for b in base]
    most = max(int((~e.history.rows.design().any(axis=1)).sum()) for e in each)
    assert sum(counts) == most
    if weights is None:  # with weights, heavy rows are asked again
        assert max(counts) == 1
        assert max(alone.seen.count(b) for b in base) == 4
    assert batch.n_model_rows == together.rows < alone.rows
    for one, other in zip(each, batch, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)


def test_the_answers_of_a_noisy_model_are_not_shared():
    model = Counting(forest, keep=True)
    batch = cx.BayesSHAP(model, X, posterior="linear", noisy=True).explain_many(
        X[:3] + 0.1, queries=90
    )
    base = {x.tobytes() for x in X}
    asked = sum(int((~e.history.rows.design().any(axis=1)).sum()) for e in batch)
    assert sum(model.seen.count(b) for b in base) == asked


@race
@pytest.mark.parametrize("goal", [{"queries": 90}, {"width": 0.6, "max_queries": 300}], ids=str)
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_alone_in_a_batch_and_on_two_threads_are_the_same_bits(posterior, goal):
    explainer = cx.BayesSHAP(forest, X, posterior=posterior, seed=4)
    rows = X[:3] + 0.05
    alone = [explainer.explain(x, **goal) for x in rows]
    for split in ({}, {"n_jobs": 2, "workers": "threads"}, {"batch_rows": 37}):
        for one, other in zip(alone, explainer.explain_many(rows, **goal, **split), strict=True):
            np.testing.assert_array_equal(one.mean, other.mean)
            np.testing.assert_array_equal(one.interval().lower, other.interval().lower)
            np.testing.assert_array_equal(one.interval().upper, other.interval().upper)
            np.testing.assert_array_equal(one.base_value, other.base_value)
            np.testing.assert_array_equal(one.base_interval.width, other.base_interval.width)
            assert one.n_queries == other.n_queries


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_the_global_random_state_is_neither_read_nor_changed(posterior):
    explainer = cx.BayesSHAP(forest, X, posterior=posterior)
    np.random.seed(1)
    before = np.random.get_state()
    first = explainer.explain(X[0], queries=80)
    after = np.random.get_state()
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    np.random.seed(2)
    same(first, explainer.explain(X[0], queries=80))
    other = explainer.explain(X[0], queries=80, seed=5)
    assert not np.array_equal(first.mean, other.mean)
