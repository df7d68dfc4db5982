"""explain_loss: exact where it must be, within its budget, honest about what it is asked."""

import inspect
import tracemalloc
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import credex as cx
from benchmarks.loss_cases import enumerated
from credex.importance import loss_estimate, loss_run
from credex.importance.loss_estimate import shapley_of
from credex.importance.losses import Loss
from credex.importance.surrogate import FOLDS, Games, PairSurrogate
from credex.posteriors.assisted import InputSpace
from tests.strategies import Counting

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
BACKGROUND = RNG.normal(size=(20, 3))


def pairs(rows):
    rows = np.asarray(rows, dtype=float)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def chances(rows):
    return 1 / (1 + np.exp(-pairs(rows)))


Y = pairs(X) + 0.5 * RNG.normal(size=120)
CLASS = (RNG.random(120) < chances(X)).astype(int)


def test_the_surrogates_coalitions_are_means_of_its_predictions():
    rng = np.random.default_rng(1)
    rows, background, x = rng.random((80, 3)), rng.random((7, 3)), rng.random((2, 3))
    weights = rng.dirichlet(np.ones(7))
    space = InputSpace(((0,), (1,), (2,)), np.zeros(3, dtype=bool))
    fit = PairSurrogate(
        space,
        rows,
        np.column_stack([pairs(rows), rows[:, 0]]),
        np.arange(80) % FOLDS,
        background=background,
        weights=weights,
        amplitudes=np.array([1.0, 2.0, 0.5]),
    )
    output = np.array([1, 0])
    games = fit.quadratic(x, output, background, weights)
    masks = (np.arange(8)[:, None] >> np.arange(3)) & 1 == 1
    found = games.values(masks)
    for i in range(2):
        for fold in range(FOLDS):
            at = np.full(7, fold)
            mixed = [np.where(m, x[i], background) for m in masks]
            expected = [weights @ fit.predict(rows, at)[:, output[i]] for rows in mixed]
            np.testing.assert_allclose(found[i, :, fold], expected, atol=1e-8)
    own = games.of(np.array([3, 1])).values(np.stack([masks, masks]))[:, :, 0]
    np.testing.assert_allclose(own, [found[0, :, 3], found[1, :, 1]])


@pytest.mark.parametrize("q", [2, 3, 5])
def test_the_loss_of_a_mean_is_right_on_average_over_all_choices_of_rows(q):
    """Exactly for squared error; the jackknife takes most of the bias from the cross-entropy."""
    f = np.array([0.3, 0.5, 0.45, 0.7, 0.6])
    chosen = np.array(list(combinations(f - 0.4, q)))
    centre, target = np.full(len(chosen), 0.4), np.full(len(chosen), 0.9)
    square = Loss("squared error", target, np.zeros(1, int))
    found = square.of_mean(centre, chosen, target, q / 5)
    np.testing.assert_allclose(found.mean(), (f.mean() - 0.9) ** 2, rtol=1e-12)
    entropy = Loss("cross-entropy", target, np.zeros(1, int))
    found = entropy.of_mean(centre, chosen, target, q / 5).mean()
    plain = -np.log(0.4 + chosen.mean(axis=1)).mean()
    assert abs(found + np.log(f.mean())) <= 0.35 * abs(plain + np.log(f.mean())) + 1e-12


def test_the_logarithm_goes_on_smoothly_below_its_floor():
    loss = Loss("cross-entropy", np.zeros(1), np.zeros(1, int))
    s = np.array([0.1 - 1e-7, 0.1 + 1e-7, 0.3, -0.5])
    found = loss.extended(s, np.zeros(4), 0.1)
    np.testing.assert_allclose(found[:3], -np.log(s[:3]), atol=1e-9)
    np.testing.assert_allclose(found[3], -np.log(0.1) + 6 + 18)


