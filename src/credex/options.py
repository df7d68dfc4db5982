"""Options: defaults of an explainer, overridden call by call, checked before the model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, TypedDict

import numpy as np

from credex.errors import InputError, check_count, check_level, check_positive
from credex.posteriors import Prior
from credex.recipes import Published

RECIPES = ("credex", "paper", "published")
POSTERIORS = ("auto", "linear", "gp", "exact")
SAMPLERS = ("auto", "random", "paired", "focused", "exhaustive")
LINKS = {"identity": "", "logit": " in log-odds", "log": " in logarithms"}
"""Link functions, and what an output is in after them."""

SELECTIONS = ("auto", "forward", "highest", "lasso", "none")
CALL_KEYWORDS = ("width", "queries", "max_queries", "stop", "start", "cohort")
DOMAIN_KEYWORDS = (
    *("background", "weights", "bins", "around", "categorical", "missing"),
    *("segments", "fill"),
)
PEER_KEYWORDS = {
    **dict.fromkeys(("num_samples", "nsamples", "n_samples", "max_evals", "budget"), "queries"),
    **dict.fromkeys(("num_features", "n_features", "l1_reg"), "features"),
    **dict.fromkeys(("kernel_width",), "kernel"),
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    **dict.fromkeys(("alpha", "confidence", "ci"), "level"),
    **dict.fromkeys(("label", "labels", "output", "class_index"), "target"),
    **dict.fromkeys(("feature_selection",), "selection"),
}
"""What lime, shap and their users call these options."""


class OptionsDict(TypedDict, total=False):
    """Keywords that a constructor takes as defaults and every method may override."""

    target: int | str | bool | float | None
    level: float
    posterior: Any
    sampler: Any
    seed: int
    prior: Prior | None
    link: str
    noisy: bool
    recipe: Any
    robust: bool
    features: int | None
    selection: str
    kernel: Any
    background_uncertainty: bool
    batch_rows: int | None
    query_seconds: float | None
    concurrency: int


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
        ``"auto"``, ``"linear"``, ``"gp"`` (a Gaussian process: fewer queries, more arithmetic),
        ``"exact"``, or an estimator of your own (`credex.estimators.base.CustomEstimator`).
    sampler
        ``"auto"``, ``"random"``, ``"paired"``, ``"focused"`` (with the Gaussian process),
        ``"exhaustive"``, or a sampler object such as `PaperFocused`.
    seed
        Everything random follows from it.
    prior
        `Prior`; by default the paper's for BayesLIME and a flat one for BayesSHAP.
    link
        ``"logit"`` explains log-odds of a probability, ``"log"`` the logarithm of an output > 0.
    noisy
        The model is random: allow repeats, never report zero width.
    recipe
        ``"credex"``; ``"paper"``: as the paper prints it, see below; ``"published"``: as its
        authors' code does it, see `credex.Published`, which has its settings.
    robust
        Intervals that allow for misfit (default) or the paper's (``False``; BayesLIME only).
    features, selection
        Keep K features: ``"auto"``, ``"forward"``, ``"highest"``, ``"lasso"``, ``"none"``.
    kernel
        `Exponential` (BayesLIME only).
    background_uncertainty
        Add the variance due to the choice of background rows (BayesSHAP only).
    batch_rows
        Maximum rows of one model call; by default about 64 MB of input.
    query_seconds
        Cost of one query; ``posterior="auto"`` decides by it. `Explainer.calibrate` measures it.
    concurrency
        Model calls at the same time, from threads: for models that wait, such as those behind a
        network.

    Notes
    -----
    ``recipe="paper"`` is the paper's text to the letter: N perturbations that may repeat (for
    BayesLIME the instance is the first, as in lime), its kernels without a root, no intercept, its
    prior and its Student-t intervals, also with ``features=K``. The text leaves open, and credex
    chooses: BayesSHAP draws fair coins, and coalitions of no or all features, whose kernel is
    infinite, are drawn again; a table's coalition is the mean over the background rows; f(x) and
    the base value are asked in addition to N and not used by the regression; BayesLIME's distance
    is lime's (cosine for masks).
    """

    target: Any = None
    level: float = 0.95
    posterior: Any = "auto"
    sampler: Any = "auto"
    seed: int = 0
    prior: Prior | None = None
    link: str = "identity"
    noisy: bool = False
    recipe: str | Published = "credex"
    robust: bool = True
    features: int | None = None
    selection: str = "auto"
    kernel: Any = None
    background_uncertainty: bool = False
    batch_rows: int | None = None
    query_seconds: float | None = None
    concurrency: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.target, np.ndarray | np.generic) and self.target.size == 1:
            object.__setattr__(self, "target", self.target.item())
        check_level(self.level)
        if not callable(getattr(self.posterior, "fit", None)):
            _check_choice("posterior", self.posterior, POSTERIORS, "or an object with fit()")
        if isinstance(self.sampler, str):
            extra = "or an object such as PaperFocused()"
            _check_choice("sampler", self.sampler, SAMPLERS, extra)
        else:
            selects = callable(getattr(self.sampler, "select", None))
            allowed = f"one of {', '.join(SAMPLERS)} or have select() and paired"
            good = selects and hasattr(self.sampler, "paired")
            _check("sampler", self.sampler, allowed, good=good)
        _check_choice("link", self.link, tuple(LINKS))
        object.__setattr__(self, "recipe", recipe_of(self.recipe))
        _check_choice("selection", self.selection, SELECTIONS)
        seed: Any = self.seed
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        _check("seed", seed, "a whole number ≥ 0", good=whole and seed >= 0)
        for name in ("noisy", "robust", "background_uncertainty"):
            value = getattr(self, name)
            _check(name, value, "True or False", good=isinstance(value, bool | np.bool_))
        for name in ("features", "batch_rows"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_count("concurrency", self.concurrency)
        if self.query_seconds is not None:
            check_positive("query_seconds", self.query_seconds)
        kernel = self.kernel is None or callable(getattr(self.kernel, "weights", None))
        _check("kernel", self.kernel, "a kernel such as cx.Exponential(0.75)", good=kernel)
        prior = self.prior is None or isinstance(self.prior, Prior)
        _check("prior", self.prior, "a credex.Prior", good=prior)
        self._check_contradictions()

    def _check_contradictions(self) -> None:
        if self.posterior == "exact" and self.noisy:
            msg = "posterior='exact' and noisy=True contradict each other: noise never averages out"
            raise InputError(msg)
        if self.background_uncertainty and self.link != "identity":
            raise InputError("background_uncertainty=True works without a link only")
        if self.literal:
            self._check_literal()

    def _check_literal(self) -> None:
        """Raise on options that a recipe of the paper has no counterpart of."""
        name = "published" if self.published is not None else "paper"
        repeats = "its masks are drawn one by one and repeat; use 'random' or cx.PaperFocused(…)"
        wrong = {
            "posterior": (self.posterior == "exact", "its masks repeat, so that it never is exact"),
            "sampler": (self.sampler in ("paired", "exhaustive"), repeats),
        }
        if name == "published":
            own = "BayesSHAP's number is in recipe=cx.Published(features=…)"
            wrong |= {
                "posterior": (self.posterior not in ("auto", "linear"), "it has one regression"),
                "sampler": (self.sampler in ("paired", "focused", "exhaustive"), repeats),
                "kernel": (self.kernel is not None, "it has a kernel of its own"),
                "background_uncertainty": (
                    self.background_uncertainty,
                    "it has no background rows",
                ),
                "features": (self.features is not None, own),
            }
        for option, (bad, hint) in wrong.items():
            if bad:
                given = getattr(self, option)
                raise InputError(f"recipe={name!r} does not go with {option}={given!r}: {hint}")

    def override(self, given: Mapping[str, Any]) -> Options:
        """Return the options with ``given`` keywords replaced; unknown ones are an error."""
        if not given:
            return self
        check_names(given)
        return replace(self, **given)

    def as_keywords(self) -> dict[str, Any]:
        """Return all options as keywords of a call."""
        return {name: getattr(self, name) for name in NAMES}

    def stored(self) -> dict[str, Any]:
        """Return the options as plain values for an explanation to keep; `refine` reads them.

        Sampler, kernel and estimator objects are left out: the explainer that refines must have
        them, too.
        """
        out = {name: getattr(self, name) for name in STORED}
        for name in ("sampler", "posterior"):
            if isinstance(getattr(self, name), str):
                out[name] = getattr(self, name)
        if self.prior is not None:
            p = self.prior
            out["prior"] = [p.n0, p.sigma0_sq, p.mean, p.precision]
        if isinstance(self.recipe, Published):
            out["recipe"] = self.recipe.stored()
        return out

    @property
    def sampler_name(self) -> str:
        """Name of the sampler, also if it is an object."""
        if isinstance(self.sampler, str):
            return self.sampler
        return str(getattr(self.sampler, "name", type(self.sampler).__name__))

    @property
    def paper(self) -> bool:
        """Whether everything is done as the paper prints it."""
        return self.recipe == "paper"

    @property
    def published(self) -> Published | None:
        """Settings of the published code's recipe; ``None`` if another is followed."""
        if isinstance(self.recipe, Published):
            return self.recipe
        return Published() if self.recipe == "published" else None

    @property
    def literal(self) -> bool:
        """Whether a recipe of the paper is followed, as printed or as published."""
        return self.recipe != "credex"


NAMES = tuple(f.name for f in fields(Options))
"""Every option."""

NOT_STORED = (
    *("kernel", "prior", "batch_rows", "sampler", "posterior"),
    *("seed", "level", "query_seconds", "concurrency"),
)
STORED = tuple(name for name in NAMES if name not in NOT_STORED)
"""Options that an explanation keeps as they are."""


def check_names(given: Mapping[str, Any]) -> None:
    """Raise `InputError` on a keyword that is no option, with a hint at the right one."""
    for name in given:
        if name in NAMES:
            continue
        near = PEER_KEYWORDS.get(name) or next(
            iter(get_close_matches(name, [*NAMES, *CALL_KEYWORDS, *DOMAIN_KEYWORDS], 1)), None
        )
        msg = f"there is no option {name!r}"
        if near in DOMAIN_KEYWORDS:
            owner = "cx.Image(" if near in ("segments", "fill") else "cx.Tabular(X, "
            msg += f"; {near}= belongs to the domain: {owner}{near}=…)"
        elif near is not None:
            msg += f" (did you mean {near!r}?)"
        msg += f"; options are: {', '.join(sorted(NAMES))}; and for a call "
        raise InputError(msg + ", ".join(CALL_KEYWORDS))


def _check(name: str, value: object, allowed: str, *, good: bool) -> None:
    if not good:
        raise InputError(f"{name} must be {allowed}; got {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str, ...], extra: str = "") -> None:
    allowed = f"one of {', '.join(map(repr, choices))} {extra}".rstrip()
    _check(name, value, allowed, good=value in choices)


def recipe_of(value: Any) -> str | Published:
    """Return a recipe: one of `RECIPES`, a `Published`, or what `Published.stored` returned."""
    value = Published(**value) if isinstance(value, Mapping) else value
    if isinstance(value, Published):
        return "published" if value == Published() else value
    if isinstance(value, str) and value in RECIPES:
        return value
    allowed = f"one of {', '.join(map(repr, RECIPES))} or a credex.Published(…)"
    raise InputError(f"recipe must be {allowed}; got {value!r}")
