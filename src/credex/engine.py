"""What runs an explainer: from an instance and options to a recipe, a plan and a run."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from credex.at_once import at_once
from credex.batch import Case, drive
from credex.blackbox import BlackBox
from credex.designs.samplers import check_still_random
from credex.domains import Domain, Neighbourhood, Tabular
from credex.errors import InputError
from credex.estimators.base import Context, Recipe, Settings
from credex.explanation import Explanation, from_run
from credex.explanation_base import Instance
from credex.goals import Goals
from credex.history import History
from credex.loop import Plan, Run, State, run
from credex.model_queue import Desk, most_rows
from credex.options import Options, OptionsDict
from credex.posteriors import Prior
from credex.stopping import Forecast

__all__ = ["Engine", "Start"]

Start = Explanation | Forecast | None
"""What a run may go on from."""


REMADE = ("_context", "_boxes", "_last_settings")
"""What an explainer keeps and can make again."""


class Engine(ABC):
    """The inside of `credex.explainer.Explainer`: not part of the public contract."""

    method: ClassVar[str]
    default_sampler: ClassVar[str]
    default_prior: ClassVar[Prior]
    default_ceiling: ClassVar[int]

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        **options: Unpack[OptionsDict],
    ) -> None:
        if isinstance(data, Domain):
            if groups is not None:
                msg = "give groups= to the domain (cx.Tabular(X, groups=…)), not to the explainer"
                raise InputError(msg)
            self.domain: Domain = data
        else:
            self.domain = Tabular(data, groups=groups)
        self.model = model
        self.options = Options().override(options)
        self.box = BlackBox(model, self.options.target)
        self._context = Context()  # masks and factorisations of a seed, made once
        self._boxes: dict[Any, BlackBox] = {}
        self._last_settings: tuple[Options, Settings] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what can be made again."""
        return {k: v for k, v in self.__dict__.items() if k not in REMADE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._context, self._boxes, self._last_settings = Context(), {}, None

    def prepare(
        self, case: Case, goals: Goals, options: Options, context: Context
    ) -> tuple[Recipe, Plan]:
        """Look at one instance and plan its run; every check that needs no model happens here."""
        if goals.rules and self.domain.names is not None:  # else instances differ in features
            goals.check_ranking(len(self.domain.names))
        nb = self.neighbourhood(case)
        asked = None
        if case.start is not None:
            own, given = nb.payload(), case.start.payload
            if json.dumps(own, default=str) != json.dumps(given, default=str):
                msg = "start= is an explanation of another instance; leave it out"
                raise InputError(msg)
            self.check_data(nb, case.start)
            asked = case.start.history
            if options.posterior == "auto" and case.start.sampler == "focused":
                options = replace(options, posterior="gp")  # a regression needs random pairs
        settings, why = self._decided(options, goals, nb)
        if case.start is not None:
            check_still_random(case.start.sampler, settings.sampler, settings.sampler_name)
        settings.prior.check(len(nb.names))
        recipe = self._recipe(nb, settings, context, asked)
        recipe.why = why
        return recipe, goals.plan(recipe, self.default_ceiling)

    def _decided(
        self, options: Options, goals: Goals, nb: Neighbourhood
    ) -> tuple[Settings, tuple[str, ...]]:
        """Settings with ``posterior="auto"`` decided, and why; nothing to say if it was not."""
        del goals, nb
        return self._settings(options), ()

    def begin(
        self, recipe: Recipe, plan: Plan, desk: Desk, options: Options, *, alone: bool, cohort: Any
    ) -> Run:
        """Return the generator of one run."""
        return run(
            recipe,
            plan,
            self._assembly(recipe, desk.box, options, cohort),
            batch_rows=desk.most_rows(recipe.neighbourhood.row_bytes),
            box=desk.box if alone else None,
            by=desk.box.token,
        )

    def _assembly(
        self, recipe: Recipe, box: BlackBox, options: Options, cohort: Any
    ) -> Callable[[State], Explanation]:
        """Return what makes an explanation of a state of this run."""
        nb = recipe.neighbourhood
        digest = self.digest(nb)
        instance = Instance(
            names=tuple(nb.names),
            feature_values=tuple(nb.values),
            labels=self._labels(nb),
            units=self._units(nb),
            label=nb.label,
            payload=nb.payload(),
            data_digest=None if digest is None else digest(),
        )
        settings = _told(options, self.default_sampler, cohort)
        notes = (*recipe.why, *self._notes(nb, options))

        def make(state: State) -> Explanation:
            full = state.asked.full
            return from_run(
                method=self.method,
                instance=instance,
                outputs=box.output_names(1 if full is None else len(full)),
                estimate=state.fitted,
                history=state.asked,
                level=state.level,
                seconds=state.seconds,
                stop_reason=state.stop_reason,
                converged=state.converged,
                settings={**settings, "sampler": recipe.settings.sampler_name},
                notes=notes,
            )

        return make

    def desk(self, options: Options, *, sharing: bool = False) -> Desk:
        """Return a desk for the model with these options."""
        return Desk(self._box(options.target), self.domain, options.batch_rows, sharing=sharing)

    def _box(self, target: Any) -> BlackBox:
        """Return the model with another target: the same one each time, which knows its speed."""
        if target is self.options.target:
            return self.box
        key = (type(target), target)  # 1 and True are not the same target
        try:
            found = self._boxes.get(key)
        except TypeError:  # not hashable
            return BlackBox(self.model, target)
        if found is None:
            found = self._boxes[key] = BlackBox(self.model, target)
        return found

    # -- the pieces ----------------------------------------------------------------------------

    @abstractmethod
    def _recipe(
        self, nb: Neighbourhood, settings: Settings, context: Context, asked: History | None
    ) -> Recipe: ...

    @abstractmethod
    def _notes(self, nb: Neighbourhood, options: Options) -> tuple[str, ...]: ...

    @staticmethod  # an explanation may hold it until labels are read: not the explainer, too
    @abstractmethod
    def _labels(nb: Neighbourhood) -> tuple[str, ...]: ...

    @staticmethod
    @abstractmethod
    def _units(nb: Neighbourhood) -> tuple[str, ...]: ...

    kind: ClassVar[Literal["coalitions", "perturbations"]]
    """What is made of the data of a domain."""

    def digest(self, nb: Neighbourhood) -> Callable[[], str] | None:
        """What names the data, for tables: made when it is asked for."""
        found = getattr(nb, "digest", None)
        return None if found is None else partial(found, self.kind)

    def check_data(self, nb: Neighbourhood, start: Explanation) -> None:
        """Raise if what is gone on from was made of other data."""
        data = self.digest(nb)
        if start.data_digest is not None and data is not None and data() != start.data_digest:
            msg = "this explanation was made of other data (rows, weights or bins) than the "
            msg += "explainer has now: what was asked does not fit. Begin anew"
            raise InputError(msg)

    def _settings(self, o: Options) -> Settings:
        """Settings of a call; made once as long as the options are the same."""
        last = self._last_settings
        if last is None or last[0] is not o:
            last = self._last_settings = (o, self._made_settings(o))
        return last[1]

    def _made_settings(self, o: Options) -> Settings:
        sampler, name = o.sampler_object(self.default_sampler)
        prior = o.prior
        if prior is None:
            prior = Prior() if o.recipe == "paper" else self.default_prior
        return Settings(
            sampler=sampler,
            sampler_name=name,
            posterior=o.posterior,
            prior=prior,
            seed=int(o.seed),
            level=float(o.level),
            link=o.link,
            noisy=o.noisy,
            recipe=o.recipe,
            robust=o.robust,
            features=o.features,
            selection=o.selection,
            background_uncertainty=o.background_uncertainty,
            kernel=o.kernel,
        )

    def neighbourhood(self, case: Case) -> Neighbourhood:
        """Look at one instance."""
        if case.cohort is None:
            return self.domain.at(case.x)
        if not isinstance(self.domain, Tabular):
            msg = "cohort= works with cx.Tabular only"
            raise InputError(msg)
        return self.domain.at(case.x, cohort=case.cohort)

    def _started(self, start: Start, options: Options) -> Explanation | None:
        if isinstance(start, Forecast):
            start = start.asked
        if start is None:
            return None
        if not isinstance(start, Explanation):
            msg = f"start must be a Forecast or an Explanation; got {type(start).__name__}"
            raise InputError(msg)
        self._check_same(start, options)
        return start

    def _check_same(self, e: Explanation, options: Options) -> None:
        names = self.domain.names  # None: `prepare` compares the instances themselves
        if e.method != self.method or (names is not None and e.names != tuple(names)):
            msg = f"this explanation is a {e.method} of other features; it cannot be gone on from"
            raise InputError(msg)
        for key, value in _fingerprint(options, self.default_sampler).items():
            if e.settings.get(key) != value:
                msg = f"this explanation was made with {key}={e.settings.get(key)!r}, "
                msg += f"now it is {value!r}: what was asked does not fit"
                raise InputError(msg)

    def _states(
        self, case: Case, goals: Goals, options: Options, *, looks: bool = False
    ) -> Iterator[State]:
        recipe, plan = self.prepare(case, goals, options, self._context)
        if looks and plan.fixed:  # somebody wants to watch
            plan = replace(plan, rules=(_Never(),))
        return self._drive(recipe, plan, options, case.cohort)

    def _last(self, case: Case, goals: Goals, options: Options) -> State:
        """Last state of a run that nobody watches."""
        recipe, plan = self.prepare(case, goals, options, self._context)
        if not plan.rules:
            box = self._box(options.target)
            make = self._assembly(recipe, box, options, case.cohort)
            most = most_rows(options.batch_rows, recipe.neighbourhood.row_bytes)
            last = at_once(recipe, plan, make, batch_rows=most, box=box)
            if last is not None:
                return last
        *_, last = self._drive(recipe, plan, options, case.cohort)
        return last

    def _drive(
        self, recipe: Recipe, plan: Plan, options: Options, cohort: Any = None
    ) -> Iterator[State]:
        desk = self.desk(options)
        return drive(self.begin(recipe, plan, desk, options, alone=True, cohort=cohort), desk)


def _fingerprint(o: Options, default_sampler: str) -> dict[str, Any]:
    """What must agree for two runs to share what was asked."""
    sampler, _ = o.sampler_object(default_sampler)
    target = o.target
    if target is not None and not isinstance(target, str):
        target = int(np.asarray(target).item())
    return {
        "target": target,
        "link": o.link,
        "noisy": o.noisy,
        "recipe": o.recipe,
        "paired": bool(sampler.paired),
        "kernel": repr(o.kernel),
    }


def _told(o: Options, default_sampler: str, cohort: Any) -> dict[str, Any]:
    """Settings of a run, as an explanation carries them."""
    own = {"seed": int(o.seed), "cohort": cohort, "options": o.kept()}
    return {**_fingerprint(o, default_sampler), **own}


class _Never:
    """A rule that never stops: it makes a fixed budget be looked at on the way."""

    precise = False

    def check(self, look: Any) -> str | None:
        """Go on."""
        del look
        return None
