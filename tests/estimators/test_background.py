"""Shapley values over all background rows: they add up, they are exact when all was asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from credex.designs.background import BackgroundDesign
from credex.designs.design import Context
from credex.estimators import background
from credex.estimators.background import BackgroundEstimator
from credex.history import History
from credex.options import Options
from tests.games import shapley
from tests.strategies import Counting, numbers

POSTERIORS = ["gp", "linear"]
X = numbers(40, 5)
INSTANCE = X[3] + 0.1
WEIGHTS = np.random.default_rng(5).lognormal(0, 1, 40)


def smooth(rows):
    r = np.asarray(rows, dtype=np.float64)
    return r[:, 0] * r[:, 1] + np.sin(2 * r[:, 2]) + r[:, 3] + np.where(r[:, 4] > 0, r[:, 0], 0.0)


def several(rows):
    r = np.asarray(rows, dtype=np.float64)
    return np.column_stack([smooth(r), 1e3 * np.tanh(r[:, 1] + r[:, 2]), 1e-4 * r[:, 0] ** 2])


def probability(rows):
    return 1 / (1 + np.exp(-smooth(rows)))


class Noisy:
    """Deterministic noise: every call draws anew from a generator of its own."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, rows):
        return smooth(rows) + 0.3 * self.rng.normal(size=len(rows))


def frame(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.integers(18, 90, n)),
            "job": rng.choice(["clerk", "nurse", "pilot", None], n),
            "town": pd.Categorical(rng.choice(["rome", "oslo"], n)),
            "owner": rng.random(n) < 0.5,
            "children": pd.array(rng.choice([0, 1, 2, None], n), dtype="Int64"),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )


def of_frame(rows):
    age = rows["age"].astype(float).fillna(30.0).to_numpy() / 50
    children = rows["children"].astype("Float64").fillna(5).to_numpy(dtype=float)
    job = rows["job"].map({"clerk": 0.0, "nurse": 1.0, "pilot": 3.0}).fillna(-1.0).to_numpy()
    days = (rows["since"] - pd.Timestamp("2020-01-01")).dt.days.to_numpy() / 900
    rome = (rows["town"].astype(str) == "rome").to_numpy()
    return age * job + rome * children + days * rows["owner"].to_numpy(dtype=float)


def brute(model, data, x, weights=None, groups=None):
    """Shapley values and base value over all rows of ``data``, by enumeration."""
    table = isinstance(data, pd.DataFrame)
    columns = list(data.columns) if table else list(range(data.shape[1]))
    groups = [[c] for c in columns] if groups is None else groups
    values = []
    for i in range(2 ** len(groups)):
        rows = data.copy()
        for c in (c for j, g in enumerate(groups) if i >> j & 1 for c in g):
            if table:
                rows[c] = pd.Series([x[c]] * len(data), index=data.index, dtype=data[c].dtype)
            else:
                rows[:, c] = x[c]
        values.append(np.average(model(rows), axis=0, weights=weights))
    return shapley(np.array(values)), values[0]


def adds_up(e):
    total = np.asarray(e.prediction) - np.asarray(e.base_value)
    scale = max(1.0, float(np.abs(e.prediction).max()))
    np.testing.assert_allclose(e.mean.sum(axis=0), total, rtol=0, atol=1e-9 * scale)
    assert np.all(np.isfinite(e.mean))
    assert np.all(np.isfinite(e.interval().width))
    assert e.base_interval.lower.shape == np.shape(e.base_value)


# -- adding up -----------------------------------------------------------------------------------

