"""Rows as JSON for an endpoint and its answer as numbers: MLflow's and KServe's protocols."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from credex.cells import is_missing, plain
from credex.errors import InputError, ModelOutputError
from credex.typing import Floats, Native

__all__ = ["Answer", "Kserve", "Mlflow", "Table", "UnreadableError", "table_of"]

DATATYPES = {"b": "BOOL", "u": "UINT64", "i": "INT64", "f": "FP64"}
"""KServe's names of types, by numpy's kinds; anything else is BYTES."""


class UnreadableError(Exception):
    """The answer is no JSON: it was cut off, or comes from something between us and the model."""


class Answer(NamedTuple):
    """``(n, k)`` outputs and, if the endpoint named them, their names."""

    y: Floats
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows as JSON values: lists of cells under ``names`` and ``datatypes``, or of anything."""

    rows: list[Any]
    names: tuple[str, ...] | None
    datatypes: tuple[str, ...]

    def keys(self, about: str) -> list[bytes]:
        """Return 16 bytes for each row, equal if and only if the rows are; ``about``: of what."""
        start = hashlib.blake2b(repr((about, self.names)).encode(), digest_size=16)
        out = []
        for row in self.rows:
            key = start.copy()
            key.update(_dumps(row))
            out.append(key.digest())
        return out

    def take(self, at: Sequence[int]) -> Table:
        """Return some of the rows."""
        return replace(self, rows=[self.rows[i] for i in at])


def table_of(rows: Native) -> Table:
    """Turn a pandas or polars frame, an array or a list into JSON values."""
    if hasattr(rows, "columns"):
        columns = [rows[name] for name in rows.columns]
        cells = [list(map(_cell, column.to_list())) for column in columns]
        names = tuple(map(str, rows.columns))
        return Table([list(row) for row in zip(*cells, strict=True)], names, _types(columns, cells))
    if isinstance(rows, np.ndarray):
        kind = DATATYPES.get(rows.dtype.kind, "BYTES")
        clean = rows.dtype.kind in "biu" or (rows.dtype.kind == "f" and np.isfinite(rows).all())
        return Table(rows.tolist() if clean else _nested(rows.tolist()), None, (kind,))
    return Table([_nested(row) for row in rows], None, ("BYTES",))


def _types(columns: Sequence[Any], cells: Sequence[list[Any]]) -> tuple[str, ...]:
    kinds = {bool: "BOOL", int: "INT64", float: "FP64"}
    found = []
    for column, values in zip(columns, cells, strict=True):
        some = {type(v) for v in values if v is not None}
        name = kinds.get(next(iter(some)), "BYTES") if len(some) == 1 else "BYTES"
        found.append("FP64" if str(column.dtype).lower().startswith("float") else name)
    return tuple(found)


def _cell(value: Any) -> Any:
    """Return one value as JSON has it: missing ones are null, dates ISO texts."""
    if type(value) is float and math.isfinite(value):
        return value
    if is_missing(value):
        return None
    value = plain(value)
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        raise InputError(f"{value} cannot be sent as JSON; clip the column to finite numbers")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else str(value)