@pytest.mark.parametrize("loss", ["squared error", "cross-entropy"])
def test_all_rows_of_two_features_on_two_background_rows_are_exact(loss):
    f, y = (pairs, Y) if loss == "squared error" else (chances, CLASS)

    def model(rows):
        return f(np.column_stack([rows, np.ones(len(rows))]))

    rows, background = X[:40, :2], BACKGROUND[:2, :2]
    found = cx.BayesSHAP(model, background).explain_loss(rows, y[:40], loss=loss, queries=2_000)
    exact = enumerated(loss, model, rows, y[:40], background).mean(axis=0)
    assert found.n_rows == 40
    np.testing.assert_allclose(found.mean, exact, atol=1e-10)
    np.testing.assert_allclose(found.interval().width, 0.0, atol=1e-6)
    assert "exact" in str(found) or found.interval().width.max() > 0


def test_the_sum_is_what_the_model_takes_off_the_loss():
    shap, call = cx.BayesSHAP(pairs, BACKGROUND), {"loss": "squared error"}
    found = shap.explain_loss(X[:30], Y[:30], queries=1_500, **call)
    assert found.n_rows == 30
    base, model = ((pairs(BACKGROUND).mean() - Y) ** 2), ((pairs(X) - Y) ** 2)
    gain = base - model
    np.testing.assert_allclose(found.mean.sum(), gain[:30].mean(), rtol=1e-9)
    np.testing.assert_allclose(found.total.value, gain[:30].mean(), rtol=1e-9)
    np.testing.assert_allclose(found.total.sd, 0.0, atol=1e-6)
    losses = base[:30].mean(), model[:30].mean()
    np.testing.assert_allclose([found.base_loss, found.model_loss], losses)
    some = shap.explain_loss(X, Y, queries=400, **call)
    assert some.n_rows < 120
    assert some.total.lower[0] < gain.mean() < some.total.upper[0]
    np.testing.assert_allclose(some.mean.sum(), some.total.value[0])


def test_every_row_of_the_budget_is_counted_and_a_seed_gives_the_same_numbers():
    model = Counting(pairs)
    shap = cx.BayesSHAP(model, BACKGROUND)
    one = shap.explain_loss(X, Y, loss="squared error", queries=500, seed=3)
    assert 400 < one.n_model_rows == model.rows <= 500
    assert one.stop_reason == "queries"
    two = shap.explain_loss(X, Y, loss="squared error", queries=500, seed=3, batch_rows=17)
    np.testing.assert_array_equal(one.mean, two.mean)
    other = shap.explain_loss(X, Y, loss="squared error", queries=500, seed=4)
    assert not np.array_equal(one.mean, other.mean)


def test_a_width_is_reached_or_the_ceiling_says_so():
    shap = cx.BayesSHAP(chances, BACKGROUND)
    found = shap.explain_loss(X, CLASS, loss="cross-entropy", width=0.1)
    assert found.converged
    assert found.stop_reason == "width"
    assert found.interval().width.max() <= 0.1
    short = shap.explain_loss(X, CLASS, loss="cross-entropy", width=0.001, max_queries=400)
    assert not short.converged
    assert short.n_model_rows <= 400


def test_labels_are_classes_of_the_model_or_columns_of_its_outputs():
    names = np.array(["no", "yes"])[CLASS]
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LogisticRegression().fit(frame, names)
    call = {"loss": "cross-entropy", "queries": 500}
    # the target of the explainer does not matter: cross-entropy reads all outputs
    shap = cx.BayesSHAP(model, frame[:20], target="yes")
    texts = shap.explain_loss(frame, pd.Series(names), **call)

    def outputs(rows):
        return model.predict_proba(rows)

    columns = cx.BayesSHAP(outputs, frame[:20])
    numbers = columns.explain_loss(frame, CLASS, **call)
    np.testing.assert_array_equal(texts.mean, numbers.mean)
    single = cx.BayesSHAP(lambda rows: model.predict_proba(rows)[:, 1], frame[:20])
    np.testing.assert_allclose(single.explain_loss(frame, CLASS, **call).mean, texts.mean)
    # Brier's score of one class
    brier = shap.explain_loss(frame, names, loss="squared error", queries=500)
    plain = single.explain_loss(frame, CLASS.astype(float), loss="squared error", queries=500)
    np.testing.assert_allclose(brier.mean, plain.mean)


