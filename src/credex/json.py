"""Explanations as JSON and back: versioned, readable, never a pickle."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.errors import InputError
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.rows import Block, Rows

if TYPE_CHECKING:
    from credex.explanation import Explanation

FORMAT = "credex-explanation"
VERSION = 1

PLAIN = (
    "method",
    "names",
    "labels",
    "units",
    "outputs",
    "squeeze",
    "level",
    "n_queries",
    "n_model_rows",
    "seconds",
    "model_seconds",
    "stop_reason",
    "converged",
    "exact",
    "posterior",
    "sampler",
    "recipe",
    "notes",
    "payload",
    "settings",
)
ARRAYS = ("base", "full", "intercepts", "local", "r2s", "selected")
ASKED_ARRAYS = ("full", "base", "anchors", "by_row", "base_by_row")
SCALARS = ("cursor", "n_queries", "n_model_rows", "model_seconds", "checked")


def dumps(e: Explanation) -> str:
    """Return the explanation as JSON text."""
    out: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    out.update({name: getattr(e, name) for name in PLAIN})
    out.update({name: _array(getattr(e, name)) for name in ARRAYS})
    out["values"] = [_value(v) for v in e.values]
    out["label"] = _value(e.label)
    out["data"] = e.data
    out["settings"] = {**e.settings, "cohort": _value(e.settings.get("cohort"))}
    out["mean"] = _array(e.belief.mean)
    out["scale"] = _array(e.belief.scale)
    out["dof"] = e.belief.dof
    error = e.error_posterior
    out["error"] = {"dof": error.dof, "scale": _array(np.atleast_1d(np.asarray(error.scale)))}
    a = e.asked
    asked: dict[str, Any] = {name: getattr(a, name) for name in SCALARS}
    asked.update({name: _array(getattr(a, name)) for name in ASKED_ARRAYS})
    asked["blocks"] = [
        {
            "n": b.n,
            "d": b.d,
            "packed": _array(b.packed),
            "plain": _array(b.plain),
            "y": _array(b.y),
            "w": None if np.all(b.w == 1.0) else _array(b.w),
        }
        for b in a.rows.blocks
    ]
    out["asked"] = asked
    return json.dumps(out, allow_nan=True, ensure_ascii=False, default=_plain)


def loads(text: str) -> Explanation:
    """Read what `dumps` wrote."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as cause:
        msg = f"this is not JSON: {cause}"
        raise InputError(msg) from cause
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        msg = f"this JSON is not an explanation: its format is not {FORMAT!r}"
        raise InputError(msg)
    if raw.get("version") != VERSION:
        msg = f"this explanation has version {raw.get('version')!r}; this credex reads {VERSION}"
        raise InputError(msg)
    try:
        return _built(raw)
    except (KeyError, TypeError, ValueError) as cause:
        msg = f"this explanation is damaged: {type(cause).__name__}: {cause}"
        raise InputError(msg) from cause


def _built(raw: dict[str, Any]) -> Explanation:
    from credex.explanation import Explanation

    a = raw["asked"]
    blocks = tuple(_block(b) for b in a["blocks"])
    asked = History(
        rows=Rows(blocks),
        **{name: a[name] for name in SCALARS},
        **{name: _read(a[name]) for name in ASKED_ARRAYS},
    )
    parts: dict[str, Any] = {name: _tuples(raw[name]) for name in PLAIN}
    parts["payload"], parts["settings"] = raw["payload"], dict(raw["settings"])
    parts["settings"]["cohort"] = _unvalue(raw["settings"].get("cohort"))
    parts.update({name: _read(raw[name]) for name in ARRAYS})
    known = {f.name for f in fields(Explanation)}
    parts = {k: v for k, v in parts.items() if k in known}
    return Explanation(
        **parts,
        values=tuple(_unvalue(v) for v in raw["values"]),
        label=_unvalue(raw["label"]),
        belief=Belief(_read(raw["mean"]), _read(raw["scale"]), raw["dof"]),
        error_posterior=ErrorPosterior(raw["error"]["dof"], _read(raw["error"]["scale"])),
        asked=asked,
        data=raw.get("data"),
    )


