"""shap's ``KernelExplainer``, computed by BayesSHAP: change the import, keep the code."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from credex import interop
from credex.designs.design import LOGIT_CLIP
from credex.domains.masked import MaskedDomain, MaskedNeighbourhood
from credex.errors import InputError, check_count
from credex.explanation import Explanation
from credex.explanations import Explanations
from credex.shap import BayesSHAP
from credex.typing import Floats, Ints, Masks

__all__ = ["KernelExplainer"]

EXTRA_SAMPLES = 2**11
"""``nsamples="auto"`` is twice the features plus this, as in shap."""


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Background rows ``(B, p)``, their weights ``(B,)``, and the columns of each feature."""

    rows: Floats
    weights: Floats
    names: tuple[str, ...]
    feature_of: Ints

    @classmethod
    def of(cls, data: Any, feature_names: Sequence[str] | None) -> Background:
        """Read an array, a frame, or what ``shap.kmeans`` and ``shap.sample`` return."""
        groups = getattr(data, "groups", None)
        weights = getattr(data, "weights", None)
        names = feature_names
        if groups is not None and weights is not None:  # shap's DenseData
            names = data.group_names if names is None else names
            data = data.data
        elif hasattr(data, "columns"):
            names, groups = list(data.columns) if names is None else names, None
        else:
            groups = None
        rows = _numbers(data, "data")
        groups = [[j] for j in range(rows.shape[1])] if groups is None else groups
        feature_of = np.full(rows.shape[1], -1)
        for i, columns in enumerate(groups):
            feature_of[np.asarray(columns, dtype=np.int64)] = i
        if (feature_of < 0).any():
            raise InputError("the groups of the background leave out some of its columns")
        given = [str(name) for name in names] if names is not None else None
        given = [f"Feature {i}" for i in range(len(groups))] if given is None else given
        if len(given) != len(groups):
            raise InputError(f"feature_names has {len(given)} names for {len(groups)} features")
        share = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(rows, share / share.sum(), tuple(given), feature_of)


class Coalitions(MaskedDomain):
    """shap's game: a coalition is asked on all background rows, and its answers are averaged."""

    def __init__(self, background: Background) -> None:
        self.background = background
        self.names = background.names

    def at(self, x: Any) -> CoalitionNeighbourhood:
        """Return the coalitions of one row."""
        return CoalitionNeighbourhood(np.asarray(x, dtype=np.float64), self.background)

    def restore(self, payload: Any) -> Floats:
        """Turn `CoalitionNeighbourhood.payload` back into a row."""
        return np.asarray(payload["row"], dtype=np.float64)


