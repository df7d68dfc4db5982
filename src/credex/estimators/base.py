"""What a run needs from a recipe, and what it hands back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from credex.designs.samplers import Candidates, Predictive, Sampler
from credex.domains import Neighbourhood
from credex.errors import InputError, ModelOutputError
from credex.history import History
from credex.model_queue import Answer, Ask, Make
from credex.posteriors import Belief, ErrorPosterior, Prior
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Floats, Ints, Masks, Native, Outputs

T = TypeVar("T")
Talk = Generator[list[Ask], list[Answer], T]
"""A conversation with the desk: yields asks, is sent answers, returns ``T``."""

LOGIT_EDGE = 1e-6
"""Probabilities are clipped this far from 0 and 1 before ``link="logit"``."""

ONE = np.ones(1)
"""Weights of a value that is one row."""
ONE.flags.writeable = False

ANCHOR_REPEATS = 4
"""How often a noisy model is asked for f(x) and for the base value, at least."""

ANCHOR_SHARE = 40
"""… and once more for every so many other queries."""


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """What a recipe was told to do; the same for all rows of a batch."""

    sampler: Sampler
    sampler_name: str
    posterior: str
    prior: Prior
    seed: int
    level: float
    link: str
    noisy: bool
    recipe: str
    robust: bool
    features: int | None
    selection: str
    background_uncertainty: bool
    kernel: Any = None
    query_seconds: float | None = None
    """What a query costs, where a look may still change the posterior by it."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A fit, spread over all d features: what an explanation is made of."""

    belief: Belief
    error: ErrorPosterior
    r2: Floats
    exact: bool
    posterior: str
    intercept: Floats
    local_prediction: Floats
    selected: Masks
    notes: tuple[str, ...] = ()
    unseen: Masks | None = None
    """``(d,)``: features that cannot be measured, as nothing asked speaks of them."""

    @property
    def measured(self) -> Estimate:
        """The same for rules: what cannot be measured should not keep a run from ending."""
        if self.unseen is None or not self.unseen.any():
            return self
        b, seen = self.belief, ~self.unseen[:, None]
        both = (seen & seen.T)[:, :, None]
        belief = Belief.of(b.mean, b.deviation * seen, b.dof, lambda: b.scale * both)
        return replace(self, belief=belief)


KEPT = 16
"""Sequences and factorisations that a context keeps."""


class Context:
    """Things that rows of a batch share: sequences of masks, factorisations. Thread-safe."""

    def __init__(self) -> None:
        self._store: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is stored under ``key``, made if it is not there."""
        with self._lock:
            if key not in self._store:
                if len(self._store) >= KEPT:
                    self._store.pop(next(iter(self._store)))
                self._store[key] = make()
            found: T = self._store[key]
            return found

    @property
    def lock(self) -> threading.RLock:
        """For sequences, which grow."""
        return self._lock


class Recipe(Protocol):
    """One instance on its way to an explanation. Changes as it goes; used by one run only."""

    asked: History
    settings: Settings
    neighbourhood: Neighbourhood
    limit: float
    """Most queries of the run; the loop sets it."""
    looks: bool
    """Whether the run may stop at any of several looks; the loop sets it."""
    why: tuple[str, ...]
    """Why this posterior was chosen, if it was."""
    unsure: bool
    """Whether what was asked before may be another model's."""

    @property
    def d(self) -> int:
        """Features that take part."""
        ...

    @property
    def minimum(self) -> int:
        """Fewest queries a fit can be made from."""
        ...

    @property
    def rows_per_query(self) -> int:
        """Model rows that one query costs."""
        ...

    @property
    def opening(self) -> int | None:
        """Queries that `open` costs; ``None`` if others cannot be asked along with them."""
        ...

    @property
    def enumerable(self) -> bool:
        """Whether its perturbations can be listed: masks can, perturbed rows of a table cannot."""
        ...

    @property
    def unasked(self) -> float:
        """Perturbations that were not asked yet; infinite if they never end."""
        ...

    @property
    def everything(self) -> float:
        """Queries after which nothing is left to ask."""
        ...

    def open(self, ceiling: int) -> Talk[None]:
        """Ask for the fixed points."""
        ...

    def room(self, ceiling: int, coming: int = 0) -> int:
        """How many more perturbations fit under ``ceiling`` queries, ``coming`` others apart."""
        ...

    def choose(self, n: int, fit: Predictive | None, rng: np.random.Generator) -> Candidates:
        """Let the sampler choose at most ``n``."""
        ...

    def ask(self, candidates: Candidates, *, most_rows: Callable[[], int]) -> Talk[None]:
        """Ask for them, in calls of at most ``most_rows()`` rows, and absorb the answers."""
        ...

    def fit(self) -> Estimate | None:
        """Fit what was asked; ``None`` if that is too little."""
        ...

    def predictive(self) -> Predictive | None:
        """The posterior an adaptive sampler reads."""
        ...

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """How many more queries to these widths."""
        ...

    def reconsider(self, limits: Width | RelativeWidth, forecast: Forecast) -> bool:
        """Change to another posterior if the forecast says so, and say whether that was done."""
        ...