def _nested(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [_nested(part) for part in value]
    return _cell(value)


def _dumps(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as cause:  # also text that is no UTF-8
        raise UnreadableError(f"its answer is no JSON: {_head(body)}") from cause


@dataclass(frozen=True, slots=True)
class Mlflow:
    """MLflow's scoring server: ``dataframe_split`` or ``inputs``; ``predictions`` come back."""

    def body(self, table: Table) -> bytes:
        """Return the request for some rows."""
        if table.names is None:
            return _dumps({"inputs": table.rows})
        return _dumps({"dataframe_split": {"columns": table.names, "data": table.rows}})

    def read(self, body: bytes, n: int) -> Answer:
        """Return the outputs of n rows."""
        raw = _loads(body)
        found = raw.get("predictions") if isinstance(raw, dict) else raw
        if isinstance(found, dict) and len(found) == 1:  # a model with one named output
            found = next(iter(found.values()))
        if not isinstance(found, list):
            msg = f"the endpoint's answer has no list of 'predictions': {_head(body)}. Is it "
            raise ModelOutputError(msg + "MLflow's /invocations? For KServe give protocol='kserve'")
        names: tuple[str, ...] = ()
        if found and all(isinstance(row, dict) for row in found):
            names = tuple(map(str, found[0]))
            found = [[row.get(name) for name in names] for row in found]
        return Answer(_numbers(found, n, body), names)


@dataclass(frozen=True, slots=True)
class Kserve:
    """KServe's and Triton's protocol, version 2.

    Frames are sent with one tensor for each column, as MLServer reads them into a frame, or with
    ``tensor`` given in one of that name. ``output`` is needed if the model has several.
    """

    tensor: str | None = None
    output: str | None = None

    def body(self, table: Table) -> bytes:
        """Return the request for some rows."""
        n = len(table.rows)
        if table.names is not None and self.tensor is None:
            columns = zip(table.names, table.datatypes, zip(*table.rows, strict=True), strict=True)
            inputs = [self._column(name, kind, n, data) for name, kind, data in columns]
            return _dumps({"parameters": {"content_type": "pd"}, "inputs": inputs})
        array = np.array(table.rows)
        kinds = set(table.datatypes)
        kind = next(iter(kinds)) if len(kinds) == 1 else "FP64"
        if array.dtype == object or (array.dtype.kind not in "biuf" and kind != "BYTES"):
            msg = "tensor= sends all columns as numbers, and some are texts or missing; leave it "
            raise InputError(msg + "out, and every column has a tensor of its own")
        shape, data = list(array.shape), array.ravel().tolist()
        name = self.tensor or "input-0"
        return _dumps({"inputs": [{"name": name, "shape": shape, "datatype": kind, "data": data}]})

    @staticmethod
    def _column(name: str, kind: str, n: int, data: Sequence[Any]) -> dict[str, Any]:
        if kind != "BYTES" and any(value is None for value in data):
            msg = f"column {name!r} has missing values, and numbers of KServe's protocol cannot be "
            raise InputError(msg + "missing; fill them in")
        out = {"name": name, "shape": [n, 1], "datatype": kind, "data": data}
        return {**out, "parameters": {"content_type": "str"}} if kind == "BYTES" else out

    def read(self, body: bytes, n: int) -> Answer:
        """Return the outputs of n rows."""
        raw = _loads(body)
        found = raw.get("outputs") if isinstance(raw, dict) else None
        if not isinstance(found, list) or not all(isinstance(o, dict) for o in found) or not found:
            msg = f"the endpoint's answer has no 'outputs': {_head(body)}. Is it KServe's "
            raise ModelOutputError(msg + "/v2/models/NAME/infer? For MLflow give protocol='mlflow'")
        names = [str(o.get("name")) for o in found]
        if self.output is None and len(found) > 1:
            msg = f"the endpoint has {len(found)} outputs; say output= one of {', '.join(names)}"
            raise InputError(msg)
        if self.output is not None and self.output not in names:
            msg = f"the endpoint has no output {self.output!r}; it has {', '.join(names)}"
            raise InputError(msg)
        one = found[0 if self.output is None else names.index(self.output)]
        y = _numbers(one.get("data", []), None, body)
        shape = [int(size) for size in one.get("shape", [len(y)])]
        if y.size != math.prod(shape):
            msg = f"the endpoint's output has shape {shape}, but {y.size} numbers"
            raise ModelOutputError(msg)
        return Answer(_rows(y.reshape(shape), n), ())


def _numbers(found: Any, n: int | None, body: bytes) -> Floats:
    """Return predictions as floats; ``(n, k)`` if n is given."""
    if n is not None and len(found) != n:
        msg = f"the endpoint returned {len(found)} predictions for {n} rows"
        raise ModelOutputError(f"{msg}; it must return one for each")
    try:
        y = np.array(found, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        texts = isinstance(found, list) and bool(found) and isinstance(found[0], str)
        msg = f"the endpoint's predictions are no numbers: {_head(body)}"
        msg += "; it predicts labels: let it return probabilities" if texts else ""
        raise ModelOutputError(msg) from cause
    return y if n is None else _rows(y, n)


def _rows(y: Floats, n: int | None) -> Floats:
    if n is not None and (y.ndim == 0 or len(y) != n):
        msg = f"the endpoint returned an array of shape {y.shape} for {n} rows; it must return one "
        raise ModelOutputError(msg + "number, or one row of numbers, for each")
    if y.ndim > 2:
        raise ModelOutputError(f"the endpoint returned an array of shape {y.shape}")
    return y[:, None] if y.ndim == 1 else y


def _head(body: bytes) -> str:
    """Return the first line of an answer, shortened."""
    lines = body[:400].decode("utf-8", "replace").strip().splitlines()
    line = lines[0] if lines else "(empty)"
    return line if len(line) <= 120 else line[:117] + "…"