CASES = {
    "one output": (smooth, {}, {}),
    "several outputs": (several, {}, {}),
    "groups": (smooth, {"groups": {"g": ["x1", "x3"]}}, {}),
    "one group of all but one": (smooth, {"groups": {"g": ["x0", "x1", "x2", "x3"]}}, {}),
    "categories": (smooth, {"categorical": ["x1"]}, {}),
    "weights": (smooth, {"weights": WEIGHTS}, {}),
    "20 rows chosen": (smooth, {"background": 20}, {}),
    "cohorts": (smooth, {"cohort": ["a", "b"] * 20}, {"cohort": "b"}),
    "log-odds": (probability, {}, {"link": "logit"}),
    "logarithms": (probability, {}, {"link": "log"}),
    "noisy": (smooth, {}, {"noisy": True}),
    "a prior": (several, {}, {"prior": cx.Prior(mean=0.3, precision=[1.0, 0.0, 5.0, 0.0, 2.0])}),
    "rows as a sample": (several, {}, {"background_uncertainty": True}),
    "a target": (several, {}, {"target": 1}),
    "a width": (smooth, {}, {"width": 0.5, "queries": None}),
    "many rows": (smooth, {}, {"queries": 700}),
}


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("case", CASES)
def test_importances_add_up_to_f_of_x_less_the_base_value(case, posterior):
    model, domain, call = CASES[case]
    explainer = cx.BayesSHAP(model, cx.Tabular(X, **domain), posterior=posterior)
    e = explainer.explain(INSTANCE, **({"queries": 90} | call))
    assert not e.exact
    adds_up(e)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("groups", [None, {"home": ["town", "owner"]}], ids=["columns", "groups"])
def test_a_frame_with_categories_and_missing_values(posterior, groups):
    data = frame()
    weights = np.random.default_rng(1).lognormal(0, 0.5, len(data))
    explainer = cx.BayesSHAP(
        of_frame, cx.Tabular(data, groups=groups, weights=weights), posterior=posterior
    )
    names = [["age"], ["job"], ["town"], ["owner"], ["children"], ["since"]]
    if groups:
        names[2:4] = [["town", "owner"]]
    for i in (0, 1, 2):
        e = explainer.explain(data.iloc[i], queries=300)
        adds_up(e)
        truth, _ = brute(of_frame, data, data.iloc[i], weights, names)
        assert np.abs(e.mean - truth).max() < 0.2 * np.abs(truth).max() + 0.1
        assert np.all(np.abs(e.mean - truth) < 8 * e.sd + 1e-9)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_features_keeps_the_largest_shapley_values_as_they_are(posterior):
    explainer = cx.BayesSHAP(several, X, posterior=posterior)
    full, few = (explainer.explain(INSTANCE, queries=90, features=k) for k in (None, 3))
    adds_up(full)
    for j in range(3):
        kept = np.argsort(-np.abs(full.mean[:, j]))[:3]
        np.testing.assert_array_equal(np.flatnonzero(few.mean[:, j]), np.sort(kept))
        np.testing.assert_array_equal(few.mean[kept, j], full.mean[kept, j])
        assert np.all(few.sd[kept, j] >= full.sd[kept, j] * (1 - 1e-12))
    np.testing.assert_array_equal(few.base_value, full.base_value)
    assert any("3 of 5 features" in note for note in few.notes)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_importances_of_all_classes_cancel(posterior):
    y = np.digitize(smooth(X), [-0.5, 0.5])
    forest = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, y)
    explainer = cx.BayesSHAP(forest.predict_proba, X, posterior=posterior)
    for call in (
        {"queries": 60},
        {"queries": 400},
        {"queries": 90, "background_uncertainty": True},
    ):
        e = explainer.explain(INSTANCE, **call)
        assert e.mean.shape == (5, 3)
        np.testing.assert_allclose(e.mean.sum(axis=1), 0, atol=1e-8)
        np.testing.assert_allclose(np.sum(e.base_value), 1, atol=1e-8)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_units_of_an_output_change_nothing_but_units(posterior):
    explain = cx.BayesSHAP(several, X, posterior=posterior).explain
    scaled = cx.BayesSHAP(lambda r: 1e4 * several(r) + 7e3, X, posterior=posterior).explain
    e, other = explain(INSTANCE, queries=90), scaled(INSTANCE, queries=90)
    size = np.abs(e.mean).max(axis=0)
    np.testing.assert_allclose(other.mean / 1e4 / size, e.mean / size, atol=1e-4)
    np.testing.assert_allclose(other.sd / 1e4 / size, e.sd / size, atol=1e-4)


