"""When a run ends, why, and what it says about it."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credex as cx
from tests.games import smooth_game, table_game
from tests.strategies import Bumpy, Counting, numbers

CLASSES = [cx.BayesSHAP, cx.BayesLIME]


@settings(max_examples=25, deadline=None)
@given(
    width=st.floats(0.02, 3.0),
    level=st.floats(0.5, 0.99),
    ceiling=st.integers(80, 600),
    seed=st.integers(0, 1000),
    cls=st.sampled_from(CLASSES),
)
def test_a_width_is_honoured_or_not_claimed(width, level, ceiling, seed, cls):
    model = Counting(Bumpy(12, seed))
    e = cls(model, cx.Masks(12)).explain(width=width, level=level, max_queries=ceiling, seed=seed)
    assert model.rows == e.n_queries <= ceiling
    widest = e.interval().width.max()
    assert e.converged == (widest <= width)
    assert e.stop_reason == ("width" if e.converged else "max_queries")
    assert e.interval().level == level


@pytest.mark.parametrize("cls", CLASSES)
def test_a_narrower_width_costs_more(cls):
    spent = [
        cls(Bumpy(14, 0), cx.Masks(14)).explain(width=w, max_queries=8000).n_queries
        for w in (0.8, 0.4, 0.2)
    ]
    assert spent[0] < spent[1] < spent[2]


@pytest.mark.parametrize("width", [np.float32(0.5), np.float64(0.5), np.array(0.5), 1, [0.5]])
def test_a_width_may_be_any_number(width):
    e = cx.BayesSHAP(Bumpy(12, 0), cx.Masks(12)).explain(width=width)
    assert e.converged
    assert e.interval().width.max() <= np.max(width)


def test_one_width_for_each_output():
    explainer = cx.BayesSHAP(Bumpy(12, 0, k=2), cx.Masks(12))
    e = explainer.explain(width=[0.2, 2.0])
    assert e.converged
    assert np.all(e.interval().width <= [0.2, 2.0])
    one = explainer.explain(width=0.2)
    assert np.all(one.interval().width <= 0.2)
    other = explainer.explain(width=(2.0, 0.2))
    assert np.all(other.interval().width <= [2.0, 0.2])
    with pytest.raises(cx.InputError, match=r"3 numbers.*2 outputs"):
        explainer.explain(width=[0.1, 0.1, 0.1])


def test_a_width_no_budget_can_reach():
    e = cx.BayesSHAP(Bumpy(20, 0), cx.Masks(20)).explain(width=1e-9, max_queries=300)
    assert not e.converged
    assert e.stop_reason == "max_queries"
    assert 299 <= e.n_queries <= 300
    assert "stopped: max_queries reached" in str(e)


def test_queries_are_not_a_precision():
    e = cx.BayesSHAP(Bumpy(12, 0), cx.Masks(12)).explain(queries=100)
    assert not e.converged
    assert e.stop_reason == "queries"


def test_an_exact_answer_has_converged():
    e = cx.BayesSHAP(Bumpy(5, 0), cx.Masks(5)).explain(queries=100)
    assert e.converged
    assert e.exact
    assert e.n_queries <= 33


def test_the_default_is_a_fifth_of_the_largest_importance():
    for cls in CLASSES:
        e = cls(Bumpy(13, 0), cx.Masks(13)).explain()
        if e.converged:
            assert e.interval().width.max() <= 0.2 * np.abs(e.mean).max()
            assert e.stop_reason == "relative width"
        else:
            assert e.n_queries >= (1999 if cls is cx.BayesSHAP else 4999)
        assert "20 %" in cls.explain.__doc__


def test_the_default_ceiling():
    model = Counting(Bumpy(20, 0))

    def hard(z):  # hardly any main effect: a relative width is out of reach
        return np.cos(7 * model(z) ** 2) * np.sin(31 * model.inner(z))

    e = cx.BayesSHAP(hard, cx.Masks(20)).explain()
    assert not e.converged
    assert e.n_queries <= 2000


@pytest.mark.parametrize("cls", CLASSES)
def test_a_settled_ranking(cls):
    weights = np.array([8.0, 4.0, 2.0] + [0.1] * 9)

    def v(z):
        return z @ weights + 0.3 * np.sin(5 * (z @ np.arange(12.0)))

    e = cls(v, cx.Masks(12)).explain(stop=cx.RankingSettled(3, 0.95), max_queries=1500)
    assert e.converged
    assert e.stop_reason == "ranking settled"
    assert set(e.top(3)) == {"part 0", "part 1", "part 2"}
    ordered = cls(v, cx.Masks(12)).explain(
        stop=cx.RankingSettled(3, 0.95, ordered=True), max_queries=1500
    )
    assert ordered.top(3) == ["part 0", "part 1", "part 2"]
    assert ordered.n_queries >= e.n_queries


def test_a_ranking_that_never_settles():
    e = cx.BayesSHAP(lambda z: np.sin(9 * z.sum(axis=1)), cx.Masks(15)).explain(
        stop=cx.RankingSettled(3, 0.99), max_queries=200
    )
    assert not e.converged
    assert e.n_queries <= 200
    assert e.stop_reason == "max_queries"


def test_settled_means_as_probable_as_requested():
    e = cx.BayesSHAP(Bumpy(14, 3), cx.Masks(14)).explain(
        stop=cx.RankingSettled(2, 0.9), max_queries=4000
    )
    assert e.converged
    draws = np.abs(e.sample(4000, seed=5))
    top = np.sort(np.argsort(-draws, axis=1)[:, :2], axis=1)
    best = np.sort(np.argsort(-np.abs(e.mean))[:2])
    # 0.9 less 5 standard errors of two Monte Carlo estimates of 4,000 draws
    assert np.mean(np.all(top == best, axis=1)) > 0.9 - 5 * 0.0067


def test_wall_clock():
    def slow(z):
        time.sleep(0.002)
        return Bumpy(20, 0)(z)

    start = time.perf_counter()
    e = cx.BayesSHAP(slow, cx.Masks(20)).explain(
        stop=cx.WallClock(0.15), max_queries=1_000_000, width=1e-12
    )
    assert e.stop_reason == "wall clock"
    assert not e.converged
    assert 0.15 <= time.perf_counter() - start < 20


def test_the_first_rule_that_fires_ends_the_run():
    explainer = cx.BayesSHAP(Bumpy(14, 0), cx.Masks(14))
    wide, narrow = cx.Width(5.0), cx.Width(1e-9)
    e = explainer.explain(stop=narrow | wide, max_queries=500)
    assert e.converged
    assert e.stop_reason == "width"
    both = explainer.explain(stop=narrow | cx.Queries(150) | cx.WallClock(1e6), max_queries=800)
    assert both.stop_reason == "queries"
    assert not both.converged
    # rules are looked at between batches, so a little more than asked for may be spent
    assert 150 <= both.n_queries <= 250
    clock = explainer.explain(stop=cx.RankingSettled(1, 0.999999) | cx.WallClock(1e-9))
    assert clock.stop_reason in {"wall clock", "ranking settled"}


def test_width_and_rule_together():
    explainer = cx.BayesSHAP(Bumpy(14, 0), cx.Masks(14))
    e = explainer.explain(width=1e-9, stop=cx.Queries(100), max_queries=900)
    assert e.stop_reason == "queries"
    assert not e.converged


class Patience:
    """A user's own rule: stop at the third look."""

    precise = False

    def __init__(self):
        self.looks = []

    def check(self, look):
        self.looks.append((look.n_queries, look.level, look.belief))
        return "patience" if len(self.looks) == 3 else None