class CoalitionNeighbourhood(MaskedNeighbourhood):
    """One row, and the background rows with some of its features."""

    part = "feature"

    def __init__(self, x: Floats, background: Background) -> None:
        self.x, self.background, self.names = x, background, background.names
        n = len(background.rows)
        self.removal = f"the values of {n} background row{'s' if n > 1 else ''}"
        self.base_key = ("shap", id(background))

    def inputs(self, masks: Masks) -> Floats:
        """Return ``(n, B, p)``: the row where masks are on, else each background row."""
        on = masks[:, None, self.background.feature_of]
        return np.where(on, self.x, self.background.rows)

    def payload(self) -> dict[str, Any]:
        """Return the row."""
        return {"row": self.x.tolist()}

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: some column of the feature differs from a background row, as shap sees it."""
        rows = self.background.rows
        differs = ~np.isclose(self.x, rows, equal_nan=True).all(axis=0)
        out = np.zeros(len(self.names), dtype=np.bool_)
        np.logical_or.at(out, self.background.feature_of, differs)
        return out

    @cached_property
    def values(self) -> tuple[object, ...]:
        """The value of each feature; of a group, the values of its columns."""
        of = self.background.feature_of
        parts = [self.x[of == i].tolist() for i in range(len(self.names))]
        return tuple(part[0] if len(part) == 1 else str(part) for part in parts)


class KernelExplainer:
    """shap's explainer of any function of rows; its arguments are shap's.

    A coalition is asked on every background row, as in shap, so that ``nsamples`` of them cost
    ``nsamples`` times as many model rows as the background has: `credex.BayesSHAP` needs far fewer.

    Parameters
    ----------
    model
        Maps ``(n, p)`` numpy arrays to ``(n,)`` or ``(n, k)`` numbers.
    data
        Background: an array, a frame, or what ``shap.kmeans`` returns.
    feature_names
        Names of the features; by default the columns of a frame.
    link
        ``"identity"`` or ``"logit"`` (of the mean over the background, as in shap).
    seed
        Seed of the coalitions, where shap reads numpy's global state.

    Attributes
    ----------
    expected_value
        Mean prediction over the background, after the link: a number, or ``(k,)``.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        feature_names: Sequence[str] | None = None,
        link: Any = "identity",
        *,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        for name, value in kwargs.items():
            if name not in ("keep_index", "keep_index_ordered"):
                raise InputError(f"KernelExplainer has no argument {name!r}")
            if value:
                msg = f"{name}={value!r}: the model gets arrays, without an index; "
                raise InputError(msg + "cx.BayesSHAP(model, frame) gives it frames")
        self.model, self.data, self.seed = model, data, seed
        self.link = _link(link)
        self._background = Background.of(data, feature_names)
        self._call: Callable[[Any], Any] = model if callable(model) else model.f  # shap's Model
        null = np.asarray(self._call(self._background.rows), dtype=np.float64)
        if null.ndim not in (1, 2) or len(null) != len(self._background.rows):
            msg = f"the model returned an array of shape {null.shape} for the "
            msg += f"{len(self._background.rows)} background rows; (n,) or (n, k) is needed"
            raise InputError(msg)
        self.vector_out = null.ndim == 2
        base = _linked(self._background.weights @ null, self.link)
        self.expected_value: float | Floats = base if self.vector_out else float(base)
        self._explainer = BayesSHAP(
            self._averaged, Coalitions(self._background), link=self.link, seed=seed
        )

    def _averaged(self, inputs: Floats) -> Floats:
        """Return the weighted mean over the background of each coalition, ``(n, k)``."""
        n, size, p = inputs.shape
        y = np.asarray(self._call(inputs.reshape(n * size, p)), dtype=np.float64)
        return np.asarray(np.einsum("nbk,b->nk", y.reshape(n, size, -1), self._background.weights))

    def explain_many(
        self,
        X: Any,
        *,
        nsamples: int | str = "auto",
        l1_reg: Any = None,
        silent: bool = False,
    ) -> Explanations:
        """Return credex's explanations of the rows of ``X``, with intervals.

        `shap_values` returns their means.
        """
        rows = np.atleast_2d(_numbers(X, "X"))
        p = self._background.rows.shape[1]
        if rows.shape[1] != p:
            raise InputError(f"X has {rows.shape[1]} columns; the background has {p}")
        d = len(self._background.names)
        n = 2 * d + EXTRA_SAMPLES if nsamples == "auto" else check_count("nsamples", nsamples)
        batch: Explanations = self._explainer.explain_many(
            rows,
            queries=n + 2,  # shap's count leaves out f(x) and the background
            features=_n_features(l1_reg, d),
            progress=False if silent else None,
        )
        size = len(self._background.rows)
        items = tuple(_counted(e, size) if isinstance(e, Explanation) else e for e in batch.items)
        return replace(batch, items=items, n_model_rows=batch.n_model_rows * size)

    def shap_values(self, X: Any, **kwargs: Any) -> Floats:
        """Return Shapley values: ``(d,)`` of one row, ``(n, d)`` of several.

        A model that returns ``(n, k)`` adds a last axis of length k.

        Parameters
        ----------
        X
            One row or several.
        **kwargs
            ``nsamples``: coalitions, each asked on every background row. ``l1_reg``:
            ``"num_features(K)"`` shares f(x) − base among K features; without it all features get
            a value, where shap keeps ten. ``silent``: no progress bar.
        """
        known = ("nsamples", "l1_reg", "silent", "gc_collect")
        for name in kwargs:
            if name not in known:
                raise InputError(f"there is no argument {name!r}; there are: {', '.join(known)}")
        if kwargs.pop("gc_collect", False):
            _ignored("gc_collect", "nothing is kept between rows that would have to be collected")
        one = np.ndim(X) == 1
        mean = self.explain_many(X, **kwargs).mean
        mean = mean[..., None] if self.vector_out and mean.ndim == 2 else mean
        return np.asarray(mean[0] if one else mean)

    def __call__(self, X: Any, l1_reg: Any = None, silent: bool = False) -> Any:
        """Return a ``shap.Explanation`` of rows, with intervals as its lower and upper bounds."""
        if np.ndim(X) != 2:
            raise InputError(f"X must be a table; its shape is {np.shape(X)}: use x.reshape(1, -1)")
        batch = self.explain_many(X, l1_reg=l1_reg, silent=silent)
        out = interop.to_shap(batch.explained, single=False)
        n = len(batch)
        base = np.tile(self.expected_value, (n, 1) if self.vector_out else n)
        if self.vector_out and out.values.ndim == 2:  # one output in an array of its own
            bounds = (out.lower_bounds[..., None], out.upper_bounds[..., None])
            out = type(out)(
                out.values[..., None],
                base_values=base,
                data=out.data,
                feature_names=out.feature_names,
                lower_bounds=bounds[0],
                upper_bounds=bounds[1],
                compute_time=out.compute_time,
            )
        out.base_values = base
        return out


