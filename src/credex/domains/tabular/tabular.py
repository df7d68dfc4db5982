"""`Tabular`: rows of a table, numpy, pandas or polars, of any dtype."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import signature
from typing import Any, Literal, ParamSpec

import numpy as np

from credex.cells import decode, plain
from credex.domains.tabular.columns import listed
from credex.domains.tabular.neighbourhood import TabularNeighbourhood
from credex.domains.tabular.table import Row, Table, read_batch, read_row, to_table, unmasked
from credex.domains.tabular.training import Features, Training
from credex.errors import InputError
from credex.typing import Floats, Ints, Native

__all__ = ["Tabular"]

P = ParamSpec("P")


def _check_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Turn an unknown keyword into an `InputError` that lists the known ones."""
    known = list(signature(init).parameters)[1:]

    @wraps(init)
    def checked(*args: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise InputError(
                    f"Tabular has no option {name!r}{hint}; there are: {', '.join(known[1:])}"
                )
        init(*args, **options)

    return checked


class Tabular:
    """Domain of table rows: training data, and which columns make up which feature.

    Parameters
    ----------
    data
        Training rows: a 2-D numpy array, a pandas DataFrame or a polars DataFrame. They are
        copied. Column names, order, dtypes and index reach the model unchanged. Masked entries of
        a masked array are missing values.
    background
        Largest number of rows that stand in for a switched-off feature (BayesSHAP), or ``"all"``.
        They are real rows: those nearest to k-means centroids for numbers, a sample otherwise.
    weights
        ``(n,)`` non-negative weights of the training rows.
    groups
        Columns that move together, by the name of the group.
    categorical
        Columns to treat as categories although they hold numbers: names, or labels, or positions.
    bins
        ``"quartile"``, ``"decile"`` or a number of bins: BayesLIME asks whether a number falls into
        the instance's bin. ``None``: numbers and dates stay continuous (inside a group they are
        compared by quartile).
    around
        ``"training"`` draws perturbations from the training data; ``"instance"`` moves numbers
        from the instance by normal steps of one training standard deviation (a number that is
        missing there has nowhere to move from and is drawn from the training data).
    missing
        ``None`` allows missing values where the training data have them, ``True`` everywhere (an
        integer column becomes float where it has to), ``False`` nowhere.
    cohort
        ``(n,)`` labels of the training rows; ``at(x, cohort=label)`` then uses those rows only.

    Examples
    --------
    >>> import numpy as np
    >>> domain = Tabular(np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 7.0]]))
    >>> domain.names, domain.summary
    (('x0', 'x1'), 'all 3 rows')
    >>> domain.at([1.0, 5.0]).active
    array([ True,  True])
    """

    @_check_keywords
    def __init__(
        self,
        data: Any,
        *,
        background: int | Literal["all"] = "all",
        weights: Any = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
        categorical: Sequence[str | int] | None = None,
        bins: Literal["quartile", "decile"] | int | None = "quartile",
        around: Literal["training", "instance"] = "training",
        missing: bool | None = None,
        cohort: Any = None,
    ) -> None:
        if around not in ("training", "instance"):
            raise InputError(f"around is {around!r}; pass 'training' or 'instance'")
        if missing not in (None, True, False):
            raise InputError(f"missing is {missing!r}; pass None, True or False")
        self.around: Literal["training", "instance"] = around
        self._max_background = _background_size(background)
        count = _bin_count(bins)
        self._table = Table.of(data)
        self._features = _features(self._table, groups, categorical, count, around)
        self.names: tuple[str, ...] = self._features.names
        self._missing = missing
        if missing is False and self._with_missing:
            gaps = [self.column_names[j] for j in sorted(self._with_missing)]
            raise InputError(
                f"missing=False, but the training data miss values in {listed(gaps)}; fill them "
                "in, or leave missing out"
            )
        self._weights = _weights(weights, self._table.n_rows)
        self._token = uuid.uuid4().hex
        self._training = self._part(None, None)
        cohorts = {} if cohort is None else _cohort_rows(cohort, self._table.n_rows)
        self._cohorts = {label: self._part(rows, label) for label, rows in cohorts.items()}

    @cached_property
    def _with_missing(self) -> frozenset[int]:
        """Columns in which a training row misses a value."""
        return frozenset(j for j in range(self._table.n_columns) if self._table.has_missing(j))

    def _may_miss(self, j: int) -> bool:
        """Whether column j of an instance may be missing."""
        return j in self._with_missing if self._missing is None else self._missing

    def _part(self, rows: Ints | None, label: Any) -> Training:
        """Return all training rows, or those of a cohort."""
        weights = self._weights
        if rows is not None and weights is not None:
            weights = weights[rows]
            if not weights.sum() > 0:
                raise InputError(
                    f"all weights of cohort {label!r} are zero; drop the cohort or weigh its rows"
                )
        key = ("tabular", self._token, None if rows is None else ("cohort", label))
        return Training(self._table, self._features, weights, rows, self._max_background, key)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The p column names for display."""
        return self._table.names

    @property
    def summary(self) -> str:
        """How many background rows stand for how many training rows."""
        return self._training.summary.note

    def __repr__(self) -> str:
        table = self._table
        return f"Tabular({table.n_rows} rows, {len(self.names)} features: {listed(self.names)})"

    def at(self, x: Any, *, cohort: Any = None) -> TabularNeighbourhood:
        """Return the neighbourhood of one instance.

        Parameters
        ----------
        x
            One row: a 1-D array, list or tuple (by position), a pandas Series or dict (by name, in
            any order), a frame of one row, a ``(1, p)`` array, or a row from `split`.
        cohort
            Use the training rows with this label only.

        Raises
        ------
        InputError
            If columns or values do not fit the training data; the message names them.
        """
        row = read_row(self._table, x)
        instance = to_table(self._table, row, self._may_miss)
        training = self._training if cohort is None else self._cohort(cohort)
        return TabularNeighbourhood(training, instance, row.label)

    def at_background(self) -> TabularNeighbourhood:
        """Return the neighbourhood of the first background row."""
        return TabularNeighbourhood(self._training, self._training.first_row, None)

    def _cohort(self, cohort: Any) -> Training:
        try:
            return self._cohorts[plain(cohort)]
        except (KeyError, TypeError):
            known = listed(list(self._cohorts))
            if not known:
                known = "none: give Tabular(cohort=) one label for each training row"
            raise InputError(f"no cohort {cohort!r}; the domain has {known}") from None

    def split(self, X: Any) -> list[Any]:
        """Split a batch into rows for `at`, with their index labels.

        A wrong set of columns is an `InputError` here; a bad value fails only in ``at`` of its row.
        """
        return read_batch(self._table, X)

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack blocks of model inputs; dtypes, columns and index style are kept."""
        blocks = list(inputs)
        if not blocks:
            raise InputError("nothing to concatenate; pass at least one block of inputs")
        return blocks[0] if len(blocks) == 1 else self._table.backend.concat(blocks)

    def restore(self, payload: Any) -> Row:
        """Turn `TabularNeighbourhood.payload` back into an instance for `at`."""
        try:
            cells, label = list(payload["values"]), decode(payload["label"])
        except (TypeError, KeyError):
            raise InputError(
                f"this is not a stored instance of a table: {payload!r:.80}; pass what payload() "
                "returned"
            ) from None
        if len(cells) != self._table.n_columns:
            raise InputError(
                f"the stored instance has {len(cells)} values, the training data "
                f"{self._table.n_columns} columns ({listed(self.column_names)}); use the domain it "
                "was made with"
            )
        return Row([self._restored(j, cell) for j, cell in enumerate(cells)], 0, label)

    def _restored(self, j: int, cell: Any) -> Any:
        """One stored value as a column of one row (or a list of one)."""
        table = self._table
        if not isinstance(cell, dict):
            return [cell]
        if "unkept" in cell:
            raise InputError(
                f"column {table.names[j]!r}: {cell['unkept']} is of a type that explanations do "
                "not keep, so that they cannot be gone on from; convert the column to text, "
                "numbers or dates"
            )
        if "ticks" in cell:
            return table.backend.from_ticks(table.columns[j], np.array([cell["ticks"]]))
        if "row" in cell:
            return table.columns[j][[cell["row"]]]
        return [decode(cell)]


def _background_size(background: Any) -> int | None:
    if isinstance(background, str) and background == "all":
        return None
    if _is_whole(background) and background >= 1:
        return int(background)
    raise InputError(
        f"background is {background!r}; pass the most rows it may have, an integer ≥ 1, or 'all'"
    )


def _bin_count(bins: Any) -> int | None:
    """Return how many bins are asked for: 4, 10, an integer ≥ 2, or ``None`` for none."""
    if bins is None:
        return None
    if isinstance(bins, str) and bins in ("quartile", "decile"):
        return {"quartile": 4, "decile": 10}[bins]
    if _is_whole(bins) and 2 <= bins <= 1000:
        return int(bins)
    raise InputError(
        f"bins is {bins!r}; pass 'quartile', 'decile', a number of bins from 2 to 1000, or None "
        "to leave numbers continuous"
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _features(
    table: Table,
    groups: Any,
    categorical: Any,
    bins: int | None,
    around: Literal["training", "instance"],
) -> Features:
    """Return which columns make up which feature, and how each is treated."""
    group_of = _groups(table, groups)
    members: dict[tuple[bool, Any], list[int]] = {}  # keys: (is it a group?, name or column)
    for j in range(table.n_columns):
        members.setdefault((j in group_of, group_of.get(j, j)), []).append(j)
    names = tuple(str(key) if group else table.names[key] for group, key in members)
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise InputError(
            f"the group name {repeated[0]!r} is also a column or another group; choose another"
        )
    grouped = frozenset(i for i, (group, _) in enumerate(members) if group)
    if isinstance(categorical, str):
        raise InputError(f"categorical is the text {categorical!r}; pass a list: [{categorical!r}]")
    roles = list(table.kinds)
    for label in categorical if categorical is not None else ():
        roles[_position(table, label, "categorical")] = "category"
    return Features(names, tuple(map(tuple, members.values())), grouped, roles, bins, around)


def _groups(table: Table, groups: Any) -> dict[int, str]:
    """Name of the group of each grouped column."""
    if groups is not None and not isinstance(groups, Mapping):
        raise InputError(
            f"groups is a {type(groups).__name__}; pass a dict of name: list of columns"
        )
    out: dict[int, str] = {}
    for name, columns in (groups or {}).items():
        if isinstance(columns, str) or len(columns) == 0:
            raise InputError(
                f"group {name!r} is {columns!r}; pass a list of one or more column names"
            )
        for column in columns:
            j = _position(table, column, f"group {name!r}")
            if j in out:
                raise InputError(
                    f"column {table.names[j]!r} is named twice in groups ({out[j]!r}, {name!r}); "
                    "a column can move with one group only"
                )
            out[j] = name
    return out


def _position(table: Table, column: Any, where: str) -> int:
    """Position of a column given by its label, its displayed name or its position."""
    for labels in (table.backend.labels, table.names):
        if column in labels:
            return labels.index(column)
    if _is_whole(column) and -table.n_columns <= column < table.n_columns:
        return int(column) % table.n_columns
    raise InputError(
        f"{where} names the column {column!r}, which is not there; the columns are "
        f"{listed(table.names)}"
    )


def _weights(weights: Any, n: int) -> Floats | None:
    """``(n,)`` finite, non-negative, not all zero; ``None`` stays ``None``."""
    if weights is None:
        return None
    try:
        out = np.array(unmasked(weights), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"weights are not numbers: {weights!r:.80}; pass {n} numbers") from None
    if out.shape != (n,):
        raise InputError(f"weights have shape {out.shape}; pass one for each of the {n} rows")
    if not np.isfinite(out).all() or (out < 0).any() or not out.sum() > 0:
        raise InputError("weights must be finite, not negative and not all zero")
    return out


def _cohort_rows(cohort: Any, n: int) -> dict[Any, Ints]:
    """Positions of each cohort's rows, by label, in order of appearance."""
    try:
        labels = [plain(label) for label in cohort]
    except TypeError:
        raise InputError(f"cohort is {cohort!r}; pass one label for each training row") from None
    if isinstance(cohort, str) or len(labels) != n:
        raise InputError(f"cohort has {len(labels)} labels; pass one for each of the {n} rows")
    rows: dict[Any, list[int]] = {}
    for i, label in enumerate(labels):
        if label is None:
            raise InputError(f"cohort is missing in row {i}; give every training row a label")
        rows.setdefault(label, []).append(i)
    return {label: np.array(found, dtype=np.int64) for label, found in rows.items()}
