"""`TabularNeighbourhood`: one row of a table and everything that can be made around it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable
from functools import cached_property as once
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from credex.cells import display, encode, plain
from credex.domains.base import Perturbations
from credex.domains.draws import blocks
from credex.domains.tabular.backend import Column
from credex.domains.tabular.bins import number_texts
from credex.domains.tabular.coalitions import distinct_rows
from credex.domains.tabular.perturbed import TabularRows
from credex.domains.tabular.table import Table
from credex.domains.tabular.training import Background, Population
from credex.errors import InputError
from credex.typing import Design, Floats, Ints, Masks, Native

if TYPE_CHECKING:
    from credex.domains.tabular.tabular import Tabular

__all__ = ["TabularNeighbourhood"]

TOGETHER, SHORT = 4, 64
"""Rows that are compared in one go, and how long they may be for that."""


class TabularNeighbourhood:
    """What can be switched off in one row, and how. Made by `Tabular.at`.

    Attributes
    ----------
    names
        d feature names.
    label
        Index label of the instance, or ``None``.
    row_bytes
        About eight bytes a column.
    """

    by_masks = False  # a perturbed row has no complement
    removal = ""  # the background's own note says it
    form = None  # rows of one table always stack

    def __init__(self, domain: Tabular, population: Population, x: Table, label: Any) -> None:
        self._domain = domain
        self._population = population
        self._x = x
        self.label: Any = label
        self.names: tuple[str, ...] = domain.names
        self.row_bytes = domain.row_bytes

    # ---- what it is -------------------------------------------------------------------------

    @once
    def values(self) -> tuple[object, ...]:
        """Each feature's value for people to read; a group is one text, missing is ``None``."""
        cells = [plain(cell) for cell in self._x.first_row()]
        if not self._domain.grouped:  # then a feature is a column
            return tuple(cells)
        names = self._x.names
        return tuple(
            cells[columns[0]]
            if feature not in self._domain.grouped
            else ", ".join(f"{names[j]}={display(cells[j])}" for j in columns)
            for feature, columns in enumerate(self._domain.members)
        )

    def instance_inputs(self) -> Native:
        """Return the instance as one row."""
        return self._x.native()

    def payload(self) -> dict[str, Any]:
        """Return the instance as JSON-safe values; `Tabular.restore` reads it back exactly."""
        cells = self._x.first_row()
        if not all(type(value) is float for value in cells) or not math.isfinite(sum(cells)):
            cells = [self._encoded(j, value) for j, value in enumerate(cells)]
        try:
            label = encode(self.label)
        except TypeError:
            label = str(self.label)
        return {"values": cells, "label": label}

    def _encoded(self, j: int, value: Any) -> Any:
        if type(value) is float and math.isfinite(value):
            return value
        x = self._x
        try:
            cell = encode(value)
        except TypeError:
            code = self._domain.code_of(j, value)
            return {"unkept": repr(value)} if code is None else {"row": code}
        if x.kinds[j] == "date" and isinstance(cell, dict):
            ticks = x.form.ticks(x.columns[j])
            if ticks is not None:
                cell["ticks"] = ticks
        return cell

    def digest(self, kind: Literal["coalitions", "perturbations"]) -> str:
        """Name of the data that coalitions, or perturbations, are made of."""
        if kind == "coalitions":
            return self._population.background_digest
        return self._population.digest(self._domain.bins, self._domain.around)

    # ---- coalitions (BayesSHAP) -------------------------------------------------------------

    @property
    def _background(self) -> Background:
        return self._population.background

    @once
    def _base(self) -> Table:
        """The background in the dtypes it has next to the instance."""
        return self._background.table.widened(self._x)

    @once
    def _differs(self) -> Masks:
        """``(B, d)`` where a background row differs from the instance."""
        columns = self._background.likeness.differs(self._x)
        if not self._domain.grouped:
            return columns
        return np.column_stack(
            [columns[:, list(members)].any(axis=1) for members in self._domain.members]
        )

    @once
    def active(self) -> Masks:
        """``(d,)``: the feature differs from at least one background row (NaN equals NaN)."""
        return np.asarray(self._differs.any(axis=0))

    @property
    def background_weights(self) -> Floats:
        """``(B,)`` weights of the background rows, summing to 1."""
        return self._background.summary.weights

    @property
    def background_note(self) -> str:
        """How many rows stand for how many."""
        return self._background.summary.note

    @property
    def base_key(self) -> Hashable:
        """Equal for neighbourhoods with the same ``base_inputs``."""
        base = self._base
        wider = () if base is self._background.table else tuple(str(c.dtype) for c in base.columns)
        return (*self._domain.token, self._population.key, wider)

    def base_inputs(self) -> Native:
        """Return the B background rows."""
        return self._base.native()

    def coalition_inputs(self, masks: Masks, *, merge: bool = True) -> tuple[Native, Ints | None]:
        """Rows for coalitions of features.

        Parameters
        ----------
        masks
            ``(n, d)`` booleans over all d features.
        merge
            Make equal rows once. Not for noisy models, whose answers to equal rows differ.

        Returns
        -------
        rows, index
            Model rows, and ``(n, B)`` positions into them of each mask on each background row.
            ``None`` means n·B rows in mask-major order. Equal rows are made once where that is
            sure to pay (see `credex.domains.tabular.coalitions`).
        """
        masks = np.asarray(masks, dtype=np.bool_)
        if masks.ndim != 2 or masks.shape[1] != len(self.names):
            raise InputError(
                f"masks have shape {masks.shape}; pass (n, {len(self.names)}), one column for "
                "each feature"
            )
        few = distinct_rows(masks, self._differs) if merge else None
        if few is None:
            return self._base.cross(self._x, self._over_columns(masks)), None
        return self._base.choose(self._x, self._over_columns(few.masks), few.positions), few.index

    def _over_columns(self, masks: Masks) -> Masks:
        return masks if not self._domain.grouped else masks[:, self._domain.feature_of]

    # ---- perturbations (BayesLIME) ----------------------------------------------------------

    @property
    def _single_ordered(self) -> tuple[int, ...]:
        """Features that are one ordered column with at least one known training value."""
        domain = self._domain
        return tuple(
            feature
            for feature, columns in enumerate(domain.members)
            if feature not in domain.grouped
            and domain.roles[columns[0]] in ("number", "date")
            and self._population.marginal(columns[0]).known
        )

    @once
    def _continuous(self) -> tuple[int, ...]:
        """Features whose design column is a number; all must be known in the instance."""
        if self._domain.bins is not None:
            return ()
        for feature in self._single_ordered:
            if not np.isfinite(self._x.floats(self._domain.members[feature][0])[0]):
                raise InputError(
                    f"column {self.names[feature]!r} is missing (NaN) or infinite in the instance, "
                    "which has no place on a continuous scale; use bins='quartile', where missing "
                    "is a bin of its own, or fill it in"
                )
        return self._single_ordered

    @once
    def _moving(self) -> tuple[int, ...]:
        """Features that take a normal step instead of a training value."""
        if self._domain.around == "training":
            return self._continuous
        return tuple(
            feature
            for feature in self._single_ordered
            if np.isfinite(self._x.floats(self._domain.members[feature][0])[0])
        )

    @once
    def _at(self) -> Ints:
        """``(p,)`` bin or category number of the instance."""
        return self._population.locate(self._x)

    @once
    def design_at(self) -> Floats:
        """``(d,)`` design row of the instance: 1 for binary features, else its scaled value."""
        if self._domain.bins is not None:
            return self._domain.ones.copy()
        out = np.ones(len(self.names))
        for feature in self._continuous:
            j = self._domain.members[feature][0]
            marginal = self._population.marginal(j)
            out[feature] = (self._x.floats(j)[0] - marginal.mean) / marginal.sd
        return out

    def chance(self, feature: int) -> float:
        """Probability that a perturbation has the instance's value of a binary feature."""
        if feature in self._moving:
            return 0.5  # neither never nor always
        columns, population = list(self._domain.members[feature]), self._population
        same = (population.codes[:, columns] == self._at[columns]).all(axis=1)
        weights = population.weights
        return float(same.mean() if weights is None else same @ weights / weights.sum())

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per standard deviation"`` for continuous features, else ``"per same bin"``."""
        if self._domain.bins is not None:
            return ("per same bin",) * len(self.names)
        numbers = set(self._continuous)
        return tuple(
            "per standard deviation" if feature in numbers else "per same bin"
            for feature in range(len(self.names))
        )

    @once
    def feature_labels(self) -> tuple[str, ...]:
        """What a 1 in the design says: ``29 < age ≤ 41``, ``sex = female``, or just the name."""
        out = []
        if not self._domain.grouped and not self._continuous:
            labels, bins = self._population.labels, enumerate(self._at.tolist())
            return tuple(labels.get(key) or self._condition(key[0]) for key in bins)
        for feature, columns in enumerate(self._domain.members):
            if feature in self._continuous:
                out.append(self.names[feature])
            elif feature in self._domain.grouped:
                parts = ", ".join(self._condition(j) for j in columns)
                out.append(f"{self.names[feature]}: {parts}")
            else:
                out.append(self._condition(columns[0]))
        return tuple(out)

    def _condition(self, j: int) -> str:
        name, bins = self._x.names[j], self._population.marginal(j).bins
        if bins is not None:
            labels, key = self._population.labels, (j, int(self._at[j]))
            if key not in labels:  # few bins, many instances
                labels[key] = bins.label(key[1], name, self._texts(j))
            return labels[key]
        value = plain(self._x.objects(j)[0])
        return f"{name} missing" if value is None else f"{name} = {display(value)}"

    def _texts(self, j: int) -> Callable[[Floats], list[str]]:
        """How the edges of column j's bins are written."""
        if self._domain.roles[j] == "number":
            return number_texts
        return lambda edges: _date_texts(self._x, j, edges)

    def perturb(self, seed: int, start: int, stop: int) -> Perturbations:
        """Perturbations ``start`` to ``stop`` of the stream that belongs to ``seed``.

        Draw i depends on the seed, the number of features and i only, never on the instance:
        slices of one stream agree, and a batch shares them.
        """
        domain, population = self._domain, self._population
        draws = population.draw(seed, start, stop)
        match = _equal(draws.codes, self._at)
        moved: dict[int, Column] = {}
        numbers: dict[int, Floats] = {}
        shared = domain.around == "training"
        if (domain.bins is None or not shared) and self._moving:
            steps = blocks(seed, "normal", start, stop, len(self.names))
            for feature in self._moving:
                j = domain.members[feature][0]
                marginal = population.marginal(j)
                own = domain.around == "instance"
                middle = self._x.floats(j)[0] if own else marginal.mean
                values = middle + marginal.sd * steps[:, feature]
                moved[j] = population.table.column_from_floats(j, values)
                # Read back: integers were rounded, and the design speaks of what the model sees.
                numbers[j] = population.table.form.floats(moved[j])
                if marginal.bins is not None:
                    match[:, j] = marginal.bins.index(numbers[j]) == self._at[j]
        design: Design = match
        if domain.grouped:
            design = np.column_stack(
                [match[:, list(members)].all(axis=1) for members in domain.members]
            )
        if domain.bins is None and self._continuous:
            design = design.astype(np.float64)
            for feature in self._continuous:
                j = domain.members[feature][0]
                marginal = population.marginal(j)
                design[:, feature] = (numbers[j] - marginal.mean) / marginal.sd
        key = (
            (*domain.token, "training", population.key, seed, range(start, stop))
            if shared
            else None
        )
        rows = TabularRows(population, draws, self._at, moved, numbers)
        return Perturbations(design, key, rows, partial(rows.unique, self._x))