def test_a_prior_moves_what_it_knows_and_only_narrows():
    explainer = cx.BayesSHAP(smooth, X, posterior="linear")
    flat = explainer.explain(INSTANCE, queries=60)
    none = explainer.explain(INSTANCE, queries=60, prior=cx.Prior(precision=0.0))
    np.testing.assert_array_equal(flat.mean, none.mean)
    strong = cx.Prior(mean=2.0, precision=[1e6, 0.0, 0.0, 0.0, 0.0])
    e = explainer.explain(INSTANCE, queries=60, prior=strong)
    assert abs(e.mean[0] - 2.0) < abs(flat.mean[0] - 2.0)
    assert np.all(e.sd <= flat.sd + 1e-12)
    assert e.sd[0] < 0.1 * flat.sd[0]


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_rows_as_a_sample_add_the_variance_between_rows(posterior):
    explainer = cx.BayesSHAP(smooth, X, posterior=posterior)
    e, wide = (
        explainer.explain(INSTANCE, queries=500, background_uncertainty=b) for b in (False, True)
    )
    np.testing.assert_array_equal(e.mean, wide.mean)
    exact = explainer.explain(INSTANCE, posterior="exact", background_uncertainty=True)
    added = np.sqrt(wide.sd**2 - e.sd**2)
    np.testing.assert_allclose(added, exact.sd, rtol=0.35, atol=0.1 * exact.sd.max())
    assert any("are a sample" in note for note in wide.notes)


# -- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS[:10]], ids=["equal", "weights"])
@pytest.mark.parametrize("posterior", ["auto", *POSTERIORS])
@pytest.mark.parametrize("extra", [0, 1, 50])
def test_a_budget_for_every_row_and_mask_is_exact(posterior, extra, weights):
    data, enough = X[:10], 31 * 10 + 1
    model = Counting(smooth)
    explainer = cx.BayesSHAP(model, cx.Tabular(data, weights=weights), posterior=posterior)
    e = explainer.explain(INSTANCE, queries=enough + extra)
    truth, base = brute(smooth, data, INSTANCE, weights)
    assert e.exact
    assert e.stop_reason == "exact"
    np.testing.assert_allclose(e.mean, truth, atol=1e-10)
    np.testing.assert_allclose(e.base_value, base, atol=1e-10)
    assert not e.interval().width.any()
    assert not e.base_interval.width.any()
    assert e.n_queries == enough
    assert model.rows == e.n_model_rows <= enough + 1


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_one_row_less_is_not_exact(posterior):
    e = cx.BayesSHAP(smooth, X[:10], posterior=posterior).explain(INSTANCE, queries=31 * 10)
    assert not e.exact
    assert np.all(e.interval().width > 0)
    assert not e.base_interval.width.any()  # every background row was asked
    np.testing.assert_allclose(e.base_value, smooth(X[:10]).mean(), atol=1e-10)


def test_exact_by_wish_and_within_the_default_ceiling():
    truth, base = brute(smooth, X, INSTANCE)
    explainer = cx.BayesSHAP(smooth, X)
    for call in ({"posterior": "exact"}, {"queries": 2000}):
        e = explainer.explain(INSTANCE, **call)
        assert e.exact
        np.testing.assert_allclose(e.mean, truth, atol=1e-10)
        np.testing.assert_allclose(e.base_value, base, atol=1e-10)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_more_queries_approach_the_truth(posterior):
    truth, _ = brute(smooth, X, INSTANCE)
    error = []
    for queries in (60, 600):
        runs = [
            cx.BayesSHAP(smooth, X, posterior=posterior, seed=s).explain(INSTANCE, queries=queries)
            for s in range(3)
        ]
        error.append(np.sqrt(np.mean([(e.mean - truth) ** 2 for e in runs])))
    assert error[1] < 0.4 * error[0]


# -- few features --------------------------------------------------------------------------------


