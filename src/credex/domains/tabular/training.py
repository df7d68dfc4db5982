"""`Training`: training rows (all, or one cohort) as BayesSHAP and BayesLIME need them.

BayesSHAP needs a background: few rows that stand for many. They are rows of the data, never
averages, so that every dtype survives and no model sees a row that could not exist. BayesLIME needs
the distribution of each column: quantile bins of an ordered one, else categories.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from credex.cells import is_missing, plain
from credex.domains.tabular.columns import MISSING, Kind, Marginal, Ranks, bin_labels, number_texts
from credex.domains.tabular.summary import few_rows
from credex.domains.tabular.table import Table, take_cells
from credex.seeds import Purpose, blocks, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["RARE_SHARE", "Features", "Summary", "Training", "summarise", "unique_rows"]

T = TypeVar("T")

RARE_SHARE = 0.1
"""Share of perturbations that have rare values, of all features that have one.

Other features lose a tenth of their effective number of rows.
"""

_MAX_DISTINCT = 256  # a column with more distinct values is not searched for repeated rows
_STRETCH = 65_536  # rows whose functions are made at once

MAX_RANKED = 20_000
"""Rows among which ranks are taken: of a larger background, a random sample is ranked.

The standard error of a rank is then 0.0035 at most; similarity has gone at 0.5.
"""

MAX_DEGREE = 4
"""Functions of each column whose means a sample of background rows is calibrated to."""


@dataclass(frozen=True, eq=False)
class Features:
    """The d features of a table: single columns, and groups in the place of their first column.

    ``members`` are the positions of each feature's columns, ``grouped`` the features that are
    groups, ``roles`` says how each of the p columns is treated. ``bins`` (``None``: numbers stay
    continuous) and ``around`` are those of `Tabular`.
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    grouped: frozenset[int]
    roles: Sequence[Kind]
    bins: int | None
    around: Literal["training", "instance"]

    @cached_property
    def ordered(self) -> list[bool]:
        """Whether each column holds numbers or dates."""
        return [role in ("number", "date") for role in self.roles]

    @cached_property
    def feature_of(self) -> Ints:
        """``(p,)`` feature of each column."""
        out = np.empty(len(self.roles), dtype=np.int64)
        for i, columns in enumerate(self.members):
            out[list(columns)] = i
        return out

    def columns_of(self, masks: Masks) -> Masks:
        """``(n, p)`` columns of the features in ``(n, d)`` masks, in memory column by column."""
        return masks[:, self.feature_of] if self.grouped else np.asfortranarray(masks)

    def all_of(self, columns: Masks) -> Masks:
        """``(n, d)`` features of which all columns are true in ``(n, p)``."""
        if not self.grouped:
            return columns
        return np.column_stack([columns[:, list(m)].all(axis=1) for m in self.members])