def _equal(codes: NDArray[Any], at: Ints) -> Masks:
    """``codes == at`` for ``codes (n, p)`` and ``at (p,)``, several rows at a time.

    NumPy takes longer to begin a row than to compare a dozen values.
    """
    n, p = codes.shape
    one = at.astype(codes.dtype)  # else numpy casts all of them
    if n % TOGETHER or p > SHORT:
        return np.asarray(codes == one)
    both: Masks = codes.reshape(-1, TOGETHER * p) == np.concatenate((one,) * TOGETHER)
    return both.reshape(n, p)


def _date_texts(x: Table, j: int, edges: Floats) -> list[str]:
    """Bin edges of a date column as dates; rounded down, which changes no bin."""
    values = [plain(value) for value in x.form.objects(x.column_from_floats(j, np.floor(edges)))]
    moments = [value for value in values if isinstance(value, dt.datetime)]
    if len(moments) == len(values):
        times = [value.time() for value in moments]
        form = "%Y-%m-%d %H:%M:%S" if any(t.second or t.microsecond for t in times) else "%F %H:%M"
        form = form if any(t != dt.time() for t in times) else "%Y-%m-%d"
        return [value.strftime(form.replace("%F", "%Y-%m-%d")) for value in moments]
    return [str(value) for value in values]
