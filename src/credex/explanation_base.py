"""The data of an explanation, and the numbers read from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.errors import InputError, check_count, check_level
from credex.estimators.base import Estimate
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior, Interval
from credex.posteriors.student import quantile, root
from credex.typing import Floats, Ints, Masks

N_RANK_DRAWS = 1_000
"""Draws from a posterior: the tails of a 95 % range are right to 0.005 (one standard error)."""


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """The instance that was explained; `ExplanationBase` documents its fields."""

    names: tuple[str, ...]
    feature_values: tuple[Any, ...]
    labels: tuple[str, ...]
    units: tuple[str, ...]
    label: Any = None
    payload: Any = None
    data_digest: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExplanationBase:
    """The stored fields of an `Explanation`, and the numbers read from them."""

    method: str
    instance: Instance
    outputs: tuple[str, ...]
    estimate: Estimate = field(repr=False)
    history: History = field(repr=False)
    level: float
    seconds: float
    stop_reason: str
    converged: bool
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()

    # -- the instance --------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d features."""
        return self.instance.names

    @property
    def feature_values(self) -> tuple[Any, ...]:
        """The instance's value of each feature."""
        return self.instance.feature_values

    @property
    def labels(self) -> tuple[str, ...]:
        """A readable condition for each feature, such as ``29 < age ≤ 41``."""
        return self.instance.labels

    @property
    def units(self) -> tuple[str, ...]:
        """What one unit of each importance means."""
        return self.instance.units

    @property
    def label(self) -> Any:
        """Label of the instance's row in the frame it came from, or ``None``."""
        return self.instance.label

    @property
    def payload(self) -> Any:
        """JSON-safe form that the domain restores the instance from."""
        return self.instance.payload

    @property
    def data_digest(self) -> str | None:
        """Hash of the training data, if they are a table: the same for the same values."""
        return self.instance.data_digest

    # -- how it was made -----------------------------------------------------------------------

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.history.n_queries

    @property
    def n_model_rows(self) -> int:
        """Number of rows sent to the model."""
        return self.history.n_model_rows

    @property
    def model_seconds(self) -> float:
        """The model's share of ``seconds``."""
        return self.history.model_seconds

    @property
    def exact(self) -> bool:
        """Whether the importances are exact: every coalition was evaluated."""
        return self.estimate.exact

    @property
    def posterior(self) -> str:
        """Kind of posterior: ``"linear"``, ``"gp"`` or ``"exact"``."""
        return self.estimate.posterior

    @property
    def sampler(self) -> str:
        """Name of the sampler."""
        return str(self.settings["sampler"])

    @property
    def recipe(self) -> str:
        """``"credex"``, ``"paper"`` or ``"published"``, with its settings if they were given."""
        return str(self.settings["recipe"])

    # -- numbers -------------------------------------------------------------------------------

    @property
    def belief(self) -> Belief:
        """Posterior of the importances; its arrays always have an axis for the outputs."""
        return self.estimate.belief

    @property
    def mean(self) -> Floats:
        """Importances φ: posterior means, ``(d,)`` or ``(d, k)``."""
        return self._squeezed(self.belief.mean)

    @property
    def values(self) -> Floats:
        """The same as ``mean``, by the name it has in shap."""
        return self.mean

    @property
    def sd(self) -> Floats:
        """Posterior standard deviations, like ``mean``; infinite if ``dof`` ≤ 2."""
        variance = np.einsum("ii...->i...", self.covariance)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    @property
    def covariance(self) -> Floats:
        """Posterior covariance, ``(d, d)`` or ``(d, d, k)``; infinite if ``dof`` ≤ 2.

        That is the scale of the Student-t times dof / (dof − 2).
        """
        scale = self.belief.scale
        factor = 1 / (1 - 2 / self.dof) if self.dof > 2 else np.inf
        with np.errstate(invalid="ignore"):
            return self._squeezed(np.where(scale == 0, 0.0, scale * factor))

    @property
    def dof(self) -> float:
        """Degrees of freedom of the posterior, a Student-t."""
        return self.belief.dof

    @property
    def selected(self) -> Masks:
        """``(d, k)``: features in the explanation; all, unless ``features=`` selects some."""
        return self.estimate.selected

    def interval(self, level: float | None = None, *, simultaneous: bool = False) -> Interval:
        """Return credible intervals; ``simultaneous``: they hold for all features at once."""
        i = self.belief.interval(self.level if level is None else level, simultaneous=simultaneous)
        return Interval(self._squeezed(i.lower), self._squeezed(i.upper), i.level)

    @property
    def base_value(self) -> Floats | float:
        """BayesSHAP: the mean prediction over the background. BayesLIME: the intercept."""
        base = self.history.base
        return self._number(self.estimate.intercept if base is None else base)

    @property
    def base_interval(self) -> Interval:
        """Interval of the base value at the explanation's level; without width if it is known."""
        sd, dof = self.estimate.base_sd, self.estimate.base_dof
        half = np.zeros(len(self.outputs)) if sd is None else quantile(self.level, dof) * sd
        base = np.atleast_1d(self.base_value)
        ends = [self._number(base - half), self._number(base + half)]
        return Interval(np.asarray(ends[0]), np.asarray(ends[1]), self.level)

    @property
    def prediction(self) -> Floats | float:
        """f(x), after the link."""
        full = self.history.full
        return self._number(np.full(len(self.outputs), np.nan) if full is None else full)

    @property
    def intercept(self) -> Floats | float:
        """Intercept of the linear explanation."""
        return self._number(self.estimate.intercept)

    @property
    def local_prediction(self) -> Floats | float:
        """Prediction of the linear explanation at the instance."""
        return self._number(self.estimate.local_prediction)

    @property
    def r2(self) -> Floats | float:
        """Weighted R² of the linear explanation (lime's ``score``)."""
        return self._number(self.estimate.r2)

    @property
    def error(self) -> ErrorPosterior:
        """Error uncertainty: the posterior of ε, with ``density_at_zero`` and ``scale``."""
        e = self.estimate.error
        return ErrorPosterior(e.dof, self._number(np.atleast_1d(np.asarray(e.scale))))

    @property
    def prob_positive(self) -> Floats:
        """P(φ > 0) of each feature."""
        return self._squeezed(self.belief.prob_positive())

    def prob_greater(
        self, first: str | int, second: str | int, *, signed: bool = False, output: Any = None
    ) -> float:
        """Return P(|φ_first| > |φ_second|), or (``signed``) P(φ_first > φ_second)."""
        i, j = self._feature(first), self._feature(second)
        return self.belief.prob_greater(i, j, self._output(output), signed=signed)

    def rank_probabilities(self, *, signed: bool = False, output: Any = None) -> Floats:
        """``(d, d)``: entry (i, r) is the probability that feature i has rank r + 1."""
        return self.belief.rank_probabilities(self._output(output), signed=signed)

    def rank_range(self, *, output: Any = None, level: float | None = None) -> tuple[Ints, Ints]:
        """Return the lowest and highest rank of each feature at ``level``; 1 is the largest |φ|."""
        j, d = self._output(output), len(self.names)
        tail = (1 - check_level(self.level if level is None else level)) / 2
        mean, scale = self.belief.mean[:, j], self.belief.scale[:, :, j]
        if not (np.isfinite(mean).all() and np.isfinite(scale).all()):  # any order is possible
            return np.ones(d, dtype=np.int64), np.full(d, d)
        # Draws of φ times a common positive factor, which does not change their order.
        draws = np.concatenate([_normal_draws(d), _chi_draws(float(f"{self.dof:.2g}"))], axis=1)
        x = draws @ np.concatenate([root(scale), mean[None]])
        p = np.cumsum(_rank_counts(x), axis=1) / N_RANK_DRAWS
        return (p <= tail).sum(axis=1) + 1, (p < 1 - tail - 1e-12).sum(axis=1) + 1

    def top(self, n: int = 5, *, signed: bool = False, output: Any = None) -> list[str]:
        """Return the names of the ``n`` features with the largest |φ| (``signed``: largest φ)."""
        check_count("top(n)", n)
        m = self.belief.mean[:, self._output(output)]
        order = np.argsort(-(m if signed else np.abs(m)), kind="stable")
        return [self.names[i] for i in order[:n]]

    def sample(self, n: int, seed: int = 0) -> Floats:
        """Draw ``(n, d)`` or ``(n, d, k)`` importances from the posterior."""
        return self._squeezed(self.belief.sample(check_count("sample(n)", n), seed))

    # -- helpers -------------------------------------------------------------------------------

    def _squeezed(self, a: Floats) -> Floats:
        """Drop the last axis if there is one output."""
        return np.asarray(a[..., 0] if len(self.outputs) == 1 else a)

    def _number(self, a: Floats) -> Floats | float:
        """Return a float if there is one output."""
        return float(a[0]) if len(self.outputs) == 1 else np.asarray(a)

    def _one_output(self, which: Any) -> dict[str, Any]:
        """Return the fields that differ if only one output is kept."""
        j = self._output(which)
        name = self.outputs[j]
        target = int(name) if name.isdigit() else name
        options = {**self.settings["options"], "target": target}
        chosen = {} if len(self.outputs) == 1 else {"target": target, "options": options}
        return {
            "outputs": (name,),
            "estimate": self.estimate.only(j),
            "history": self.history.only(j),
            "settings": {**self.settings, **chosen},
        }

    def _feature(self, which: str | int) -> int:
        if isinstance(which, str):
            return _position(which, self.names, "feature")
        if not 0 <= int(which) < len(self.names):
            raise InputError(f"there is no feature {which!r}; there are {len(self.names)}")
        return int(which)

    def _output(self, which: Any) -> int:
        """Return the index of an output given by name or number; ``None`` is the only one."""
        if which is None:
            if len(self.outputs) > 1:
                raise InputError(f"say which output: output= one of {', '.join(self.outputs)}")
            return 0
        if isinstance(which, int | np.integer) and 0 <= which < len(self.outputs):
            return int(which)
        return _position(which, self.outputs, "output")