def one_feature(n=30):
    data = np.ones((n, 3))
    data[:, 1] = np.random.default_rng(0).normal(size=n)
    return data, np.array([1.0, 2.0, 1.0])


def square(rows):
    return np.asarray(rows)[:, 1] ** 2 + np.asarray(rows)[:, 0]


@pytest.mark.parametrize("posterior", ["auto", *POSTERIORS])
@pytest.mark.parametrize("weights", [None, WEIGHTS[:30]], ids=["equal", "weights"])
def test_with_one_feature_the_base_value_is_all_there_is_to_ask(posterior, weights):
    data, x = one_feature()
    model = Counting(square)
    explainer = cx.BayesSHAP(model, cx.Tabular(data, weights=weights), posterior=posterior)
    base = np.average(square(data), weights=weights)
    whole = explainer.explain(x)
    assert whole.exact
    np.testing.assert_allclose(whole.mean, [0.0, square(x[None])[0] - base, 0.0], atol=1e-12)
    np.testing.assert_allclose(whole.base_value, base, atol=1e-12)
    assert not whole.interval().width.any()
    assert whole.n_queries == 31
    assert model.rows == whole.n_model_rows
    part = explainer.explain(x, queries=12)
    adds_up(part)
    assert not part.exact
    assert part.n_queries == 12
    assert part.interval().width[1] > 0
    assert not part.interval().width[[0, 2]].any()
    np.testing.assert_allclose(part.interval().width[1], part.base_interval.width, rtol=1e-9)
    np.testing.assert_allclose(explainer.refine(part, queries=31).mean, whole.mean, atol=1e-12)


def test_with_one_feature_a_noisy_model_is_never_exact():
    data, x = one_feature()
    rng = np.random.default_rng(0)
    e = cx.BayesSHAP(lambda r: square(r) + 0.1 * rng.normal(size=len(r)), data, noisy=True).explain(
        x
    )
    adds_up(e)
    assert not e.exact
    assert e.interval().width[1] > 0


def test_without_a_feature_nothing_is_to_be_explained():
    data, x = one_feature()
    nb = cx.Tabular(data).at(x)
    nb.active = np.zeros(3, dtype=bool)  # equal rows are merged, so no table has several of them
    design = BackgroundDesign(nb, Options(posterior="linear"), Context(), History())
    assert (design.d, design.everything, design.ends_suffice) == (0, 1.0, True)
    estimator = BackgroundEstimator(design)
    assert estimator.minimum == 1
    assert estimator.fit(History()) is None
    e = estimator.fit(History(full=np.array([3.0, 4.0])))
    assert e.exact
    assert e.belief.mean.shape == (3, 2)
    assert not e.belief.mean.any()
    assert not e.belief.scale.any()
    one = cx.BayesSHAP(square, np.tile(x, (5, 1))).explain(x)
    assert one.exact
    assert one.base_value == one.prediction == 5.0


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_features_that_never_differ_have_no_share(posterior):
    data = X.copy()
    data[:, 2] = 1.0
    x = np.where(np.arange(5) == 2, 1.0, INSTANCE)
    e = cx.BayesSHAP(smooth, data, posterior=posterior).explain(x, queries=90)
    adds_up(e)
    assert e.mean[2] == 0
    assert e.interval().width[2] == 0
    assert np.all(np.delete(e.interval().width, 2) > 0)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_constant_model_has_no_importances(posterior):
    e = cx.BayesSHAP(lambda r: np.full(len(r), 7.0), X, posterior=posterior).explain(
        INSTANCE, queries=60
    )
    np.testing.assert_allclose(e.mean, 0, atol=1e-12)
    np.testing.assert_allclose(e.interval().width, 0, atol=1e-9)
    assert e.base_value == 7.0


