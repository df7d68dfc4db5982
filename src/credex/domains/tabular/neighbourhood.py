"""`TabularNeighbourhood`: one row of a table, its coalitions and its perturbations."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Literal

import numpy as np

from credex.cells import display, encode, plain
from credex.domains.draws import blocks
from credex.domains.tabular.backend import Column
from credex.domains.tabular.coalitions import compose, compose_all, distinct_rows
from credex.domains.tabular.factorize import identity
from credex.domains.tabular.marginals import binned
from credex.domains.tabular.perturbed import Perturbations
from credex.domains.tabular.table import Table
from credex.domains.tabular.training import Training
from credex.errors import InputError
from credex.typing import Design, Floats, Ints, Masks, Native

__all__ = ["TabularNeighbourhood"]


class TabularNeighbourhood:
    """One row of a table, and the model inputs made from it. Made by `Tabular.at`.

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

    def __init__(self, training: Training, x: Table, label: Any) -> None:
        self._training = training
        self._features = training.features
        self._x = x
        self.label: Any = label
        self.names: tuple[str, ...] = training.features.names
        self.row_bytes = 8 * x.n_columns

    @cached_property
    def values(self) -> tuple[object, ...]:
        """Each feature's value for people to read; a group is one text, missing is ``None``."""
        cells = [plain(cell) for cell in self._x.first_row()]
        names = self._x.names
        return tuple(
            cells[columns[0]]
            if feature not in self._features.grouped
            else ", ".join(f"{names[j]}={display(cells[j])}" for j in columns)
            for feature, columns in enumerate(self._features.members)
        )

    def instance_inputs(self) -> Native:
        """Return the instance as one row."""
        return self._x.take(np.zeros(1, dtype=np.int64)).frame()

    def payload(self) -> dict[str, Any]:
        """Return the instance as JSON-safe values; `Tabular.restore` reads it back exactly."""
        try:
            label = encode(self.label)
        except TypeError:
            label = str(self.label)
        cells = [self._encoded(j, value) for j, value in enumerate(self._x.first_row())]
        return {"values": cells, "label": label}

    def _encoded(self, j: int, value: Any) -> Any:
        try:
            cell = encode(value)
        except TypeError:
            row = self._training.find(j, value)
            return {"unkept": repr(value)} if row is None else {"row": row}
        if self._x.kinds[j] == "date" and isinstance(cell, dict):
            ticks = self._x.backend.ticks(self._x.columns[j])
            if ticks is not None:
                cell["ticks"] = int(ticks[0])
        return cell

    def digest(self, kind: Literal["coalitions", "perturbations"]) -> str:
        """Digest of the data that coalitions, or perturbations, are made of."""
        training = self._training
        return training.background_digest if kind == "coalitions" else training.digest

    # ---- coalitions (BayesSHAP) -------------------------------------------------------------

    @cached_property
    def _stacked(self) -> Table:
        """The B background rows and then the instance, in dtypes that hold both."""
        return self._training.background.append(self._x)

    @cached_property
    def _differs(self) -> Masks:
        """``(B, d)`` where a background row differs from the instance (NaN equals NaN)."""
        values = identity(self._stacked)
        return ~self._features.all_of(values[:-1] == values[-1])

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: the feature differs from at least one background row."""
        return np.asarray(self._differs.any(axis=0))

    @property
    def background_weights(self) -> Floats:
        """``(B,)`` weights of the background rows, summing to 1."""
        return self._training.summary.weights

    @property
    def background_note(self) -> str:
        """How many rows stand for how many."""
        return self._training.summary.note

    @property
    def base_key(self) -> Hashable:
        """Equal for neighbourhoods with the same ``base_inputs``."""
        dtypes = tuple(str(column.dtype) for column in self._stacked.columns)
        return (*self._training.key, dtypes)

    def base_inputs(self) -> Native:
        """Return the B background rows."""
        return self._stacked.take(np.arange(len(self.background_weights))).frame()

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
        merged = distinct_rows(masks, self._differs) if merge else None
        if merged is None:
            return compose_all(self._stacked, masks[:, self._features.feature_of]), None
        masks, rows, index = merged
        return compose(self._stacked, masks[:, self._features.feature_of], rows), index

    # ---- perturbations (BayesLIME) ----------------------------------------------------------

    @cached_property
    def _row(self) -> list[Any]:
        """The instance's p values: floats in ordered columns, else Python objects."""
        cells = self._x.first_row()
        for j, ordered in enumerate(self._features.ordered):
            if ordered:
                number = isinstance(cells[j], int | float)
                cells[j] = float(cells[j]) if number else float(self._x.floats(j)[0])
        return cells

    @cached_property
    def _codes(self) -> Ints:
        """``(p,)`` bin or category of the instance."""
        codes = [self._training.marginal(j).code(value) for j, value in enumerate(self._row)]
        return np.array(codes, dtype=np.int64)

    @cached_property
    def _continuous(self) -> dict[int, int]:
        """Column of each feature whose design column is a number; all must be known."""
        if self._features.bins is not None:
            return {}
        for feature, j in self._training.scalable.items():
            if not np.isfinite(self._row[j]):
                raise InputError(
                    f"column {self.names[feature]!r} is missing (NaN) or infinite in the instance, "
                    "which has no place on a continuous scale; use bins='quartile', where missing "
                    "is a bin of its own, or fill it in"
                )
        return self._training.scalable

    @cached_property
    def _moving(self) -> dict[int, int]:
        """Column of each feature that takes a normal step instead of a training value."""
        if self._features.around == "training":
            return self._continuous
        return {f: j for f, j in self._training.scalable.items() if np.isfinite(self._row[j])}

    @cached_property
    def design_at(self) -> Floats:
        """``(d,)`` design row of the instance: 1 for binary features, else its scaled value."""
        out = np.ones(len(self.names))
        for feature, j in self._continuous.items():
            out[feature] = self._training.marginal(j).scaled(self._row[j])
        return out

    def chance(self, feature: int) -> float:
        """Probability that a perturbation has the instance's value of a binary feature."""
        if feature in self._moving:
            return 0.5  # neither never nor always
        columns, weights = list(self._features.members[feature]), self._training.weights
        same = (self._training.codes[:, columns] == self._codes[columns]).all(axis=1)
        return float(same.mean() if weights is None else same @ weights / weights.sum())

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per standard deviation"`` for continuous features, else ``"per same bin"``."""
        return tuple(
            "per standard deviation" if feature in self._continuous else "per same bin"
            for feature in range(len(self.names))
        )

    @cached_property
    def feature_labels(self) -> tuple[str, ...]:
        """What a 1 in the design says: ``29 < age ≤ 41``, ``sex = female``, or just the name."""
        out = []
        for feature, columns in enumerate(self._features.members):
            name = self.names[feature]
            if feature in self._continuous:
                out.append(name)
                continue
            conditions = ", ".join(self._condition(j) for j in columns)
            grouped = feature in self._features.grouped
            out.append(f"{name}: {conditions}" if grouped else conditions)
        return tuple(out)

    def _condition(self, j: int) -> str:
        labels = self._training.bin_labels(j)
        if labels is not None:
            return labels[int(self._codes[j])]
        name, value = self._x.names[j], plain(self._row[j])
        return f"{name} missing" if value is None else f"{name} = {display(value)}"

    def perturb(self, seed: int, start: int, stop: int) -> Perturbations:
        """Perturbations ``start`` to ``stop`` of the stream that belongs to ``seed``.

        Draw i depends on the seed, the number of features and i only, never on the instance:
        slices of one stream agree, and a batch shares them.
        """
        training, features = self._training, self._features
        table = training.table
        rows, codes = training.draw(seed, start, stop)
        match = codes == self._codes.astype(codes.dtype)
        moved: dict[int, Column] = {}
        scaled: dict[int, Floats] = {}
        if self._moving:
            steps = blocks(seed, "normal", start, stop, len(self.names))
            for feature, j in self._moving.items():
                marginal = training.marginal(j)
                middle = self._row[j] if features.around == "instance" else marginal.mean
                values = middle + marginal.sd * steps[:, feature]
                moved[j] = table.backend.from_floats(table.columns[j], values)
                # Read back: integers were rounded, and the design speaks of what the model sees.
                values = table.backend.floats(moved[j])
                scaled[feature] = marginal.scaled(values)
                if marginal.edges is not None:
                    match[:, j] = binned(values, marginal.edges) == self._codes[j]
        design: Design = features.all_of(match)
        if self._continuous:
            design = design.astype(np.float64)
            for feature in self._continuous:
                design[:, feature] = scaled[feature]
        shared = features.around == "training"
        key = (*training.key, seed, range(start, stop)) if shared else None
        return Perturbations(design, key, training, rows, self._codes, moved)
