"""`BayesLIME` and `BayesSHAP`: the pieces that belong together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from credex.auto import choose_posterior
from credex.cells import display
from credex.designs.focused import Focused
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import LOGIT_EDGE, Context, Recipe, Settings
from credex.estimators.process_coalitions import GaussianSingleRecipe
from credex.estimators.process_pairs import GaussianRecipe
from credex.estimators.process_surrogate import GaussianSurrogateRecipe
from credex.estimators.shapley import ShapleyRecipe
from credex.estimators.surrogate import SurrogateRecipe
from credex.estimators.switch import HandoverRecipe
from credex.explainer import Explainer
from credex.goals import Goals
from credex.history import History
from credex.options import Options
from credex.posteriors import Prior
from credex.posteriors.geometry import FLAT

FREE_SAMPLERS = ("auto", "paired")
"""Samplers with which ``posterior="auto"`` may take the Gaussian process."""


class BayesSHAP(Explainer):
    """Shapley values with credible intervals (the paper's BayesSHAP, made honest).

    Parameters
    ----------
    model
        A callable, or anything with ``predict_proba``, else ``predict``.
    data
        Background: a frame, an array, or a domain (`Tabular`, `Masks`, …).
    groups
        Columns that are switched on and off together, if ``data`` is a frame or array.
    **options
        Defaults for every call, see `credex.options.Options`.

    Examples
    --------
    >>> import credex as cx
    >>> def v(masks):  # a game of three players
    ...     return masks @ [1.0, 2.0, 3.0] + masks[:, 0] * masks[:, 1]
    >>> e = cx.BayesSHAP(v, cx.Masks(3)).explain()
    >>> e.mean
    array([1.5, 2.5, 3. ])
    >>> e.stop_reason
    'exact'
    """

    method = "BayesSHAP"
    kind = "coalitions"
    default_sampler = "paired"
    default_prior = FLAT
    default_ceiling = 2_000

    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: History | None
    ) -> Recipe:
        if settings.kernel is not None or not settings.robust:
            msg = "kernel= and robust=False are for BayesLIME; BayesSHAP's paper version is "
            msg += "recipe='paper'"
            raise InputError(msg)
        if settings.posterior == "gp":
            if settings.recipe == "paper" and isinstance(settings.sampler, Focused):
                msg = "recipe='paper' draws fair coins: give sampler='random' with posterior='gp', "
                msg += "or leave posterior='gp' out"
                raise InputError(msg)
            paired = bool(settings.sampler.paired) and settings.recipe != "paper"
            make = GaussianRecipe if paired else GaussianSingleRecipe
            return make(nb, settings, context, asked)
        if isinstance(settings.sampler, Focused):
            msg = "sampler='focused' reads a Gaussian process: use posterior='gp'"
            raise InputError(msg)
        if settings.query_seconds is not None:
            return HandoverRecipe(nb, settings, context, asked)
        return ShapleyRecipe(nb, settings, context, asked)

    def _decided(
        self, options: Options, goals: Goals, nb: Neighbourhood
    ) -> tuple[Settings, tuple[str, ...]]:
        if options.posterior != "auto":
            return self._settings(options), ()
        if isinstance(options.sampler_object(self.default_sampler)[0], Focused):
            return self._settings(replace(options, posterior="gp")), ()
        plain = options.recipe == "credex" and options.features is None
        if not plain or options.background_uncertainty or options.sampler not in FREE_SAMPLERS:
            return self._settings(options), ()
        d = int(np.sum(nb.active))
        ceiling = goals.ceiling or self.default_ceiling
        everything, fixed = 2.0 ** min(d, 60), not goals.rules
        if options.query_seconds is None or d <= 1 or (fixed and everything <= ceiling):
            return self._settings(options), ()  # the regression, exact if it gets that far
        choice = choose_posterior(d, min(ceiling, everything), options.query_seconds, fixed=fixed)
        settings = self._settings(replace(options, posterior=choice.posterior))
        if choice.open:
            settings = replace(settings, query_seconds=options.query_seconds)
        return settings, (choice.why,)

    @staticmethod
    def _labels(nb: Neighbourhood) -> tuple[str, ...]:
        if nb.by_masks:
            return tuple(nb.names)
        return tuple(
            f"{n} = {v:.4g}" if type(v) is float and abs(v) < 1000 else f"{n} = {display(v)}"
            for n, v in zip(nb.names, nb.values, strict=True)
        )

    @staticmethod
    def _units(nb: Neighbourhood) -> tuple[str, ...]:
        return ("change of the prediction",) * len(nb.names)

    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]:
        notes = [] if nb.by_masks else [f"background: {nb.background_note}"]
        notes += _removal_note(nb)
        notes += _link_note(options)
        if options.background_uncertainty:
            notes.append("intervals include the choice of the background rows")
        return tuple(notes)


class BayesLIME(Explainer):
    """A linear surrogate around the instance with credible intervals (the paper's BayesLIME).

    Parameters
    ----------
    model
        A callable, or anything with ``predict_proba``, else ``predict``.
    data
        Training data: a frame, an array, or a domain (`Tabular` with its ``bins``, `Masks`, …).
    groups
        Columns that are perturbed together, if ``data`` is a frame or array.
    **options
        Defaults for every call, see `credex.options.Options`.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> lime = cx.BayesLIME(lambda X: X[:, 0] - 2 * X[:, 1], X)
    >>> e = lime.explain([1.0, 1.0, 1.0], queries=500)
    >>> e.top(1)
    ['x1']
    """

    method = "BayesLIME"
    kind = "perturbations"
    default_sampler = "random"
    default_prior = Prior()
    default_ceiling = 5_000

    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: History | None
    ) -> Recipe:
        if settings.background_uncertainty:
            msg = "background_uncertainty= is for BayesSHAP; BayesLIME has no background"
            raise InputError(msg)
        if isinstance(settings.sampler, Focused):
            msg = "sampler='focused' is for BayesSHAP; BayesLIME draws at random"
            raise InputError(msg)
        if settings.posterior == "gp":
            return GaussianSurrogateRecipe(nb, settings, context, asked)
        return SurrogateRecipe(nb, settings, context, asked)

    @staticmethod
    def _labels(nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.feature_labels)

    @staticmethod
    def _units(nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.unit)

    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]:
        if not nb.removal and options.link == "identity":
            return ()
        return (*_removal_note(nb), *_link_note(options))


def _removal_note(nb: Neighbourhood) -> list[str]:
    return [f"switched off: {nb.removal}"] if nb.removal else []


def _link_note(options: Options) -> list[str]:
    if options.link != "logit":
        return []
    edge = f"{LOGIT_EDGE:.0e}".replace("e-0", "e-")
    return [f"in log-odds; probabilities are kept {edge} away from 0 and 1"]
