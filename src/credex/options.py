"""Options: defaults of an explainer, overridden call by call, checked before the model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypedDict

import numpy as np

from credex.checks import check_count, check_level, check_positive
from credex.designs.focused import Focused
from credex.designs.samplers import Paired, Random, Sampler
from credex.errors import InputError
from credex.estimators.selection import METHODS
from credex.posteriors import Prior

CALLS = ("width", "queries", "max_queries", "stop", "start", "cohort")
DOMAIN = ("background", "weights", "bins", "around", "categorical", "missing", "segments", "fill")
POSTERIORS = ("auto", "linear", "gp", "exact")
SAMPLERS = ("auto", "random", "paired", "focused", "exhaustive")
LINKS = ("identity", "logit")
RECIPES = ("credex", "paper")


class OptionsDict(TypedDict, total=False):
    """Keywords that a constructor takes as defaults and every method may override."""

    target: int | str | bool | float | None
    level: float
    posterior: str
    sampler: str | Sampler
    seed: int
    prior: Prior | None
    link: str
    noisy: bool
    recipe: str
    robust: bool
    features: int | None
    selection: str
    kernel: Any
    background_uncertainty: bool
    batch_rows: int | None
    query_seconds: float | None


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options.

    Attributes
    ----------
    target
        Output to explain: a class label of the model, or else an index; ``None`` explains all.
    level
        Level of the intervals, 0.95.
    posterior
        ``"auto"``, ``"linear"``, ``"gp"`` (a Gaussian process: fewer queries, more arithmetic)
        or ``"exact"``.
    sampler
        ``"auto"``, ``"random"``, ``"paired"``, ``"focused"`` (with the Gaussian process),
        ``"exhaustive"``, or an object (`PaperFocused`).
    seed
        Everything random follows from it.
    prior
        `Prior`; by default the paper's for BayesLIME and a flat one for BayesSHAP.
    link
        ``"logit"`` explains log-odds of a probability.
    noisy
        The model is random: allow repeats, never report zero width.
    recipe
        ``"paper"``: everything as the paper prints it.
    robust
        Intervals that allow for misfit (default) or the paper's (``False``; BayesLIME only).
    features, selection
        Keep K features: ``"auto"``, ``"forward"``, ``"highest"``, ``"lasso"``, ``"none"``.
    kernel
        `Exponential` (BayesLIME only).
    background_uncertainty
        Add what the choice of background rows contributes (BayesSHAP only).
    batch_rows
        Most rows of one model call; by default about 64 MB of input.
    query_seconds
        What one query costs; ``posterior="auto"`` decides by it. `Explainer.calibrate` measures it.
    """

    target: Any = None
    level: float = 0.95
    posterior: str = "auto"
    sampler: Any = "auto"
    seed: int = 0
    prior: Prior | None = None
    link: str = "identity"
    noisy: bool = False
    recipe: str = "credex"
    robust: bool = True
    features: int | None = None
    selection: str = "auto"
    kernel: Any = None
    background_uncertainty: bool = False
    batch_rows: int | None = None
    query_seconds: float | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        _one_of("posterior", self.posterior, POSTERIORS)
        _one_of("link", self.link, LINKS)
        _one_of("recipe", self.recipe, RECIPES)
        _one_of("selection", self.selection, METHODS)
        seed: Any = self.seed
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            msg = f"seed must be a whole number ≥ 0; got {self.seed!r}"
            raise InputError(msg)
        if isinstance(self.sampler, str):
            _one_of("sampler", self.sampler, SAMPLERS, extra="or an object such as PaperFocused()")
        elif not isinstance(self.sampler, Sampler):
            msg = f"sampler must be one of {', '.join(SAMPLERS)} or have select() and paired; "
            msg += f"got {self.sampler!r}"
            raise InputError(msg)
        self._check_rest()

    def _check_rest(self) -> None:
        for name in ("noisy", "robust", "background_uncertainty"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                msg = f"{name} must be True or False; got {getattr(self, name)!r}"
                raise InputError(msg)
        if self.kernel is not None and not callable(getattr(self.kernel, "weights", None)):
            msg = f"kernel must be a kernel such as cx.Exponential(0.75); got {self.kernel!r}"
            raise InputError(msg)
        if self.features is not None:
            check_count("features", self.features)
        if self.query_seconds is not None:
            check_positive("query_seconds", self.query_seconds)
        if self.batch_rows is not None:
            check_count("batch_rows", self.batch_rows)
        if self.prior is not None and not isinstance(self.prior, Prior):
            msg = f"prior must be a credex.Prior; got {self.prior!r}"
            raise InputError(msg)
        if self.posterior == "exact" and self.noisy:
            msg = "posterior='exact' and noisy=True contradict each other: noise never ends"
            raise InputError(msg)
        if self.background_uncertainty and self.link != "identity":
            msg = "background_uncertainty=True works without a link only"
            raise InputError(msg)

    def override(self, given: Mapping[str, Any]) -> Options:
        """Return the options with ``given`` keywords replaced; unknown ones are an error."""
        if not given:
            return self
        check_names(given)
        return Options(**{**self.as_keywords(), **given})

    def as_keywords(self) -> dict[str, Any]:
        """All options as keywords of a call."""
        return {name: getattr(self, name) for name in NAMES}

    def kept(self) -> dict[str, Any]:
        """Options as plain values, for an explanation to carry: `refine` takes them up again.

        A sampler or kernel object is left out; the explainer that refines must have it too.
        """
        out = {name: getattr(self, name) for name in KEPT}
        if isinstance(self.sampler, str):
            out["sampler"] = self.sampler
        if self.prior is not None:
            p = self.prior
            out["prior"] = [p.n0, p.sigma0_sq, p.mean, p.precision]
        if isinstance(self.target, np.generic):
            out["target"] = self.target.item()
        return out

    def sampler_object(self, default: str) -> tuple[Sampler, str]:
        """The sampler and its name."""
        s = self.sampler
        if not isinstance(s, str):
            return s, str(getattr(s, "name", type(s).__name__))
        gp = self.posterior == "gp" and default == "paired"
        name = ("focused" if gp else default) if s == "auto" else s
        if name == "focused":
            return Focused(), name
        if self.posterior == "exact":
            name = "exhaustive"
        if name == "exhaustive":
            return (Paired() if default == "paired" else Random()), "exhaustive"
        return (Paired() if name == "paired" else Random()), name


NAMES = tuple(f.name for f in fields(Options))
"""Every option."""

KEPT = tuple(
    name
    for name in NAMES
    if name not in ("kernel", "prior", "batch_rows", "sampler", "seed", "level", "query_seconds")
)
"""Options that an explanation carries as they are."""


def check_names(given: Mapping[str, Any]) -> None:
    """Raise on a keyword that is no option."""
    for name in given:
        if name not in NAMES:
            msg = f"there is no option {name!r}"
            near = get_close_matches(name, [*NAMES, *CALLS, *DOMAIN], 1)
            if name in DOMAIN or (near and near[0] in DOMAIN):
                word = name if name in DOMAIN else near[0]
                owner = "cx.Image(" if word in ("segments", "fill") else "cx.Tabular(X, "
                msg += f"; {word}= belongs to the domain: {owner}{word}=…)"
            elif near:
                msg += f" (did you mean {near[0]!r}?)"
            msg += f"; there are: {', '.join(sorted(NAMES))}; and for a call {', '.join(CALLS)}"
            raise InputError(msg)


def _one_of(name: str, value: object, allowed: tuple[str, ...], extra: str = "") -> None:
    if value not in allowed:
        more = f" {extra}" if extra else ""
        msg = f"{name} must be one of {', '.join(map(repr, allowed))}{more}; got {value!r}"
        raise InputError(msg)