def _position(which: Any, names: tuple[str, ...], what: str) -> int:
    if str(which) not in names:
        raise InputError(f"there is no {what} {which!r}; there are: {', '.join(names)}")
    return names.index(str(which))


@lru_cache(maxsize=4)
def _normal_draws(d: int) -> Floats:
    """``(N_RANK_DRAWS, d)`` standard normal numbers, the same for all explanations."""
    return np.random.default_rng(0).standard_normal((N_RANK_DRAWS, d))


def _rank_counts(x: Floats) -> Ints:
    """Count ``(d, d)`` in how many rows of ``x (n, d)`` column i has the r-th largest |x|.

    Overwrites ``x``. A stable argsort of each row, five times as fast: floats without their sign
    sort as their bits do, and the column goes into the last bits. Numbers that agree to about 2⁻⁴⁵
    count as equal.
    """
    d, columns, keys = x.shape[1], _columns(*x.shape), x.view(np.uint64)
    bits = (d - 1).bit_length()
    last, sign = (1 << bits) - 1, 1 << 63
    keys |= np.uint64(sign | last)
    np.invert(keys, out=keys)  # the largest first
    keys |= columns
    keys.sort(axis=1)
    keys &= np.uint64(last)  # the column that has each rank
    keys <<= np.uint64(bits)
    keys |= columns
    counts = np.bincount(keys.view(np.int64).ravel(), minlength=d << bits)
    return counts.reshape(d, -1)[:, :d]


@lru_cache(maxsize=4)
def _columns(n: int, d: int) -> NDArray[np.uint64]:
    """Return the ``(n, d)`` number of each column."""
    return np.tile(np.arange(d, dtype=np.uint64), (n, 1))


@lru_cache(maxsize=64)
def _chi_draws(dof: float) -> Floats:
    """``(N_RANK_DRAWS, 1)`` roots of χ²/dof; a normal number over one of them is Student-t."""
    return np.sqrt(np.random.default_rng(1).chisquare(dof, (N_RANK_DRAWS, 1)) / dof)
