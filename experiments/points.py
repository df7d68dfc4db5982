"""Points of the stability experiment: an input, inputs near it, and what explains them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import credex as cx
from experiments.cases import Case, tables
from experiments.image_cases import PHOTOGRAPHS, Remembered, digit, photograph

__all__ = ["MOST", "Group", "Point", "groups"]

MOST = 4
"""Neighbours compared for a row of a table, nearest first."""

NOISE = {"digit": 0.02, "photograph": 2.0}
"""Standard deviation of what is added to a picture, in its own units (1 and 255 are white)."""

NEAR = {"digit": 2, "photograph": 1}
"""Neighbours of a picture."""


@dataclass(frozen=True)
class Point:
    """``rows (1 + m, …)``, the input first; its case; units ``scale`` of distances."""

    case: Case
    rows: np.ndarray
    scale: Any = None


@dataclass(frozen=True)
class Group:
    """Points of one kind of data, and how many perturbations the peers spend, by method."""

    name: str
    points: list[Point]
    samples: dict[str, int]


def groups(*, quick: bool) -> Iterator[Group]:
    """Tables, digits, photographs; ``quick``: three rows of one table and a digit."""
    count = 3 if quick else 40
    for case in tables(quick=quick):
        if case.name != "COMPAS, rearrest":
            near = [neighbourhood(case, i) for i in range(count)]
            yield Group(case.name, near, budgets(len(case.train.columns), 5_000, quick=quick))
    digits = [around(digit(4), i, i) for i in range(1 if quick else count)]
    yield Group("Digit 4", digits, budgets(20, 1_000, quick=quick))
    if not quick:
        pictures = [around(photograph(name), 0, i) for i, name in enumerate(PHOTOGRAPHS)]
        yield Group("Photographs", pictures, {"BayesLIME": 100, "BayesSHAP": 100})


def budgets(d: int, lime: int, *, quick: bool) -> dict[str, int]:
    """Return the perturbations that lime and shap take if not told."""
    return {"BayesLIME": 400 if quick else lime, "BayesSHAP": 400 if quick else 2 * d + 2_048}


def neighbourhood(case: Case, i: int) -> Point:
    """Return a test row and other test rows near it, as the paper's code finds them.

    Those within 0.1 standard deviations, or 0.2, 0.3, … until there is one; equal rows are left
    out.
    """
    rows, scale = case.instances.to_numpy(), case.train.std().to_numpy()
    away = np.linalg.norm((rows - rows[i]) / scale, axis=1)
    away[away == 0] = np.inf
    radius = 0.1
    while not np.any(away < radius):
        radius += 0.1
    near = np.flatnonzero(away < radius)
    near = near[np.argsort(away[near], kind="stable")][:MOST]
    return Point(case, np.vstack([rows[i], rows[near]]), scale)


def around(case: Case, i: int, seed: int) -> Point:
    """Return a picture and noisy copies of it, cut into the same regions.

    Pixels that are black stay so: what is switched off already is not to be switched on.
    """
    x = np.asarray(case.instances[i])
    rng = np.random.default_rng([7, seed])
    noise = rng.normal(0.0, NOISE[case.kind], (NEAR[case.kind], *x.shape))
    noisy = np.where(x > 0, x + noise, x)
    top = 255 if x.dtype == np.uint8 else 1.0
    floor = 1 if x.dtype == np.uint8 else 0.0
    noisy = np.where(x > 0, np.clip(np.round(noisy) if top == 255 else noisy, floor, top), x)
    labels = case.lime.at(x).regions.labels
    domain = cx.Image(segments=labels, fill=case.lime.fill)
    fixed = replace(case, lime=domain, shap=domain)
    fixed = replace(fixed, model=Remembered(case.model.model))  # forgotten with the point
    return Point(fixed, np.concatenate([x[None], noisy.astype(x.dtype)]))