@lru_cache(maxsize=64)
def all_of(d: int, k: int) -> Masks:
    """``(d, k)``: all features of all outputs are selected."""
    out = np.ones((d, k), dtype=np.bool_)
    out.flags.writeable = False
    return out


def powers_of_two(d: int) -> float:
    """2^d, or infinity where a float does not hold it."""
    return float(2**d) if d <= 1000 else np.inf


def linked(y: Floats, link: str) -> Floats:
    """Apply the link: identity, or the log-odds of probabilities."""
    if link == "identity":
        return y
    outside = (y < -1e-9) | (y > 1 + 1e-9)  # averages of exact ones may miss by rounding
    if np.any(outside):
        bad = float(y[outside][0])
        msg = f"link='logit' needs probabilities, but the model returned {bad:g}; "
        msg += "leave link out to explain the output as it is"
        raise InputError(msg)
    p = np.clip(y, LOGIT_EDGE, 1 - LOGIT_EDGE)
    return np.asarray(np.log(p) - np.log1p(-p))


def unlinked(y: Floats, link: str) -> Floats:
    """Return what `linked` was given: where answers are compared, log-odds blow rounding up."""
    return y if link == "identity" else np.asarray(0.5 * (1 + np.tanh(0.5 * y)))


def selection_note(keep: int | None, d: int, *, shares: bool = False) -> tuple[str, ...]:
    """What to say of an explanation that kept some features only."""
    if keep is None or keep >= d:
        return ()
    note = f"{keep} of {d} features, chosen on the same queries: intervals are widened for that"
    all_of_it = "these share all of f(x) − base: not the Shapley values among all features"
    return (note, all_of_it) if shares else (note,)


def same_outputs(y: Outputs, full: Floats | None) -> Outputs:
    """Return ``y`` if it has as many outputs as f(x) had."""
    if full is not None and y.shape[1] != len(full):
        msg = f"the model returned {y.shape[1]} outputs where it returned {len(full)} before"
        raise ModelOutputError(msg)
    return y


def never_certain(belief: Belief, full: Floats) -> Belief:
    """Widths of a noisy model's importances that came out as zero are set to a hair's breadth."""
    hair = (1e-9 * np.maximum(1.0, np.abs(full))) ** 2
    scale = belief.scale.copy()
    at = np.arange(len(scale))
    scale[at, at] = np.maximum(scale[at, at], hair)
    return Belief(belief.mean, scale, belief.dof)


def spread_over(belief: Belief, active: Masks) -> Belief:
    """Put the belief about the active features among the d features; the others are known zeros."""
    if bool(np.all(active)):
        return belief
    d, k = len(active), belief.mean.shape[1]
    at = np.flatnonzero(active)
    mean, deviation = np.zeros((d, k)), np.zeros((d, k))
    mean[at], deviation[at] = belief.mean, belief.deviation

    def make() -> Floats:
        scale = np.zeros((d, d, k))
        scale[np.ix_(at, at)] = belief.scale
        return scale

    return Belief.of(mean, deviation, belief.dof, make)


def instance(nb: Neighbourhood) -> Ask:
    """Ask for f(x)."""
    return Ask(
        lambda _a, _b: (nb.instance_inputs(), None),
        1,
        ONE,
        row_bytes=nb.row_bytes,
        form=nb.form,
        of=nb,
        instance=True,
    )


def coalitions(nb: Neighbourhood, masks: Masks, *, merge: bool = True) -> Make:
    """How to make the model rows of ``masks (n, d)``."""
    return lambda a, b: nb.coalition_inputs(masks[a:b], merge=merge)


def and_full(nb: Neighbourhood, masks: Masks) -> Callable[[int], tuple[Native, Ints | None]]:
    """How to make the model rows of ``masks (n, d)`` and behind them x, the full mask's."""

    def make(times: int) -> tuple[Native, Ints | None]:
        more = np.ones((len(masks) + times, masks.shape[1]), dtype=np.bool_)
        more[: len(masks)] = masks
        return nb.coalition_inputs(more, merge=False)

    return make


def spans(n: int, most: Callable[[], int], unit: int) -> Iterator[tuple[int, int]]:
    """Cut n perturbations into pieces of at most ``most()``, whole units if that is possible."""
    start = 0
    while start < n:
        step = max(most(), 1)
        step -= step % unit if step > unit else 0
        yield start, min(start + step, n)
        start += step