def _block(b: dict[str, Any]) -> Block:
    w = np.ones(b["n"]) if b["w"] is None else _read(b["w"])
    return Block(b["n"], b["d"], _read(b["packed"]), _read(b["plain"]), _read(b["y"]), w)


def _array(a: Any) -> dict[str, Any] | None:
    """Exact and compact: little-endian bytes in base64 (small float arrays as numbers)."""
    if a is None:
        return None
    a = np.asarray(a)
    if a.dtype == np.float64 and a.size <= 64 and bool(np.all(np.isfinite(a))):
        return {"shape": list(a.shape), "numbers": [float(v) for v in a.ravel()]}
    code = a.dtype.newbyteorder("<").str
    data = base64.b64encode(a.astype(code).tobytes()).decode("ascii")
    return {"shape": list(a.shape), "dtype": code, "base64": data}


def _read(raw: dict[str, Any] | None) -> Any:
    if raw is None:
        return None
    if "numbers" in raw:
        return np.array(raw["numbers"], dtype=np.float64).reshape(raw["shape"])
    data = np.frombuffer(base64.b64decode(raw["base64"]), dtype=np.dtype(raw["dtype"]))
    native = data.dtype.newbyteorder("=")
    return data.astype(native).reshape(raw["shape"])


def _value(v: Any) -> Any:  # noqa: PLR0911 - one case a line
    """JSON for a cell of a table: numbers, text, truth, missing, dates."""
    if v is None or isinstance(v, str | bool):
        return v
    if isinstance(v, np.bool_):
        return bool(v)
    if isinstance(v, int | np.integer):
        return int(v)
    if isinstance(v, float | np.floating):
        return float(v) if math.isfinite(v) else {"float": str(float(v))}
    if isinstance(v, tuple):
        return {"tuple": [_value(x) for x in v]}
    if isinstance(v, Decimal | dt.timedelta | np.timedelta64):
        return _amount(v)
    if hasattr(v, "isoformat"):
        kind = "timestamp" if type(v).__name__ == "Timestamp" else type(v).__name__
        return {kind: v.isoformat()}
    if isinstance(v, np.datetime64):
        return {"timestamp": str(v)}
    return {"text": str(v)}


def _amount(v: Decimal | dt.timedelta | np.timedelta64) -> dict[str, Any]:
    """JSON for decimals and lengths of time: pandas' in nanoseconds, Python's in microseconds."""
    if isinstance(v, Decimal):
        return {"decimal": str(v)}
    if isinstance(v, np.timedelta64):
        unit, step = np.datetime_data(v.dtype)
        return {"timedelta64": [int(v.astype(np.int64)) * step, unit]}
    if type(v) is dt.timedelta:
        return {"timedelta": v // dt.timedelta(microseconds=1)}
    return {"Timedelta": int(np.timedelta64(v, "ns").astype(np.int64))}


def _unvalue(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    kind, v = next(iter(raw.items()))
    if kind == "float":
        return float(v)
    if kind == "tuple":
        return tuple(_unvalue(x) for x in v)
    if kind == "timestamp":
        import pandas as pd

        return pd.Timestamp(v)
    if kind in ("date", "datetime", "time"):
        return getattr(dt, kind).fromisoformat(v)
    return _known_amount(kind, v)


def _known_amount(kind: str, v: Any) -> Any:
    """Read what `_amount` wrote; anything else is text."""
    if kind == "decimal":
        return Decimal(v)
    if kind == "timedelta64":
        return np.timedelta64(*v)
    if kind == "timedelta":
        return dt.timedelta(microseconds=v)
    if kind == "Timedelta" and not isinstance(v, str):  # older files hold ISO text
        import pandas as pd

        return pd.Timedelta(v, unit="ns")
    return v


def _plain(v: Any) -> Any:
    """NumPy scalars among the settings."""
    if isinstance(v, np.generic):
        return v.item()
    return str(v)


def _tuples(v: Any) -> Any:
    return tuple(v) if isinstance(v, list) else v
