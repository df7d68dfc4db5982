"""BayesLIME: perturbed rows weighted by proximity, a linear surrogate with a ridge prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from credex.blackbox import BlackBox, check_repeat
from credex.designs.samplers import Candidates, Paired, Predictive, checked
from credex.designs.sequences import BernoulliSequence
from credex.designs.stream import MaskStream, PerturbationStream
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import (
    ONE,
    Context,
    Estimate,
    Settings,
    Talk,
    all_of,
    and_full,
    coalitions,
    instance,
    linked,
    never_certain,
    powers_of_two,
    same_outputs,
    selection_note,
    spans,
    unlinked,
)
from credex.estimators.forecast import linear_forecast
from credex.estimators.perturbed import ask_whole, table_ask
from credex.estimators.sparse_surrogate import sparse_exact, sparse_linear
from credex.estimators.unidentified import NONE, Unseen
from credex.history import NOTHING, History
from credex.kernels import Exponential
from credex.later import once
from credex.model_queue import Ask
from credex.posteriors import Belief, ExactPosterior, LinearPosterior
from credex.stopping import Forecast, RelativeWidth, Width
from credex.typing import Design, Floats, Weights

ON_MASKS, ON_TABLES = Exponential(distance="cosine"), Exponential()
"""lime's kernels."""