def test_many_features_take_sampled_coalitions(monkeypatch):
    rng = np.random.default_rng(2)
    form = rng.normal(size=(30, 1, 6, 6))
    games = Games(rng.normal(size=(30, 1)), form + form.transpose(0, 1, 3, 2))
    loss = Loss("squared error", rng.normal(size=30), np.zeros(30, int))
    exact, none = shapley_of(games, loss, 1.0, lambda n: np.zeros((n, 6), bool))
    assert not none.any()
    monkeypatch.setattr(loss_estimate, "POPULATION_PAIRS", 300)  # 16 for each row, of 32
    chance = 1 / (np.arange(1, 6) * np.arange(5, 0, -1))

    def masks_of(n):
        sizes = rng.choice(np.arange(1, 6), n, p=chance / chance.sum())
        return rng.random((n, 6)).argsort(axis=1) < sizes[:, None]

    found = [shapley_of(games, loss, 1.0, masks_of) for _ in range(60)]
    u = np.array([f[0] for f in found])[..., 0]
    np.testing.assert_allclose(u.sum(axis=2), np.broadcast_to(exact.sum(axis=1)[:, 0], (60, 30)))
    z = (u - exact[..., 0]).mean(axis=0) / (u.std(axis=0) / np.sqrt(60))
    assert np.abs(z).max() < 4.6  # 180 numbers; the chance of one beyond is 0.001
    within = np.array([f[1] for f in found]).mean(axis=0)
    assert 0.8 < within.mean() / u.var(axis=0).mean() < 1.25


def test_more_than_ten_features():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(150, 14))
    y = rows @ np.linspace(2, 0, 14)
    shap = cx.BayesSHAP(lambda r: r @ np.linspace(2, 0, 14), rows[:30])
    found = shap.explain_loss(rows, y, loss="squared error", queries=1_500)
    assert found.order[0] == 0
    # exact: loss is that of a sum of parts
    parts = rows * np.linspace(2, 0, 14)
    gaps = parts - parts[:30].mean(axis=0)
    exact = (gaps * gaps.sum(axis=1, keepdims=True)).mean(axis=0)
    assert np.mean((found.lower <= exact) & (exact <= found.upper)) > 0.8


def test_what_is_rare_and_has_a_large_loss_is_sampled_apart():
    rare = np.r_[np.zeros(90, int), np.ones(10, int), np.full(3, 2), np.full(2, 3)]
    strata = Loss("cross-entropy", np.zeros(105), rare).strata(8)
    assert np.bincount(strata).tolist() == [90, 15]
    y = np.r_[np.zeros(95), np.full(5, 9.0), np.full(5, -9.0)]
    strata = Loss("squared error", y, np.zeros(105, int)).strata(8)
    assert np.flatnonzero(strata).tolist() == list(range(95, 105))
    same = Loss("squared error", np.ones(105), np.zeros(105, int)).strata(8)
    assert not same.any()


def test_what_has_no_meaning_for_a_loss_is_not_shown():
    found = cx.BayesSHAP(pairs, BACKGROUND).explain_loss(X, Y, loss="squared error", queries=400)
    for text in (str(found), found._repr_html_()):
        assert "|φ|" not in text
        assert "sure" not in text
        assert "all features" in text
        assert "Shares of the squared error" in text
    frame = found.to_frame()
    assert {"feature", "mean", "mean_lower", "mean_upper", "rank_low"} <= set(frame.columns)
    assert not [c for c in frame.columns if c.startswith(("signed", "positive", "negative"))]
    assert not frame.isna().any().any()
    with pytest.raises(cx.InputError, match="no largest feature by row"):
        _ = found.first