# -- base value ----------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
def test_the_interval_of_the_base_value_holds(posterior, weights):
    """60 runs at 0.95: 48 or fewer hold by chance in 1 of 10,000."""
    base = np.average(smooth(X), weights=weights)
    explainer = cx.BayesSHAP(smooth, cx.Tabular(X, weights=weights), posterior=posterior)
    held, widths = [], []
    for seed in range(60):
        found = explainer.explain(INSTANCE, queries=60, seed=seed).base_interval
        held.append(found.lower <= base <= found.upper)
        widths.append(float(found.width))
    assert np.mean(held) > 0.8
    assert 0 < np.median(widths) < 4 * smooth(X).std()


def test_the_base_value_is_known_once_every_row_was_asked():
    explainer = cx.BayesSHAP(smooth, X, posterior="linear")
    e = explainer.explain(INSTANCE, queries=400)
    assert not e.exact
    np.testing.assert_allclose(e.base_value, smooth(X).mean(), atol=1e-10)
    assert not e.base_interval.width.any()
    assert (
        cx.BayesSHAP(smooth, X, posterior="linear", noisy=True)
        .explain(INSTANCE, queries=400)
        .base_interval.width.any()
    )


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("model", [smooth, several])
def test_json_keeps_the_interval_of_the_base_value(posterior, model):
    e = cx.BayesSHAP(model, X, posterior=posterior).explain(INSTANCE, queries=70)
    back = cx.Explanation.from_json(e.to_json())
    np.testing.assert_array_equal(back.base_interval.lower, e.base_interval.lower)
    np.testing.assert_array_equal(back.base_interval.upper, e.base_interval.upper)
    np.testing.assert_array_equal(back.base_value, e.base_value)
    np.testing.assert_array_equal(back.mean, e.mean)
    assert back.base_interval.level == 0.95
    assert np.all(back.base_interval.width > 0)


# -- noise, equal rows, large budgets ------------------------------------------------------------


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_noise_widens_and_is_averaged(posterior):
    truth, _ = brute(smooth, X, INSTANCE)
    quiet = cx.BayesSHAP(smooth, X, posterior=posterior).explain(INSTANCE, queries=300)
    e = cx.BayesSHAP(Noisy(), X, posterior=posterior, noisy=True).explain(INSTANCE, queries=300)
    adds_up(e)
    assert e.history.end_repeats > 1
    assert np.all(e.sd > quiet.sd)
    assert np.all(np.abs(e.mean - truth) < 6 * e.sd)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("kind", ["numbers", "frame"])
def test_equal_rows_are_one_row_with_their_weight(posterior, kind):
    data, model = (X[:20], smooth) if kind == "numbers" else (frame(20), of_frame)
    times = np.random.default_rng(0).integers(1, 5, 20)
    many = np.repeat(np.arange(20), times)
    x = INSTANCE if kind == "numbers" else frame(1, seed=3).iloc[0]
    repeated = data[many] if kind == "numbers" else data.iloc[many].reset_index(drop=True)
    one = cx.BayesSHAP(model, cx.Tabular(data, weights=times), posterior=posterior)
    other = cx.BayesSHAP(model, repeated, posterior=posterior)
    a, b = one.explain(x, queries=90), other.explain(x, queries=90)
    exact, again = one.explain(x, posterior="exact"), other.explain(x, posterior="exact")
    np.testing.assert_allclose(exact.mean, again.mean, atol=1e-10)
    np.testing.assert_allclose(exact.mean.sum(), a.prediction - exact.base_value, atol=1e-10)
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-9)
    np.testing.assert_allclose(a.interval().width, b.interval().width, atol=1e-9)
    np.testing.assert_allclose(a.base_interval.width, b.base_interval.width, atol=1e-9)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_basis_of_fewer_rows_gives_nearly_the_same(posterior, monkeypatch):
    explainer = cx.BayesSHAP(smooth, X, posterior=posterior)
    whole = explainer.explain(INSTANCE, queries=280)
    monkeypatch.setattr(background, "MAX_EXACT_ROWS", 200)
    monkeypatch.setattr(background, "BASIS_ROWS", 150)
    monkeypatch.setattr(background, "UNFITTED_BASIS_ROWS", 150)
    e = explainer.explain(INSTANCE, queries=280)
    adds_up(e)
    assert not np.array_equal(e.mean, whole.mean)
    np.testing.assert_allclose(e.mean, whole.mean, atol=3 * whole.sd.max())


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_forecast_is_a_start_and_is_reached(posterior):
    explainer = cx.BayesSHAP(smooth, X, posterior=posterior)
    f = explainer.forecast(INSTANCE, width=0.3, seed_queries=60)
    assert f.asked.n_queries <= 60
    e = explainer.explain(INSTANCE, width=0.3, start=f, max_queries=5000)
    adds_up(e)
    assert e.converged
    assert np.all(e.interval().width <= 0.3)
    assert e.n_queries <= 3 * (60 + f.queries)


