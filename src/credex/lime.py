"""`BayesLIME`: a linear surrogate around the instance with credible intervals."""

from __future__ import annotations

from credex.designs.design import Design
from credex.designs.perturbations import PerturbationDesign
from credex.designs.repeating import RepeatingDesign
from credex.designs.samplers import Focused
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import CustomEstimator, Estimator
from credex.estimators.process_shapley import Switch
from credex.estimators.process_surrogate import SurrogateProcess
from credex.estimators.surrogate import SurrogateEstimator
from credex.explainer import Explainer
from credex.history import History
from credex.options import Options
from credex.posteriors import Prior
from credex.stopping import Goals

__all__ = ["BayesLIME"]


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
    _kind = "perturbations"
    _default_sampler = "random"
    _default_prior = Prior()
    _default_ceiling = 5_000

    def _pieces(
        self,
        nb: Neighbourhood,
        goals: Goals,
        options: Options,
        history: History,
        *,
        in_turn: bool,
    ) -> tuple[Design, Estimator, Switch | None, tuple[str, ...]]:
        del goals, in_turn
        if options.background_uncertainty:
            msg = "background_uncertainty= is for BayesSHAP; BayesLIME has no background"
            raise InputError(msg)
        if isinstance(options.sampler, Focused):
            raise InputError("sampler='focused' is for BayesSHAP; BayesLIME draws at random")
        plan: type[PerturbationDesign] = RepeatingDesign if options.literal else PerturbationDesign
        design = plan(nb, options, self._context, history)
        kind: type[SurrogateEstimator | SurrogateProcess | CustomEstimator] = SurrogateEstimator
        if not isinstance(options.posterior, str):
            kind = CustomEstimator
        elif options.posterior == "gp":
            kind = SurrogateProcess
        return design, kind(design), None, ()

    def _labels(self, nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.feature_labels)

    def _units(self, nb: Neighbourhood) -> tuple[str, ...]:
        return tuple(nb.unit)
