"""Explanations as JSON and back: versioned, readable, never a pickle."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from credex.cells import decode, encode_or_text
from credex.errors import InputError
from credex.estimators.base import Estimate
from credex.explanation_base import ExplanationBase, Instance
from credex.history import Block, History, Rows
from credex.posteriors import Belief, ErrorPosterior

FORMAT = "credex-explanation"
VERSION = 2
"""Written. Version 1, which is read too, stored cells in other forms: see `_cell_of_version_1`."""

RUN = ("method", "outputs", "level", "seconds", "stop_reason", "converged", "notes")
INSTANCE = ("names", "labels", "units")
ESTIMATE = {"r2s": "r2", "intercepts": "intercept", "local": "local_prediction"}
"""Arrays of an estimate by their names in the file."""
HISTORY = ("cursor", "n_queries", "n_model_rows", "model_seconds", "failed_rows", "checked")
HISTORY_ARRAYS = {n: n for n in ("full", "base", "by_row", "base_by_row", "kept")}
HISTORY_ARRAYS |= {"anchors": "end_values"}
"""Arrays of a history by their names in the file."""


def dumps(e: ExplanationBase) -> str:
    """Write the explanation as JSON."""
    instance, estimate, history = e.instance, e.estimate, e.history
    belief, error = estimate.belief, estimate.error
    out: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    out |= {name: getattr(e, name) for name in RUN}
    out |= {name: getattr(instance, name) for name in INSTANCE}
    out["values"] = [encode_or_text(v) for v in instance.feature_values]
    out |= {"label": encode_or_text(instance.label), "payload": instance.payload}
    out["data"] = instance.data_digest
    out["settings"] = {**e.settings, "cohort": encode_or_text(e.settings.get("cohort"))}
    out |= {"exact": estimate.exact, "posterior": estimate.posterior}
    out |= {"mean": _array(belief.mean), "scale": _array(belief.scale), "dof": belief.dof}
    out["error"] = {"dof": error.dof, "scale": _array(np.atleast_1d(np.asarray(error.scale)))}
    out |= {key: _array(getattr(estimate, name)) for key, name in ESTIMATE.items()}
    out |= {"selected": _array(estimate.selected), "unidentified": _array(estimate.unidentified)}
    out |= {"base_sd": _array(estimate.base_sd), "base_dof": estimate.base_dof}
    asked: dict[str, Any] = {name: getattr(history, name) for name in HISTORY}
    asked |= {key: _array(getattr(history, name)) for key, name in HISTORY_ARRAYS.items()}
    asked["blocks"] = [_block(b) for b in history.rows.blocks]
    out["asked"] = asked
    return json.dumps(out, allow_nan=True, ensure_ascii=False, default=_jsonable)


def loads(text: str) -> dict[str, Any]:
    """Read what `dumps` wrote; returns the fields of the explanation."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as cause:
        raise InputError(f"this is not JSON: {cause}") from cause
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"this JSON is not an explanation: its format is not {FORMAT!r}")
    version = raw.get("version")
    if version not in (1, VERSION):
        msg = f"this explanation has version {version!r}; this credex reads versions 1 to {VERSION}"
        raise InputError(msg)
    try:
        return _fields(raw)
    except (KeyError, TypeError, ValueError) as cause:
        msg = f"this explanation is damaged: {type(cause).__name__}: {cause}"
        raise InputError(msg) from cause


def _fields(raw: dict[str, Any]) -> dict[str, Any]:
    cell = decode if raw["version"] == VERSION else _cell_of_version_1
    settings = {"sampler": raw.get("sampler"), **raw["settings"]}
    settings["cohort"] = cell(settings.get("cohort"))
    return {
        **{name: _tuple(raw[name]) for name in RUN},
        "instance": Instance(
            **{name: _tuple(raw[name]) for name in INSTANCE},
            feature_values=tuple(map(cell, raw["values"])),
            label=cell(raw["label"]),
            payload=raw["payload"],
            data_digest=raw.get("data"),
        ),
        "estimate": Estimate(
            belief=Belief(_read(raw["mean"]), _read(raw["scale"]), raw["dof"]),
            error=ErrorPosterior(raw["error"]["dof"], _read(raw["error"]["scale"])),
            exact=raw["exact"],
            posterior=raw["posterior"],
            selected=_read(raw["selected"]),
            unidentified=_read(raw.get("unidentified")),
            base_sd=_read(raw.get("base_sd")),
            base_dof=raw.get("base_dof", 1.0),
            **{name: _read(raw[key]) for key, name in ESTIMATE.items()},
        ),
        "history": History(
            rows=Rows(tuple(map(_read_block, raw["asked"]["blocks"]))),
            **{name: raw["asked"].get(name, 0) for name in HISTORY},
            **{name: _read(raw["asked"].get(key)) for key, name in HISTORY_ARRAYS.items()},
        ),
        "settings": settings,
    }


def _block(b: Block) -> dict[str, Any]:
    arrays = {name: _array(getattr(b, name)) for name in ("packed", "plain", "y")}
    return {"n": b.n, "d": b.d, **arrays, "w": None if np.all(b.w == 1.0) else _array(b.w)}


def _read_block(b: dict[str, Any]) -> Block:
    w = np.ones(b["n"]) if b["w"] is None else _read(b["w"])
    return Block(b["n"], b["d"], _read(b["packed"]), _read(b["plain"]), _read(b["y"]), w)


def _array(a: Any) -> dict[str, Any] | None:
    """Write an array as little-endian bytes in base64, a small one of floats as numbers."""
    if a is None:
        return None
    a = np.asarray(a)
    if a.dtype == np.float64 and a.size <= 64 and bool(np.all(np.isfinite(a))):
        return {"shape": list(a.shape), "numbers": [float(v) for v in a.ravel()]}
    code = a.dtype.newbyteorder("<").str
    data = base64.b64encode(a.astype(code).tobytes()).decode("ascii")
    return {"shape": list(a.shape), "dtype": code, "base64": data}


def _read(raw: dict[str, Any] | None) -> Any:
    """Read what `_array` wrote."""
    if raw is None:
        return None
    if "numbers" in raw:
        return np.array(raw["numbers"], dtype=np.float64).reshape(raw["shape"])
    data = np.frombuffer(base64.b64decode(raw["base64"]), dtype=np.dtype(raw["dtype"]))
    return data.astype(data.dtype.newbyteorder("=")).reshape(raw["shape"])


def _cell_of_version_1(raw: Any) -> Any:
    """Read a cell of version 1, which named days "date" and moments "timestamp"."""
    if not isinstance(raw, dict):
        return raw
    kind, v = next(iter(raw.items()))
    if kind == "tuple":
        return tuple(map(_cell_of_version_1, v))
    if kind == "timedelta64":
        return decode({"timedelta": v[0], "unit": v[1]})
    if kind in ("timedelta", "Timedelta") and not isinstance(v, str):
        return decode({"timedelta": v, "unit": "us" if kind == "timedelta" else "ns"})
    kind = {"timestamp": "date", "datetime": "date", "date": "day"}.get(kind, kind)
    return decode({kind: v}) if kind in ("float", "decimal", "date", "day", "time") else v


def _jsonable(v: Any) -> Any:
    """Turn NumPy scalars among the settings into Python's, anything else into text."""
    return v.item() if isinstance(v, np.generic) else str(v)


def _tuple(v: Any) -> Any:
    return tuple(v) if isinstance(v, list) else v