def test_bad_input_is_named_before_the_model_is_asked():
    model = Counting(pairs)
    shap = cx.BayesSHAP(model, BACKGROUND)
    holes = Y.copy()
    holes[[4, 7]] = np.nan
    entropy = {"loss": "cross-entropy", "y": CLASS}
    cases = [
        ({"y": Y[:-1]}, "y has 119 labels for 120 rows"),
        ({"y": np.ones((120, 2))}, r"y has shape \(120, 2\)"),
        ({"y": holes}, "2 labels of y are missing .the first is that of row 4"),
        ({"y": [None, *Y[1:].tolist()]}, "1 labels of y are missing"),
        ({"y": ["a"] * 120}, "label a; squared error takes numbers"),
        ({"y": np.full(120, np.inf)}, "infinite labels"),
        ({"loss": "mse"}, "loss='mse' is unknown; choose 'squared error' or 'cross-entropy'"),
        (entropy | {"y": ["a"] * 120}, "label 'a'; this model has no class labels"),
        (entropy | {"y": Y}, "this model has no class labels"),
        ({"link": "logit"}, "takes no link="),
        ({"noisy": True}, "takes no noisy="),
        ({"features": 2}, "takes no features=2; leave it out"),
        ({"selection": "lasso"}, "takes no selection='lasso'"),
        ({"robust": False}, "takes no robust=False.* pass robust=True"),
        ({"posterior": "gp"}, "takes no posterior='gp'.* pass posterior='auto'"),
        ({"kernel": cx.Exponential(0.5)}, "takes no kernel="),
        ({"query_seconds": 1.0}, "takes no query_seconds=1.0"),
        (entropy | {"target": 0}, "takes no target=0: cross-entropy reads all"),
        ({"X": X[:0], "y": Y[:0]}, "no rows"),
        ({"X": X[:5], "y": Y[:5]}, "10 rows or more; got 5"),
        ({"max_rows": 0}, "max_rows must be"),
        ({"queries": 20}, "queries=20 is too few"),
    ]
    for case, message in cases:
        call = {"X": X, "y": Y, "loss": "squared error", "queries": 300} | case
        with pytest.raises(cx.InputError, match=message):
            shap.explain_loss(call.pop("X"), call.pop("y"), **call)
    classifier = Counting(LogisticRegression().fit(X, CLASS).predict_proba)
    known = cx.BayesSHAP(LogisticRegression().fit(X, CLASS), BACKGROUND)
    with pytest.raises(
        cx.InputError, match="label 2, which is no class of the model: those are 0, 1"
    ):
        known.explain_loss(X, CLASS + 1, loss="cross-entropy")
    with pytest.raises(
        cx.InputError, match="squared error takes one output; the model has 2 classes"
    ):
        known.explain_loss(X, CLASS, loss="squared error")
    with pytest.raises(cx.InputError, match="explain_loss is for BayesSHAP on tables"):
        cx.BayesLIME(model, BACKGROUND).explain_loss(X, Y, loss="squared error")
    assert model.rows == classifier.rows == 0


def test_outputs_that_do_not_fit_the_loss_are_named():
    three = np.full((1, 3), 1 / 3)
    cases = [
        (pairs, CLASS, "cross-entropy", "takes probabilities; the model returned"),
        (lambda r: np.repeat(2 * three, len(r), axis=0), CLASS, "cross-entropy", "sum to 2, not 1"),
        (lambda r: np.repeat(three, len(r), axis=0), 3 * CLASS, "cross-entropy", "the label 3"),
        (chances, 2 * CLASS, "cross-entropy", "the label 2, but the model has 1 output"),
        (lambda r: np.repeat(three, len(r), axis=0), Y, "squared error", "the model has 3"),
    ]
    for model, y, loss, message in cases:
        with pytest.raises(cx.InputError, match=message):
            cx.BayesSHAP(model, BACKGROUND).explain_loss(X, y, loss=loss, queries=300)