def test_a_rule_of_ones_own():
    rule = Patience()
    e = cx.BayesSHAP(Bumpy(14, 0), cx.Masks(14)).explain(stop=rule)
    assert e.stop_reason == "patience"
    assert not e.converged
    assert len(rule.looks) == 3
    assert rule.looks[-1][0] == e.n_queries
    assert rule.looks[-1][1] == 0.95
    assert rule.looks[-1][2].mean.shape == (14, 1)
    assert "patience" in str(e)


def test_a_rule_of_ones_own_joins_others():
    rule = Patience()
    e = cx.BayesSHAP(Bumpy(14, 0), cx.Masks(14)).explain(stop=cx.Width(1e-9) | rule)
    assert e.stop_reason == "patience"


def test_a_precise_rule_of_ones_own_has_converged():
    class Enough:
        precise = True

        def check(self, look):
            return "enough" if look.n_queries >= 100 else None

    e = cx.BayesSHAP(Bumpy(14, 0), cx.Masks(14)).explain(stop=Enough())
    assert e.converged
    assert e.stop_reason == "enough"


@pytest.mark.parametrize(
    "stop", [0.1, "width", lambda look: None, cx.Width, object()], ids=range(5)
)
def test_what_is_no_rule(stop):
    model = Counting(Bumpy(9, 0))
    with pytest.raises(cx.InputError, match=r"stop.*RankingSettled"):
        cx.BayesSHAP(model, cx.Masks(9)).explain(stop=stop)
    assert model.calls == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: cx.RankingSettled(0),
        lambda: cx.RankingSettled(2.5),
        lambda: cx.RankingSettled(3, 1.0),
        lambda: cx.RankingSettled(3, 95),
        lambda: cx.RankingSettled(3, "0.9"),
        lambda: cx.WallClock(0),
        lambda: cx.WallClock(np.nan),
        lambda: cx.WallClock("1s"),
        lambda: cx.Queries(0),
        lambda: cx.Queries(1.5),
        lambda: cx.Width(0),
        lambda: cx.Width("narrow"),
        lambda: cx.RelativeWidth(0),
        lambda: cx.RelativeWidth("a"),
        lambda: cx.Width(0.1) | 3,
        lambda: cx.PaperFocused(seed_queries=0),
        lambda: cx.PaperFocused(batch=50, pool=10),
        lambda: cx.PaperFocused(temperature=0),
        lambda: cx.PaperFocused(temperature=np.nan),
    ],
    ids=range(19),
)
def test_rules_and_samplers_that_make_no_sense(make):
    with pytest.raises(cx.InputError):
        make()