def _counted(e: Explanation, size: int) -> Explanation:
    """Return the explanation with every model row counted: ``size`` for each coalition."""
    return replace(e, history=replace(e.history, n_model_rows=e.n_model_rows * size))


def _numbers(data: Any, what: str) -> Floats:
    if hasattr(data, "tocsr"):
        raise InputError(f"{what} is a sparse matrix; pass {what}.toarray()")
    try:
        out = np.array(data, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"{what} must be numbers, as in shap; cx.BayesSHAP(model, frame) takes text and dates"
        raise InputError(msg) from None
    if out.ndim not in (1, 2) or (out.ndim == 1 and what == "data"):
        raise InputError(f"{what} must have rows and columns; its shape is {out.shape}")
    return out


def _link(link: Any) -> str:
    """Return the name of a link that is given by name, or as shap's function or object."""
    name = link if isinstance(link, str) else getattr(link, "__name__", type(link).__name__)
    found = {"identity": "identity", "identitylink": "identity", "logit": "logit"}
    found["logitlink"] = "logit"
    if str(name).lower() not in found:
        raise InputError(f"link must be 'identity' or 'logit'; got {link!r}")
    return found[str(name).lower()]


def _linked(y: Floats, link: str) -> Floats:
    if link == "identity":
        return np.asarray(y)
    p = np.clip(y, LOGIT_CLIP, 1 - LOGIT_CLIP)
    return np.asarray(np.log(p / (1 - p)))


def _n_features(l1_reg: Any, d: int) -> int | None:
    """Return how many features ``l1_reg`` keeps; ``None`` keeps all."""
    if l1_reg is None or l1_reg is False or (not isinstance(l1_reg, str) and l1_reg == 0):
        return None
    found = re.fullmatch(r"num_features\((\d+)\)", l1_reg) if isinstance(l1_reg, str) else None
    if found:
        keep = check_count("num_features", int(found[1]))
        return keep if keep < d else None
    if l1_reg in ("auto", "aic", "bic") or isinstance(l1_reg, int | float | np.number):
        _ignored(f"l1_reg={l1_reg!r}", "every feature gets a value, and an interval beside it")
        return None
    msg = "l1_reg must be 'num_features(K)' or False, or 'auto', 'aic', 'bic' or a number, which "
    raise InputError(f"{msg}change nothing; got {l1_reg!r}")


def _ignored(name: str, why: str) -> None:
    warnings.warn(f"{name} changes nothing: {why}", stacklevel=4)
