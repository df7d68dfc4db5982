"""Models by name: Python objects, files of skops, ONNX and pickles, MLflow's, HTTP endpoints."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credex.errors import InputError, MissingExtraError
from credex.models import from_http, from_onnx

__all__ = ["columns_of", "load", "target_of"]

PICKLES = (".pkl", ".pickle", ".joblib")
MLFLOW = ("models:/", "runs:/", "mlflow-artifacts:/")
WAYS = (
    "package.module:attribute, a file (.skops, .onnx, .joblib, .pkl), an MLflow model, http(s)://…"
)


def load(
    given: str,
    *,
    trust_pickle: bool = False,
    trust: Sequence[str] = (),
    output: str | None = None,
    http: Mapping[str, Any] | None = None,
) -> Any:
    """Return the model that a name stands for.

    ``trust`` are types of a skops file that may be loaded; ``output`` is that of ONNX and KServe;
    ``http`` are arguments of `from_http`.
    """
    if given.startswith(("http://", "https://")):
        return from_http(given, output=output, **(http or {}))
    path = Path(given)
    if given.startswith(MLFLOW) or (path.is_dir() and (path / "MLmodel").is_file()):
        _check_trust(given, trust_pickle, "loading an MLflow model")
        return _mlflow(given)
    ending = path.suffix.lower()
    if ending in (".skops", ".onnx", *PICKLES):
        if not path.is_file():
            raise InputError(f"there is no model file {given!r}")
        if ending == ".onnx":
            return from_onnx(path, output=output)
        if ending == ".skops":
            return _skops(path, trust)
        _check_trust(given, trust_pickle, "unpickling")
        return _pickle(path)
    module, colon, attribute = given.partition(":")
    if not colon or not module or not attribute or "/" in given:
        raise InputError(f"the model is {given!r}; give one of: {WAYS}")
    return _python(module, attribute)


def _check_trust(given: str, trusted: bool, what: str) -> None:  # noqa: FBT001 - as it came
    if not trusted:
        msg = f"{given!r}: {what} runs any code that is in the file. If you trust where it comes "
        raise InputError(msg + "from, say --trust-pickle; files of skops and ONNX need no trust")


def _python(module: str, attribute: str) -> Any:
    """Import ``module`` (the current folder is searched, too) and return its attribute."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths:  # for worker processes
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, paths)])
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as cause:
        what = f"there is no module {cause.name!r}"
        if cause.name != module.partition(".")[0] and cause.name != module:
            what = f"{module!r} needs the module {cause.name!r}, which is not installed"
        raise InputError(f"{what} (the current folder was searched, too)") from cause
    except Exception as cause:
        raise InputError(f"importing {module!r} raised {type(cause).__name__}: {cause}") from cause
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InputError(f"{module!r} has no attribute {attribute!r}")
        found = getattr(found, name)
    return found


def _skops(path: Path, trust: Sequence[str]) -> Any:
    try:
        import skops.io as skops
    except ImportError:
        msg = "files of skops need skops: pip install 'credex[skops]'"
        raise MissingExtraError(msg) from None
    try:
        unknown = [name for name in skops.get_untrusted_types(file=path) if name not in trust]
        if not unknown:
            return skops.load(path, trusted=list(trust))
    except Exception as cause:
        raise InputError(f"{str(path)!r} cannot be loaded by skops: {cause}") from cause
    ways = " ".join(f"--trust {name}" for name in unknown)
    msg = f"{str(path)!r} holds types that skops does not know: {', '.join(unknown)}. If you trust "
    raise InputError(msg + f"them, say {ways}")


def _pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)  # reads plain pickles, too
    except Exception as cause:
        msg = f"{str(path)!r} cannot be unpickled: {type(cause).__name__}: {cause}"
        raise InputError(msg) from cause


def _mlflow(given: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow warns of its own type hints
            import mlflow

            flavors = mlflow.models.get_model_info(given).flavors
            # the general form returns labels, not probabilities
            name = "mlflow.sklearn" if "sklearn" in flavors else "mlflow.pyfunc"
            return importlib.import_module(name).load_model(given)
    except ModuleNotFoundError as cause:
        if cause.name != "mlflow":
            raise InputError(f"MLflow cannot load {given!r}: {cause}") from cause
        raise MissingExtraError("MLflow models need mlflow: pip install mlflow-skinny") from None
    except Exception as cause:
        why = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise InputError(f"MLflow cannot load {given!r}: {why}") from cause


def columns_of(model: Any) -> list[str] | None:
    """Return the columns that a model was trained on, if it knows them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and hasattr(model, "metadata"):  # MLflow's
        schema = getattr(model.metadata, "get_input_schema", lambda: None)()
        names = schema.input_names() if schema is not None and schema.has_input_names() else None
    return None if names is None else [str(name) for name in names]


def target_of(text: str | None, model: Any) -> Any:
    """Return a target as the model knows it: a class label that reads like it, else an index."""
    if text is None:
        return None
    classes = getattr(model, "classes_", None)
    for label in [] if classes is None else np.asarray(classes).tolist():
        if str(label) == text:
            return label
    return int(text) if text.isdecimal() else text