# -- samplers of one's own ---------------------------------------------------------------------


class Watching:
    """Takes what comes and remembers what it saw."""

    paired = False

    def __init__(self):
        self.posteriors = []

    def select(self, stream, n, posterior, rng):
        self.posteriors.append(posterior)
        pool = stream.take(3 * n)
        order = rng.permutation(len(pool))
        return pool.pick(order[:n])


@pytest.mark.parametrize("cls", CLASSES)
def test_a_sampler_of_ones_own(cls):
    sampler = Watching()
    model = Counting(Bumpy(12, 0), keep=True)
    e = cls(model, cx.Masks(12)).explain(width=0.5, max_queries=600, sampler=sampler)
    assert e.sampler == "Watching"
    assert model.rows == e.n_queries <= 600
    assert len(set(model.seen)) == len(model.seen) - 1
    if e.converged:
        assert e.interval().width.max() <= 0.5
    assert any(p is not None for p in sampler.posteriors)
    p = next(p for p in sampler.posteriors if p is not None)
    assert np.all(np.asarray(p.predictive_variance(np.eye(12, dtype=bool))) > 0)


def test_a_sampler_of_ones_own_on_a_table():
    X = numbers(200, 8)
    model = Counting(Bumpy(8, 0))
    e = cx.BayesLIME(model, X, sampler=Watching()).explain(X[0], queries=300)
    assert e.n_queries == 300
    assert model.rows == e.n_model_rows


class Greedy:
    """Returns more than it was asked for."""

    paired = False

    def select(self, stream, n, posterior, rng):
        return stream.take(n + 50)


@pytest.mark.parametrize("cls", CLASSES)
def test_queries_are_never_exceeded_whatever_the_sampler_does(cls):
    model = Counting(Bumpy(12, 0))
    try:
        cls(model, cx.Masks(12)).explain(queries=100, sampler=Greedy())
    except cx.InputError as error:
        assert "sampler" in str(error)  # noqa: PT017 - either answer is fine
    assert model.rows <= 100


class Bare:
    """Returns an array of masks instead of candidates."""

    paired = False

    def select(self, stream, n, posterior, rng):
        return stream.take(n).design


class Half:
    """Says that it is paired and returns single masks."""

    paired = True

    def select(self, stream, n, posterior, rng):
        pool = stream.take(n)
        return pool.pick(np.arange(0, len(pool), 2))


@pytest.mark.parametrize("sampler", [Bare(), Half()], ids=["bare", "half"])
def test_a_sampler_that_breaks_its_promise(sampler):
    with pytest.raises(cx.InputError, match=r"sampler|select|pair"):
        cx.BayesSHAP(Bumpy(12, 0), cx.Masks(12)).explain(queries=100, sampler=sampler)


@pytest.mark.parametrize("cls", CLASSES)
def test_paper_focused(cls):
    sampler = cx.PaperFocused(seed_queries=40, batch=10, pool=50, temperature=1e-300)
    model = Counting(table_game(smooth_game(10, 0)), keep=True)
    e = cls(model, cx.Masks(10)).explain(queries=200, sampler=sampler)
    assert model.rows == e.n_queries == 200
    assert len(set(model.seen)) == 199
    assert np.all(np.isfinite(e.mean))
    assert e.sampler == "paper-focused"