class SurrogateRecipe:
    """One instance, its perturbations, and the posterior of the linear surrogate."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        settings: Settings,
        context: Context,
        asked: History | None = None,
    ) -> None:
        self.neighbourhood, self.settings, self.context = neighbourhood, settings, context
        self.asked = NOTHING if asked is None else asked
        self.unsure = self.begun = self.asked.full is not None
        self.by_masks = bool(neighbourhood.by_masks)
        self.origin = np.asarray(neighbourhood.design_at, dtype=np.float64)
        self.d = len(self.origin)
        self.paired = bool(settings.sampler.paired)
        if self.paired and not self.by_masks:
            msg = "sampler='paired' needs masks; a table's perturbed rows have no complement. "
            msg += "Use sampler='random'"
            raise InputError(msg)
        if self.paired:
            self.asked = self.asked.in_pairs()
        kernel = settings.kernel
        if kernel is None:
            kernel = ON_MASKS if self.by_masks else ON_TABLES
        self.kernel = replace(kernel, root=False) if settings.recipe == "paper" else kernel
        self._stream: MaskStream | PerturbationStream | None = None
        self._posterior: LinearPosterior | ExactPosterior | None = None
        self.at_hand: Design | None = None
        """All design rows, while they are at hand: spares unpacking them."""

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def minimum(self) -> int:
        """Fewest queries: rows for d coefficients, an intercept and one to judge by."""
        fixed = (1 + self._repeat_cost) if self.by_masks else 0
        return int(min(self.d + 2 + fixed, self.everything))

    @once
    def everything(self) -> float:
        """All masks; a table's perturbations never end."""
        if not self.by_masks or self.settings.noisy:
            return np.inf
        return powers_of_two(self.d)

    @property
    def enumerable(self) -> bool:
        """Masks can be listed, perturbed rows cannot."""
        return self.by_masks

    @property
    def unasked(self) -> float:
        """Masks that were not asked yet; a table's perturbations never end."""
        return self.everything - 1 - self.asked.rows.n

    @property
    def rows_per_query(self) -> int:
        """One."""
        return 1

    @property
    def _repeat_cost(self) -> int:
        return 1 if self.by_masks and not self.settings.noisy else 0

    def room(self, ceiling: int, coming: int = 0) -> int:
        """Perturbations that fit under ``ceiling``, if ``coming`` queries are on their way."""
        left = ceiling - self.asked.n_queries - coming
        if not self.by_masks:
            return max(left, 0)
        if not self.asked.checked and self._affords_repeat(ceiling):
            left -= self._repeat_cost
        return int(max(min(left, self.unasked), 0))

    @property
    def _to_repeat(self) -> bool:
        """Whether to ask for f(x) again: once, and where it is no query, once more to go on."""
        if self.settings.noisy:
            return False
        return not self.asked.checked or (self.unsure and not self._repeat_cost)

    def _affords_repeat(self, ceiling: float) -> bool:
        return not self.everything <= ceiling < self.everything + self._repeat_cost

    # -- asking --------------------------------------------------------------------------------

    limit: float = np.inf
    looks: bool = False
    why: tuple[str, ...] = ()

    def open(self, ceiling: int) -> Talk[None]:
        """Ask for f(x); on masks that is a query."""
        del ceiling
        if self.asked.full is not None:
            return
        answers = yield [self._instance()]
        self.asked = self.asked.spend(
            answers,
            1 if self.by_masks else 0,
            full=linked(answers[0].y, self.settings.link)[0],
        )

    def _instance(self) -> Ask:
        return instance(self.neighbourhood)

    @property
    def stream(self) -> MaskStream | PerturbationStream:
        """Perturbations not asked yet, in the order of the seed."""
        if self._stream is None:
            self._stream = self._fresh_stream()
        return self._stream

    def _fresh_stream(self) -> MaskStream | PerturbationStream:
        s = self.settings
        if not self.by_masks:
            return PerturbationStream(self.neighbourhood, s.seed, self.asked.cursor)
        known = self.asked.rows.design() if self.asked.rows.n else None
        known = known[0::2] if known is not None and self.paired else known
        d, seed, pairs = self.d, s.seed, self.paired
        # f(x) is known; of a noisy model it is a value like any other, asked as often as others
        skip = () if s.noisy else ((0, d) if pairs else (d,))
        sequence = self.context.once(
            ("coins", d, seed, pairs, skip),
            lambda: BernoulliSequence(d, seed, skip=skip, paired=pairs),
        )
        return MaskStream(sequence, known, repeat=s.noisy)

    def choose(self, n: int, fit: Predictive | None, rng: np.random.Generator) -> Candidates:
        """Let the sampler choose at most ``n`` perturbations."""
        with self.context.lock:
            chosen = self.settings.sampler.select(self.stream, n, fit, rng)
            own = isinstance(self.settings.sampler, Paired)
            chosen = checked(chosen, n, paired=self.paired, trusted=own)
            if isinstance(self.stream, MaskStream):
                self.stream.keep_rest(chosen)
            return chosen

    def whole(self, n: int, box: BlackBox) -> Callable[[], None] | None:
        """Ask for all there is to ask at once, if that can be done."""
        return ask_whole(self, n, box)

    @property
    def opening(self) -> int | None:
        """On masks f(x) is a query."""
        known = self.asked.full is not None or self.settings.noisy
        return None if known else int(self.by_masks)

    def ask(self, candidates: Candidates, *, most_rows: Callable[[], int]) -> Talk[None]:
        """Ask for the perturbations in calls of at most ``most_rows()`` rows."""
        stream = self.stream
        n = len(candidates)
        # the repeated row goes into the same call
        for s, e in spans(n, lambda: most_rows() - 1, 2 if self.paired else 1):
            part = candidates.pick(np.arange(s, e)) if (s, e) != (0, n) else candidates
            if isinstance(stream, PerturbationStream):
                ask = table_ask(self, stream, candidates, s, e)
            else:
                nb, masks = self.neighbourhood, part.design
                ask = Ask(
                    coalitions(nb, masks),
                    e - s,
                    ONE,
                    row_bytes=nb.row_bytes,
                    form=nb.form,
                    of=nb,
                    joined=and_full(nb, masks),
                )
            asks = [ask]
            again = self._affords_repeat(self.limit) and self._to_repeat
            self.unsure = False
            if again:
                asks.append(self._instance())
            answers = yield asks
            y = linked(same_outputs(answers[0].y, self.asked.full), self.settings.link)
            w = np.asarray(self.kernel.weights(part.design, self.origin))
            self.asked = self.asked.spend(
                answers,
                e - s + (self._repeat_cost if again else 0),
                rows=self.asked.rows.add(part.design, y, w),
                checked=self.asked.checked or again,
                cursor=int(part.position[-1]) + 1 if not self.by_masks else 0,
            )
            self._absorb(part, y, w)
            if again and self.asked.full is not None:
                link, again_y = self.settings.link, linked(answers[1].y, self.settings.link)[0]
                first = unlinked(self.asked.full, link)
                second = unlinked(again_y, link)
                check_repeat(first, second, answers[1].same, begun=self.begun)
        # what was looked at and left is gone
        if isinstance(stream, PerturbationStream) and self.asked.cursor != stream.at:
            self.asked = replace(self.asked, cursor=stream.at)

    def _absorb(self, part: Candidates, y: Floats, w: Weights) -> None:
        p = self._posterior
        self.at_hand = part.design if len(part) == self.asked.rows.n else None
        if isinstance(p, LinearPosterior) and p.n == self.asked.rows.n - len(part):
            self._posterior = p.update(part.design, y, w)
        else:
            self._posterior = None

    # -- fitting -------------------------------------------------------------------------------

    def posterior(self) -> LinearPosterior | ExactPosterior | None:
        """Posterior of the surrogate, or ``None`` if nothing was asked."""
        rows, s = self.asked.rows, self.settings
        if rows.n == 0 or self.asked.full is None:
            return None
        if self.by_masks and not s.noisy and rows.n == 2**self.d - 1:
            ones = np.ones((1, self.d), dtype=np.bool_)
            masks = np.concatenate([ones, rows.design()])
            y = np.concatenate([self.asked.full[None, :], rows.y()])
            weights = np.asarray(self.kernel.weights(masks, self.origin))
            self._posterior = ExactPosterior.surrogate(masks, y, weights)
        if self._posterior is None:
            self._posterior = LinearPosterior.of_rows(
                rows,
                prior=s.prior,
                intercept="none" if s.recipe == "paper" else "flat",
                cluster=2 if self.paired else 1,
                design=self.at_hand,
                robust=self._robust,
            )
            self.at_hand = None
        return self._posterior

    def predictive(self) -> Predictive | None:
        """The posterior an adaptive sampler reads."""
        p = self.posterior()
        return None if isinstance(p, ExactPosterior) else p

    @property
    def fraction(self) -> float:
        """Share of all masks that was asked, for the finite population correction."""
        uniform = bool(getattr(self.settings.sampler, "uniform", False))
        if not self.by_masks or self.settings.noisy or not uniform:
            return 0.0
        return float(self.asked.rows.n / (powers_of_two(self.d) - 1))

    def fit(self) -> Estimate | None:
        """Fit what was asked."""
        p = self.posterior()
        if p is None:
            return None
        k = len(p.mean[0])
        selected = all_of(self.d, k)
        keep = self.settings.features
        if isinstance(p, ExactPosterior):
            belief, intercept, error, r2 = p.belief, p.intercept, p.error, p.r2
            if keep is not None and keep < self.d:
                belief, intercept, error, r2, selected = sparse_exact(self, p, keep)
        elif keep is not None and keep < self.d:
            belief, intercept, error, r2, selected = sparse_linear(self, p, keep)
        else:
            belief = self.belief_of(p)
            intercept, error, r2 = np.asarray(p.intercept), p.error, np.asarray(p.r2)
        exact = isinstance(p, ExactPosterior)
        unseen = NONE if exact else self.unseen()
        if self.settings.noisy and self.asked.full is not None:
            belief = never_certain(belief, self.asked.full)
        return Estimate(
            belief,
            error,
            r2,
            exact,
            "exact" if exact else "linear",
            intercept,
            np.asarray(intercept + self.origin @ belief.mean),
            selected,
            selection_note(keep, self.d) + unseen.notes,
            unseen.never,
        )

    def unseen(self) -> Unseen:
        """Features that are alike in all that was asked, and whether that is the whole truth."""
        if isinstance(self._posterior, LinearPosterior):
            if not self._posterior.some_unseen:
                return NONE
            still = self._posterior.unseen
            on = self._posterior.moments.z_mean > 0.5
            return Unseen.of(self.neighbourhood, still, on)
        return Unseen.of_rows(self.neighbourhood, self.asked.rows)

    @property
    def _robust(self) -> bool:
        """Whether intervals allow for misfit; the paper's do not."""
        return self.settings.robust and self.settings.recipe != "paper"

    def belief_of(self, p: LinearPosterior) -> Belief:
        """Return the paper's Student-t, or the robust one."""
        if self._robust:
            share = self.fraction
            deviation = np.sqrt(p.robust_variance(fraction=share))
            if p.some_unseen:  # what cannot change has no importance, and that is known
                deviation[self.unseen().fixed] = 0.0
            scale = partial(p.robust_covariance, fraction=share)
            return Belief.of(p.mean, deviation, p.robust_dof, scale)
        return Belief(p.mean, p.scale_matrix, p.dof)

    def forecast(self, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """How many more queries to these widths."""
        return linear_forecast(self, limits, level)

    def reconsider(self, limits: Width | RelativeWidth, forecast: Forecast) -> bool:
        """Never: this posterior was asked for."""
        del limits, forecast
        return False
