"""Coalitions of one instance: which there are, which were asked, and how they are asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from credex.blackbox import check_repeat
from credex.designs.samplers import Candidates, Paired, Predictive, checked
from credex.designs.sequences import BernoulliSequence, Sequence, ShapleySequence
from credex.designs.stream import MaskStream
from credex.domains import Neighbourhood
from credex.errors import InputError
from credex.estimators.base import (
    ANCHOR_REPEATS,
    ANCHOR_SHARE,
    Context,
    Settings,
    Talk,
    and_full,
    coalitions,
    instance,
    linked,
    powers_of_two,
    same_outputs,
    spans,
    unlinked,
)
from credex.history import NOTHING, History
from credex.later import once
from credex.model_queue import Answer, Ask
from credex.posteriors import (
    ExactPosterior,
    LinearPosterior,
    ShapleyPosterior,
)
from credex.typing import Floats, Masks, Outputs

ONLY_ENDS = 100
"""Most repeats of the two ends if there is nothing else to ask (one feature, noisy model)."""

Fit = ShapleyPosterior | ExactPosterior | LinearPosterior


class CoalitionRecipe:
    """One instance and its coalitions: how many there are, and how they are asked."""

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
        self.active = np.asarray(neighbourhood.active, dtype=np.bool_)
        if settings.recipe == "paper":  # the paper has no notion of features known beforehand
            self.active = np.ones(len(self.active), dtype=np.bool_)
        self.weights = np.asarray(neighbourhood.background_weights, dtype=np.float64)
        self.paired = bool(settings.sampler.paired) and settings.recipe != "paper"
        if self.paired:
            self.asked = self.asked.in_pairs()
        self._uniform = bool(getattr(settings.sampler, "uniform", False))
        if settings.background_uncertainty and neighbourhood.by_masks:
            msg = "background_uncertainty=True needs a background; masks have none"
            raise InputError(msg)
        old = self.asked
        if settings.background_uncertainty and old.full is not None and old.base_by_row is None:
            msg = "what was asked before does not say which background row gave what: explain "
            msg += "anew with background_uncertainty=True"
            raise InputError(msg)
        self._stream: MaskStream | None = None
        self._posterior: Fit | None = None
        self._at_hand: Masks | None = None
        """All masks asked, while they are at hand: spares unpacking them."""

    # -- sizes ---------------------------------------------------------------------------------

    @once
    def d(self) -> int:
        """Features that differ from the background."""
        return int(self.active.sum())

    @property
    def minimum(self) -> int:
        """Fewest queries: one unit more than parameters and one to judge by, or all coalitions."""
        units = self.d + 1
        own = 2 + self._repeat_cost + (2 if self.paired else 1) * units
        return int(min(own, self.everything))

    @once
    def everything(self) -> float:
        """All coalitions, the empty and the full one included."""
        return np.inf if self.settings.noisy and self.d > 1 else powers_of_two(self.d)

    @property
    def _repeat_cost(self) -> int:
        """The row asked twice is a query of its own where a query is one row."""
        return 1 if len(self.weights) == 1 and not self.settings.noisy else 0

    def room(self, ceiling: int, coming: int = 0) -> int:
        """Perturbations that fit under ``ceiling``, if ``coming`` queries are on their way."""
        left = ceiling - self.asked.n_queries - coming
        if self.d <= 1:
            return 0
        if self.settings.noisy:
            due = max(self._repeats_of_ends(self.asked.rows.n + left) - self._anchor_repeats, 0)
            return max(left - 2 * due, min(left, 2), 0)
        if not self.asked.checked and self._affords_repeat(ceiling):
            left -= self._repeat_cost
        return int(max(min(left, self.unasked), 0))

    @property
    def enumerable(self) -> bool:
        """Coalitions can be listed."""
        return True

    @property
    def unasked(self) -> float:
        """Coalitions that were not asked yet."""
        noisy = self.settings.noisy and self.d > 1
        return np.inf if noisy else powers_of_two(self.d) - 2 - self.asked.rows.n

    @property
    def rows_per_query(self) -> int:
        """Background rows."""
        return len(self.weights)

    def _repeats_of_ends(self, others: int) -> int:
        """How often to ask for both ends: now and then, and as often as any other coalition."""
        return int(max(others // ANCHOR_SHARE, others / (powers_of_two(self.d) - 2)))

    def _anchors_due(self, coming: int) -> int:
        """How often a noisy model should be asked again for both ends, given what is to come."""
        if not self.settings.noisy:
            return 0
        due = self._repeats_of_ends(self.asked.rows.n + coming) - self._anchor_repeats
        room = (self.limit - self.asked.n_queries - coming) // 2
        return int(max(min(due, room), 0))

    @property
    def _to_repeat(self) -> bool:
        """Whether to ask for f(x) again: once, and where it is no query, once more to go on."""
        if self.settings.noisy:
            return False
        return not self.asked.checked or (self.unsure and not self._repeat_cost)

    def _affords_repeat(self, ceiling: float) -> bool:
        """Not if the ceiling is just enough for the whole game: the answer comes first."""
        return not self.everything <= ceiling < self.everything + self._repeat_cost

    # -- asking --------------------------------------------------------------------------------

    def open(self, ceiling: int) -> Talk[None]:
        """Ask for the empty and the full coalition (a noisy model several times)."""
        if self.asked.full is not None:
            more = min((ceiling - self.asked.n_queries) // 2, ONLY_ENDS)
            if self.d <= 1 and self.settings.noisy and more > 0:  # there is nothing else to ask
                self._absorb_ends((yield self._ends(more)), 2 * more)
            return
        repeats = 1
        if self.settings.noisy:
            others = (2 if self.paired else 1) * (self.d + 1) if self.d > 1 else 0
            most = ANCHOR_REPEATS if self.d > 1 else ONLY_ENDS
            repeats = max(min(most, (ceiling - others) // 2), 1)
        answers = yield self._ends(repeats)
        self._absorb_ends(answers, 2 * repeats)
        if self.d <= 1 and not self.settings.noisy and ceiling >= 2 + self._repeat_cost:
            answers = yield [
                instance(self.neighbourhood)
            ]  # nothing else will be asked: repeat it now
            self.asked = self.asked.spend(answers, self._repeat_cost, checked=True)
            self._check_repeat(answers[0])

    def _ends(self, repeats: int) -> list[Ask]:
        """Asks for the empty and the full coalition, in turns."""
        nb, keep = self.neighbourhood, self.settings.background_uncertainty
        alone = self.settings.noisy or nb.base_key is None
        base = Ask(
            lambda _a, _b: (nb.base_inputs(), None),
            1,
            self.weights,
            share=None if alone else ("base", nb.base_key, keep),
            keep_rows=keep,
            row_bytes=nb.row_bytes,
            form=nb.form,
            of=nb,
        )
        return [base, self._full_ask()] * repeats

    def _full_ask(self) -> Ask:
        """Ask for f(x); of a noisy model as many rows as others, so that its noise is theirs."""
        nb = self.neighbourhood
        if not self.settings.noisy or len(self.weights) == 1:
            return instance(nb)
        return Ask(
            coalitions(nb, np.ones((1, len(self.active)), dtype=np.bool_), merge=False),
            1,
            self.weights,
            row_bytes=nb.row_bytes,
            form=nb.form,
            of=nb,
        )

    def _absorb_ends(self, answers: list[Answer], queries: int) -> None:
        by_row = answers[0].by_row
        base_by_row = self.asked.base_by_row if by_row is None else by_row[0]
        if not self.settings.noisy:
            self.asked = self.asked.spend(
                answers,
                queries,
                base=self._linked(answers[0].y)[0],
                full=self._linked(answers[1].y)[0],
                base_by_row=base_by_row,
            )
            return
        bases = self._linked(np.concatenate([a.y for a in answers[0::2]]))
        fulls = self._linked(np.concatenate([a.y for a in answers[1::2]]))
        ends = np.stack([bases, fulls], axis=1)
        if self.asked.anchors is not None:
            ends = np.concatenate([self.asked.anchors, ends])
        self.asked = self.asked.spend(
            answers,
            queries,
            base=ends[:, 0].mean(axis=0),
            full=ends[:, 1].mean(axis=0),
            anchors=ends,
            base_by_row=base_by_row,
        )

    @property
    def _anchor_repeats(self) -> int:
        return 1 if self.asked.anchors is None else len(self.asked.anchors)

    def choose(self, n: int, fit: Predictive | None, rng: np.random.Generator) -> Candidates:
        """Let the sampler choose at most ``n`` coalitions."""
        with self.context.lock:
            chosen = self.settings.sampler.select(self.stream, n, fit, rng)
            own = isinstance(self.settings.sampler, Paired)
            chosen = checked(chosen, n, paired=self.paired, trusted=own)
            if isinstance(self.stream, MaskStream):
                self.stream.keep_rest(chosen)
            return chosen

    @property
    def opening(self) -> int | None:
        """The empty and the full coalition are queries."""
        known = self.asked.full is not None or self.settings.noisy
        return None if known else 2

    def ask(self, candidates: Candidates, *, most_rows: Callable[[], int]) -> Talk[None]:
        """Ask for the coalitions in calls of at most ``most_rows()`` rows."""
        nb, masks = self.neighbourhood, candidates.design
        keep = self.settings.background_uncertainty
        paper = self.settings.recipe == "paper"  # may ask several masks that are the same row
        # the repeated row and the ends go into the same call
        extra = 1 + 2 * self._anchors_due(len(masks)) * len(self.weights)
        each = len(self.weights)
        pieces = spans(len(masks), lambda: (most_rows() - extra) // each, 2 if self.paired else 1)
        for s, e in pieces:
            part = masks[s:e]
            wide = self._wide(part)
            ask = Ask(
                coalitions(nb, wide, merge=not self.settings.noisy),
                e - s,
                self.weights,
                keep_rows=keep,
                row_bytes=nb.row_bytes,
                form=nb.form,
                of=nb,
                joined=and_full(nb, wide) if self._repeat_cost and not paper else None,
            )
            asks = [ask]
            again = self._affords_repeat(self.limit) and self._to_repeat
            self.unsure = False
            due = self._anchors_due(e - s)
            if due:
                asks += self._ends(due)
            if again:
                asks.append(instance(nb))
            answers = yield asks
            y = self._linked(same_outputs(answers[0].y, self.asked.full))
            grown = [b for b in (self.asked.by_row, answers[0].by_row) if b is not None]
            self.asked = self.asked.spend(
                [answers[0], *answers[1 + 2 * due :]],
                e - s + (self._repeat_cost if again else 0),
                rows=self.asked.rows.add(part, y, np.ones(len(y))),
                checked=self.asked.checked or again,
                by_row=np.concatenate(grown) if grown else None,
            )
            self._posterior = None
            self._at_hand = part if len(part) == self.asked.rows.n else None
            if due:
                self._absorb_ends(answers[1 : 1 + 2 * due], 2 * due)
            if again:
                self._check_repeat(answers[-1])

    limit: float = np.inf
    """Ceiling of the run; set by the loop."""

    looks: bool = False
    """Whether the run may stop at any of several looks; set by the loop."""

    why: tuple[str, ...] = ()
    """Why this posterior was chosen, if it was."""

    def _wide(self, masks: Masks) -> Masks:
        """Masks over all d features; the inactive ones are simply on."""
        if self.d == len(self.active):
            return masks
        wide = np.ones((len(masks), len(self.active)), dtype=np.bool_)
        wide[:, self.active] = masks
        return wide

    def _check_repeat(self, again: Answer) -> None:
        link = self.settings.link
        second = self._linked(again.y)[0]
        first, second = unlinked(self.full, link), unlinked(second, link)
        check_repeat(first, second, again.same, begun=self.begun)

    def _linked(self, y: Outputs) -> Outputs:
        return linked(y, self.settings.link)

    @property
    def full(self) -> Floats:
        """f(x), ``(k,)``."""
        return np.zeros(1) if self.asked.full is None else self.asked.full

    @property
    def base(self) -> Floats:
        """Value of the empty coalition, ``(k,)``."""
        return np.zeros(1) if self.asked.base is None else self.asked.base

    @property
    def stream(self) -> MaskStream:
        """Coalitions not asked yet, in the order of the seed."""
        if self._stream is None:
            self._stream = self._fresh_stream()
        return self._stream

    def _fresh_stream(self) -> MaskStream:
        known = self._masks()
        if known is not None and self.paired:
            known = known[0::2]
        recycle = float(getattr(self.settings.sampler, "recycle", 0.0))
        return MaskStream(self._sequence(), known, repeat=self.settings.noisy, recycle=recycle)

    def _sequence(self) -> Sequence:
        d, seed, s = self.d, self.settings.seed, self.settings
        if s.recipe == "paper":
            key = ("coins", d, seed)
            return self.context.once(key, lambda: BernoulliSequence(d, seed, skip=(0, d)))
        key = ("shapley", d, seed, self.paired)  # type: ignore[assignment]
        return self.context.once(key, lambda: ShapleySequence(d, seed, paired=self.paired))

    def _masks(self) -> Masks | None:
        return self.asked.rows.design() if self.asked.rows.n else None