def test_models_that_are_sure_have_wide_intervals():
    """A feature that the model never reads: few background rows cannot estimate log 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    f = X @ [2.0, 1.0, 0.0]
    y = (rng.random(120) < 1 / (1 + np.exp(-f))).astype(int)
    shap = cx.BayesSHAP(lambda r: (np.asarray(r) @ [2.0, 1.0, 0.0] > 0).astype(float), X[:40])
    held = []
    for seed in range(6):
        e = shap.explain_loss(X, y, loss="cross-entropy", queries=900, seed=seed)
        held.append(e.lower[2] <= 0 <= e.upper[2])
    assert np.mean(held) >= 0.8  # 0 without the doubt
    assert "Probabilities near 0 make this cross-entropy hard" in str(e)
    usual = cx.BayesSHAP(chances, X[:40]).explain_loss(X, y, loss="cross-entropy", queries=900)
    assert "Probabilities near 0" not in str(usual)


def test_answers_that_are_all_alike_settle_nothing():
    X = np.random.default_rng(0).normal(size=(400, 3))
    rare = lambda r: 10.0 * (np.asarray(r)[:, 0] > 2.4)  # noqa: E731 - 3 of 400 rows
    shap = cx.BayesSHAP(rare, X[rare(X) == 0][:100])
    found = shap.explain_global(X, max_queries=3_000)
    assert found.upper[0] > 0


def test_the_scale_of_one_output_is_not_that_of_another():
    X = np.random.default_rng(0).normal(size=(120, 3))
    f = lambda r: np.sin(2 * r[:, 0]) * r[:, 1] + np.sign(r[:, 2])  # noqa: E731
    widths = []
    for scale in (1.0, 1e6):
        shap = cx.BayesSHAP(lambda r, s=scale: np.c_[f(r), s * f(r)], X[:40])
        first = shap.explain_global(X, queries=800).parts[0]
        widths.append(first.size.upper - first.size.lower)
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-6)


def test_a_ranking_is_that_of_the_shares_with_their_signs():
    """The largest |φ| is that of x1, and negative; x0 and x2 are equal, so no order is settled."""
    X = np.random.default_rng(0).normal(size=(120, 3))
    X[:, 2] = X[:, 0]
    shap = cx.BayesSHAP(lambda r: np.asarray(r) @ [1.0, -3.0, 1.0], X[:40])
    stop = cx.RankingSettled(1, 0.95)
    y = X[:, 0] + X[:, 2]
    e = shap.explain_loss(X, y, loss="squared error", stop=stop, max_queries=600)
    assert not e.converged


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.masked_array(np.arange(120.0), mask=np.arange(120) == 3), "1 labels of y are missi"),
        (np.full(120, 1j), "complex numbers"),
        (np.full(120, np.datetime64("2020-01-01")), "dates"),
        ([10**400] * 120, "too large"),
    ],
)
def test_labels_that_are_no_numbers(y, message):
    X = np.random.default_rng(0).normal(size=(120, 3))
    with pytest.raises(cx.InputError, match=message):
        cx.BayesSHAP(lambda r: r[:, 0], X[:20]).explain_loss(X, y, loss="squared error")


def test_the_total_of_a_model_that_is_always_right():
    """Its loss is 0 in every row asked, and never negative; the interval of the total holds.

    It held 0.52 of the time, and a third of the losses were negative.
    """
    rows = np.random.default_rng(0).normal(size=(300, 3))
    y, shap = rows @ [3.0, 1.0, 0.0], cx.BayesSHAP(lambda r: r @ [3.0, 1.0, 0.0], rows[:100])
    exact = ((y - y[:100].mean()) ** 2).mean()
    held = []
    for seed in range(12):
        found = shap.explain_loss(rows, y, loss="squared error", queries=400, seed=seed)
        assert 0.0 <= found.model_loss < 1e-9
        np.testing.assert_allclose(found.mean.sum(), found.total.value[0])
        held.append(found.total.lower[0] <= exact <= found.total.upper[0])
    assert np.mean(held) > 0.8
    assert "All 40 rows asked have the same loss" in str(found)


def test_the_loss_of_a_model_is_never_negative():
    """A surrogate that errs in few rows: the difference to its loss may be below zero."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 3))

    def rough(r):
        return np.where(np.asarray(r)[:, 0] > 1.5, 8.0, 0.0) + np.asarray(r)[:, 1]

    y = rough(rows) + 0.05 * rng.normal(size=200)
    shap = cx.BayesSHAP(rough, rows[:50])
    found = [
        shap.explain_loss(rows, y, loss="squared error", queries=300, seed=seed)
        for seed in range(10)
    ]
    assert all(f.model_loss >= 0 for f in found)