@dataclass(eq=False)
class Training:
    """Training rows with weights; what is derived from them is made when it is first read.

    ``whole`` holds all rows of the domain, ``rows`` the ``(N,)`` positions of the cohort's
    (``None``: all), ``weights`` their ``(N,)`` weights (``None``: equal). ``key`` tells these rows
    from those of other cohorts and domains.
    """

    whole: Table
    features: Features
    weights: Floats | None
    rows: Ints | None
    max_background: int | None
    key: tuple[Hashable, ...]
    _kept: dict[str, tuple[Hashable, Any]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what was kept, which is quick to make again."""
        return {**self.__dict__, "_kept": {}}

    def kept(self, what: str, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned for the key last time; instances share it, unchanged."""
        known = self._kept.get(what)
        if known is None or known[0] != key:
            known = self._kept[what] = key, make()
        found: T = known[1]
        return found

    @cached_property
    def table(self) -> Table:
        """The N rows."""
        return self.whole if self.rows is None else self.whole.take(self.rows)

    @property
    def bins(self) -> int:
        """Number of bins; numbers inside a group are always compared by bin."""
        return self.features.bins or 4

    @cached_property
    def digest(self) -> str:
        """Digest of the rows, weights and settings that perturbations are drawn with."""
        f = self.features
        settings = (self.bins, f.feature_of.tolist(), f.bins, f.around)
        return digest(self.table, f.roles, self.weights, settings)

    @cached_property
    def background_digest(self) -> str:
        """Digest of the rows and weights that stand in for a switched-off feature."""
        f = self.features
        return digest(self.background, f.roles, self.summary.weights, (f.feature_of.tolist(),))

    @cached_property
    def summary(self) -> Summary:
        """Which rows are the background."""
        numeric = all(self.features.ordered)
        return summarise(self.table, self.weights, self.max_background, numeric=numeric)

    @cached_property
    def background(self) -> Table:
        """The B rows that stand in for a switched-off feature."""
        rows = self.summary.rows
        return self.table if len(rows) == self.table.n_rows else self.table.take(rows)

    @cached_property
    def first_row(self) -> Table:
        """The first background row."""
        return self.background.take(np.zeros(1, dtype=np.int64))

    @cached_property
    def constant_columns(self) -> Masks:
        """``(p,)`` columns with one value in all background rows (NaN equals NaN)."""
        columns = (self.background.identity(j) for j in range(self.background.n_columns))
        return np.array([(column == column[0]).all() for column in columns])

    @cached_property
    def _ranks(self) -> dict[int, Ranks]:
        """Ranks among the values of each ordered column of the background, or of many of them."""
        table, weights = self.background, self.summary.weights
        rows: Ints | slice = slice(None)
        if table.n_rows > MAX_RANKED:
            rng = spawn(0, Purpose.RANKED_ROWS, table.n_rows)
            rows = rng.choice(table.n_rows, MAX_RANKED, replace=False)
        ordered = np.flatnonzero(self.features.ordered).tolist()
        return {j: Ranks.among(table.floats(j)[rows], weights[rows]) for j in ordered}

    @cached_property
    def _categories(self) -> dict[int, tuple[Ints, dict[Any, int]]]:
        """Codes of each column of the background without order."""
        unordered = np.flatnonzero(~np.array(self.features.ordered)).tolist()
        return {j: self.background.factorize(j) for j in unordered}

    def encode(self, rows: Ints) -> Floats:
        """Background rows as numbers ``(n, p)``: ranks, and codes of columns without order."""
        out = np.empty((len(rows), self.background.n_columns))
        for j, ranks in self._ranks.items():
            out[:, j] = ranks.of(self.background.floats(j)[rows])
        for j, (codes, _) in self._categories.items():
            out[:, j] = codes[rows]
        return out

    def encode_instance(self, x: Table) -> Floats:
        """The instance as numbers ``(1, p)``; a category never seen has a code of its own."""
        out = np.empty((1, x.n_columns))
        for j, ranks in self._ranks.items():
            out[:, j] = ranks.of(x.floats(j))
        for j, (_, codes) in self._categories.items():
            value = x.objects(j)[0]
            out[:, j] = MISSING if is_missing(value) else codes.get(value, len(codes))
        return out

    @cached_property
    def _means(self) -> dict[int, Floats]:
        """Means of `_polynomials` of an ordered column, or shares of codes, the missing one last.

        They are over all background rows, a stretch at a time.
        """
        table, weights = self.background, self.summary.weights
        parts = [slice(i, i + _STRETCH) for i in range(0, table.n_rows, _STRETCH)]
        out: dict[int, Floats] = {}
        for j, ranks in self._ranks.items():
            column = table.floats(j)
            each = [weights[p] @ _polynomials(ranks.of(column[p])) for p in parts]
            out[j] = np.sum(each, axis=0)
        for j, (codes, categories) in self._categories.items():
            shares = np.bincount(codes % (len(categories) + 1), weights, len(categories) + 1)
            out[j] = shares.astype(np.float64)
        return out

    def auxiliary(self, encoded: Floats, degree: int) -> tuple[Floats, Floats]:
        """Functions ``(n, q)`` of single columns of encoded rows, and their means over all rows.

        They are ``degree`` for each column: polynomials of a rank, or the most frequent categories.
        """
        functions, means = [], []
        for j, mean in sorted(self._means.items()):
            if j in self._ranks:
                functions.append(_polynomials(encoded[:, j])[:, :degree])
                means.append(mean[:degree])
                continue
            codes, counts = np.unique(encoded[:, j], return_counts=True)
            common = codes[np.argsort(-counts, kind="stable")[:degree]]
            functions.append((encoded[:, j, None] == common).astype(np.float64))
            means.append(mean[common.astype(np.int64)])
        return np.column_stack(functions), np.concatenate(means)

    def find(self, j: int, value: Any) -> int | None:
        """Return the first row of the domain whose column j equals the value, or ``None``."""
        for i, other in enumerate(self.whole.objects(j)):
            if not is_missing(other) and other == value:
                return i
        return None

    @cached_property
    def marginals(self) -> list[Marginal]:
        """The distribution of each column."""
        return [
            Marginal.of_numbers(self.table.floats(j), self.bins, self.weights)
            if ordered
            else Marginal(*self.table.factorize(j))
            for j, ordered in enumerate(self.features.ordered)
        ]

    @cached_property
    def scalable(self) -> dict[int, int]:
        """Column of each feature that is one ordered column with a finite training value."""
        f = self.features
        return {
            feature: columns[0]
            for feature, columns in enumerate(f.members)
            if feature not in f.grouped
            and f.ordered[columns[0]]
            and self.marginals[columns[0]].known
        }

    @cached_property
    def bin_labels(self) -> list[list[str] | None]:
        """Conditions of the bins of each column; ``None`` if it has no order."""
        out: list[list[str] | None] = []
        for j, (name, role) in enumerate(zip(self.table.names, self.features.roles, strict=True)):
            edges = self.marginals[j].edges
            if edges is None:
                out.append(None)
            else:
                texts = number_texts(edges) if role == "number" else self._date_texts(j, edges)
                out.append(bin_labels(name, texts))
        return out

    def _date_texts(self, j: int, edges: Floats) -> list[str]:
        """Bin edges of a date column as dates; rounded down, which changes no bin."""
        dates = self.table.backend.from_floats(self.table.columns[j], np.floor(edges))
        values = [plain(value) for value in dates]
        if not all(isinstance(value, dt.datetime) for value in values):
            return [str(value) for value in values]
        times = [value.time() for value in values]
        form = "%Y-%m-%d"
        if any(time != dt.time() for time in times):
            form += " %H:%M:%S" if any(t.second or t.microsecond for t in times) else " %H:%M"
        return [value.strftime(form) for value in values]

    @cached_property
    def codes(self) -> NDArray[Any]:
        """``(N, p)`` bin or category of every training value, in few bytes."""
        columns = [marginal.codes for marginal in self.marginals]
        small = max(int(codes.max()) for codes in columns) < np.iinfo(np.int16).max
        return np.column_stack([c.astype(np.int16 if small else np.int32) for c in columns])

    @cached_property
    def shares(self) -> list[dict[int, float]]:
        """Share of the training rows, by weight, in each bin or category of each column."""
        out = []
        for marginal in self.marginals:
            found, at = np.unique(marginal.codes, return_inverse=True)
            share = np.bincount(at.reshape(-1), weights=self.weights)
            out.append(dict(zip(found.tolist(), (share / share.sum()).tolist(), strict=True)))
        return out

    @cached_property
    def rare_codes(self) -> dict[int, set[int] | None]:
        """Bins and categories that less than `RARE_SHARE` have, or have not, by feature.

        Features without any are left out; ``None``: a group, whose combinations are not listed.
        """
        out: dict[int, set[int] | None] = {}
        for feature, (j, *others) in enumerate(self.features.members):
            rare = {code for code, p in self.shares[j].items() if 0 < min(p, 1 - p) < RARE_SHARE}
            if others or rare:
                out[feature] = None if others else rare
        return out

    @cached_property
    def value_codes(self) -> NDArray[np.int16] | None:
        """``(N, p)`` codes that are equal if the values are; ``None`` if a column has over 256."""
        columns = []
        for j, marginal in enumerate(self.marginals):
            codes = marginal.codes
            if marginal.edges is not None:
                codes = np.unique(self.table.floats(j), return_inverse=True)[1]
            if codes.max() >= _MAX_DISTINCT:
                return None
            columns.append(codes.astype(np.int16))
        return np.column_stack(columns)

    def draw_oversampled(
        self, columns: Sequence[int], codes: Ints, share: float, uniform: Floats
    ) -> Ints:
        """Draw rows ``(n,)``, a ``share`` of which have these ``codes`` in these columns."""
        same = (self.codes[:, columns] == codes).all(axis=1)
        out = np.empty(len(uniform), dtype=np.int64)
        for rows, part, u in (
            (np.flatnonzero(same), uniform < share, uniform / share),
            (np.flatnonzero(~same), uniform >= share, (uniform - share) / (1 - share)),
        ):
            weights = None if self.weights is None else self.weights[rows]
            out[part] = rows[_rows_at(u[part], len(rows), weights)]
        return out

    def draw(self, seed: int, start: int, stop: int) -> tuple[Ints, NDArray[Any]]:
        """Draw by weight: ``(n, p)`` row that each value is taken from, and its bin or category.

        They do not depend on the instance, so a batch shares them: the last ones are kept.
        """

        def make() -> tuple[Ints, NDArray[Any]]:
            uniform = blocks(seed, "uniform", start, stop, len(self.features.names))
            rows = _rows_at(uniform, self.table.n_rows, self.weights)
            if self.features.grouped:  # columns of a group come from the same row
                rows = rows[:, self.features.feature_of]
            return rows, take_cells(self.codes, rows)

        return self.kept("draws", (seed, start, stop), make)


def digest(
    table: Table, roles: Sequence[str], weights: Floats | None, settings: tuple[Any, ...]
) -> str:
    """Return 32 characters that change with any value, weight or setting.

    They are the same for every library that holds the table, and on any machine.
    """
    out = blake2b(digest_size=16)
    for j, role in enumerate(roles):
        out.update(f"{table.names[j]}:{role}".encode(errors="surrogatepass"))
        if role in ("number", "date"):
            out.update(table.floats(j).tobytes())
        else:
            rows, codes = table.factorize(j)
            out.update(rows.tobytes())
            out.update("\n".join(map(str, codes)).encode(errors="surrogatepass"))
    out.update(b"" if weights is None else weights.tobytes())
    out.update(repr(settings).encode())
    return out.hexdigest()


def _polynomials(rank: Floats) -> Floats:
    """Legendre polynomials ``(n, 4)`` of ranks, −1 if missing, without the constant."""
    return np.asarray(np.polynomial.legendre.legvander(2.0 * rank - 1.0, MAX_DEGREE)[:, 1:])


def _rows_at(uniform: Floats, n: int, weights: Floats | None) -> Ints:
    """Positions among n rows, by weight, from uniform draws of any shape."""
    if weights is None:  # below n: the largest draw is 1 − 2⁻⁵³
        return np.minimum(uniform * n, n - 1).astype(np.int64)
    cumulative = np.cumsum(weights / weights.sum())
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    return np.minimum(np.searchsorted(cumulative, uniform, side="right"), last).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Which rows stand for all.

    ``rows`` are the ``(B,)`` positions of the chosen rows, ``weights`` the ``(B,)`` shares of the
    data they stand for, ``note`` says how many stand for how many and how they were chosen.
    """

    rows: Ints
    weights: Floats
    note: str


def summarise(
    table: Table, weights: Floats | None, max_rows: int | None, *, numeric: bool
) -> Summary:
    """Choose at most ``max_rows`` rows (``None``: all) that stand for the table.

    Equal rows are merged into one with their common weight first; if that is few enough, nothing
    is lost. Otherwise `few_rows` chooses.
    """
    n = table.n_rows
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    first, merged = _distinct(table, share)
    total = f"{n} row" if n == 1 else f"{n} rows"
    if max_rows is None or len(first) <= max_rows:
        note = f"all {total}" if n > 1 else "the only row"
        if len(first) < n:
            note = f"all {total} ({len(first)} distinct)"
        return Summary(first, merged / merged.sum(), note)
    chosen, weight, how = few_rows(table.take(first), merged, max_rows, numeric=numeric)
    return Summary(first[chosen], weight / weight.sum(), f"{len(chosen)} of {total} ({how})")


def unique_rows(array: NDArray[Any]) -> tuple[Ints, Ints]:
    """Position of the first of each distinct row, and ``(n,)`` which of them each row equals."""
    array = np.ascontiguousarray(array)
    whole = array.view(f"V{array.shape[1] * array.itemsize}").reshape(-1)
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return first.astype(np.int64), group.reshape(-1).astype(np.int64)


def _distinct(table: Table, share: Floats) -> tuple[Ints, Floats]:
    """First position and summed weight of each distinct row, in order of appearance.

    Rows are compared by a hash of 64 bits, made column by column so that no second table is held,
    and rows with equal hashes by their values.
    """
    key = np.zeros(table.n_rows, dtype=np.uint64)
    for j in range(table.n_columns):
        key ^= table.identity(j)
        key *= np.uint64(0x9E3779B97F4A7C15)  # odd: no information is lost
        key ^= key >> np.uint64(29)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if len(first) < table.n_rows:
        ids = (table.identity(j) for j in range(table.n_columns))
        if not all(np.array_equal(column[first][group], column) for column in ids):
            first, group = unique_rows(table.identities())
    summed = np.bincount(group, weights=share).astype(np.float64)
    order = np.argsort(first)
    kept = order[summed[order] > 0]
    return first[kept], summed[kept]