def test_a_forecast_has_a_price():
    explainer = cx.BayesSHAP(smooth, X, posterior="linear")
    f = explainer.forecast(INSTANCE, width=0.05, seed_queries=60, row_cost=0.01)
    assert f.cost == pytest.approx(0.01 * f.model_rows)
    assert "price" in str(f)
    assert explainer.forecast(INSTANCE, width=0.05, seed_queries=60).cost is None
    with pytest.raises(cx.InputError, match="row_cost"):
        explainer.forecast(INSTANCE, width=0.05, row_cost=-1)


def test_answers_that_are_all_alike_do_not_end_a_run():
    """A rare event: the first 64 answers are often all zero."""
    background = np.random.default_rng(0).normal(size=(2000, 3))

    def rare(rows):
        return 100.0 * (rows[:, 0] > 2) * (rows[:, 1] > 0)

    for seed in range(8):
        e = cx.BayesSHAP(rare, background).explain(np.array([0.0, 1.0, 0.0]), seed=seed)
        assert np.any(e.sd > 0) or not e.converged


@pytest.mark.parametrize(("queries", "folds"), [(100, 4), (700, 2)])
def test_kernels_judge_only_units_that_they_did_not_see(queries, folds, monkeypatch):
    kernels, seen, judged = [], [], []
    fit, left_out = background.fit_kernel, background.Surrogate.left_out

    def recorded(space, rows, y, seed):
        seen.append({row.tobytes() for row in rows})
        kernels.append(fit(space, rows, y, seed))
        return kernels[-1]

    def watched(self, units):
        fold = next(i for i, kernel in enumerate(kernels) if kernel is self.kernel)
        judged.extend((fold, row.tobytes()) for row in self.basis[units.ravel()])
        return left_out(self, units)

    monkeypatch.setattr(background, "fit_kernel", recorded)
    monkeypatch.setattr(background.Surrogate, "left_out", watched)
    table = numbers(3_000, 5, seed=9)  # hybrid rows are all different
    cx.BayesSHAP(smooth, table, posterior="gp").explain(INSTANCE, queries=queries)
    assert len(kernels) == folds
    assert len(judged) == len({row for _, row in judged})  # every unit once
    assert len(judged) >= queries - 3  # all but f(x)
    assert not any(row in seen[fold] for fold, row in judged)


@pytest.mark.parametrize(("posterior", "power"), [("gp", 0.75), ("linear", 0.65)])
def test_a_forecast_takes_into_account_that_the_surrogate_learns(posterior, power):
    """Half the width takes 2^(1/power) times the rows, and four times beyond 1,500 rows."""
    explainer = cx.BayesSHAP(smooth, X, posterior=posterior)
    e = explainer.explain(INSTANCE, queries=60)
    widest = float(e.interval().width.max())
    near, far = (
        explainer.forecast(INSTANCE, width=widest / factor, seed_queries=60)
        for factor in (2.0, 200.0)
    )
    assert near.total == pytest.approx(60 * 2 ** (1 / power), rel=0.05)
    farther = explainer.forecast(INSTANCE, width=widest / 400.0, seed_queries=60)
    assert farther.total == pytest.approx(4 * far.total, rel=0.05)
    assert near.low < near.queries < near.high