def test_many_classes_take_little_memory_and_few_rows():
    """It took 4 GB for 1,000 classes, and 3 rows of every class."""
    rng = np.random.default_rng(0)
    rows, W = rng.normal(size=(900, 4)), rng.normal(size=(4, 300))

    def softmax(r):
        z = np.exp(np.asarray(r) @ W)
        return z / z.sum(axis=1, keepdims=True)

    y = np.repeat(np.arange(100), 9)
    shap = cx.BayesSHAP(softmax, rows[:30])
    tracemalloc.start()
    found = shap.explain_loss(rows, y, loss="cross-entropy", queries=1_500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n_model_rows <= 1_500
    assert peak < 2e8
    chosen = softmax(rows)[np.arange(900), y]
    np.testing.assert_allclose(found.model_loss, -np.log(chosen).mean(), rtol=0.2)
    assert np.bincount(Loss("cross-entropy", np.zeros(900), y).strata(8)).tolist() == [9] * 20 + [
        720
    ]


def test_what_is_said_of_a_share_is_not_said_of_a_mean_of_sizes():
    for name in dir(cx.LossShares):
        text = inspect.getdoc(getattr(cx.LossShares, name)) if name[0] != "_" else ""
        assert "|φ|" not in (text or ""), name


def test_a_forecast_says_about_what_it_takes():
    model = Counting(pairs)
    shap, call = cx.BayesSHAP(model, BACKGROUND), {"loss": "squared error", "width": 0.25}
    forecast = shap.forecast_loss(X, Y, row_cost=2.0, **call)
    assert forecast.n_queries == model.rows <= 800
    assert forecast.cost == 2.0 * forecast.model_rows
    need = shap.explain_loss(X, Y, **call).n_model_rows
    assert 0.4 < forecast.total / need < 2.5
    assert forecast.low <= forecast.queries <= forecast.high
    assert shap.forecast_loss(X, Y, loss="squared error", width=50.0).queries == 0


def test_a_width_below_what_the_parabola_leaves_open_is_out_of_reach():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    sure = cx.BayesSHAP(lambda r: (np.asarray(r)[:, 0] > 0).astype(float), rows[:40])
    y = (rows[:, 1] > 0).astype(int)
    forecast = sure.forecast_loss(rows, y, loss="cross-entropy", width=0.001)
    assert str(forecast) == "width 0.001 cannot be reached"


def test_the_total_allows_for_a_row_like_the_most_extreme_one(monkeypatch):
    """Its variance, written out by strata: a mean over n rows, one of them counted once more."""
    seen = []
    fit = loss_run.loss_means

    def noted(f, *args, **options):
        seen.append(f)
        return fit(f, *args, **options)

    monkeypatch.setattr(loss_run, "loss_means", noted)
    y = pairs(X) + np.where(np.arange(len(X)) % 10, 0.1, 3.0)  # a tenth of the rows has the loss
    found = cx.BayesSHAP(pairs, BACKGROUND).explain_loss(X, y, loss="squared error", queries=600)
    f = seen[-1]
    variance = f.base_variance
    for share, _, at in f.strata():
        n, size = at.sum(), share * len(X)
        left = f.r[at, 0] - f.r[at, 0].mean()
        sampled = left @ left / (n - 1) / n + (left**2).max() / n**2
        variance += share**2 * (1 - n / size) * sampled
    assert len(f.r) < len(f.u) == len(X)
    np.testing.assert_allclose(found.total.sd[0] ** 2, variance, rtol=1e-9)
