"""Cases of images: MNIST digits with a convolutional network, photographs with an ImageNet network.

The paper's 100 ImageNet images of four classes cannot be had from a package registry. In their
place stand four photographs that can, with the class that EfficientNet-Lite0 says first, and SLIC
with about 20 regions, as in the paper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import credex as cx
from experiments.cases import Case

__all__ = ["DIGITS", "PHOTOGRAPHS", "Remembered", "digit", "photograph"]

DIGITS = (1, 2, 3, 4, 5, 6, 7)
TABLE1 = {
    "Digit 1": ("95.8", "98.4"),
    "Digit 2": ("95.8", "97.4"),
    "Digit 3": ("95.2", "96.3"),
    "Digit 4": ("97.2", "90.1"),
    "Digit 5": ("95.2", "95.6"),
    "Digit 6": ("96.7", "96.8"),
    "Digit 7": ("95.7", "95.3"),
}
PHOTOGRAPHS = {
    "chelsea": ("Cat photograph", "French Bulldog", "94.8", "89.9"),
    "flamingo": ("Flamingo photograph", "Scuba Diver", "92.4", "94.6"),
    "coffee": ("Coffee photograph", "Corn", "94.6", "91.8"),
    "rocket": ("Rocket photograph", "Broccoli", "91.4", "89.2"),
}
"""Photographs: what each is called, the paper's class it stands in for, and that class's Table "
"1."""

REGIONS = 20
COMPACTNESS = 10.0
"""scikit-image's own: regions of a digit are nearly squares.

credex's for grey pictures, 0.1, follows strokes, and leaves a digit in so few regions that the
network is nearly linear in them.
"""

ENUMERATED = 12
"""Regions that are not black already, up to which all coalitions of a digit are asked."""


@cache
def digit(k: int, compactness: float = COMPACTNESS) -> Case:
    """Test digits ``k`` that the network names rightly; switched off is black, as in the paper."""
    from realdata.mnist import digits

    data = digits("test")
    mine = data.images[data.labels == k]
    right = mine[_scores(mine).argmax(axis=1) == k]
    domain = cx.Image(segments=cx.Slic(REGIONS, compactness=compactness), fill=0.0)
    name = f"Digit {k}"
    paper = dict(zip(("BayesLIME", "BayesSHAP"), TABLE1.get(name, ("–", "–")), strict=True))
    model = Remembered(partial(_probability, k=k))

    def exact(n: int) -> list[np.ndarray | None]:
        shap = cx.BayesSHAP(model, domain)
        few = [int(domain.at(x).active.sum()) <= ENUMERATED for x in right[:n]]
        return [
            shap.explain(x, posterior="exact").mean if ok else None
            for x, ok in zip(right[:n], few, strict=True)
        ]

    return Case(name, "digit", model, domain, domain, right, paper, exact)


def _probability(images: np.ndarray, *, k: int) -> np.ndarray:
    return _scores(images)[:, k]


@cache
def _network() -> Any:
    import torch

    from realdata.cnn import cnn

    torch.set_num_threads(1)
    return cnn()


def _scores(images: np.ndarray) -> np.ndarray:
    """Return ``(n, 10)`` probabilities, 200 digits at a time so that rows do not depend on n."""
    import torch

    network = _network()
    x = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32))[:, None]
    with torch.no_grad():
        parts = [torch.softmax(network(part), dim=1) for part in x.split(200)]
    return torch.cat(parts).double().numpy()


@cache
def photograph(name: str) -> Case:
    """One photograph, and the class that the network says first; switched off is black."""
    from realdata.imagenet import class_names, classifier
    from realdata.photographs import photograph as picture

    pixels = picture(name).pixels
    output = int(classifier().predict_proba(pixels[None])[0].argmax())
    title, stands, lime, shap = PHOTOGRAPHS[name]
    domain = cx.Image(segments=cx.Slic(REGIONS), fill=0)
    return Case(
        title,
        "photograph",
        Remembered(lambda x: classifier().predict_proba(x)[:, output]),
        domain,
        domain,
        [pixels],
        {"BayesLIME": lime, "BayesSHAP": shap},
        about=f"stands in for {stands}; the network says “{class_names()[output]}”",
    )


class Remembered:
    """A model that is asked for each picture once: recipes and seeds repeat each other's masks."""

    def __init__(self, model: Callable[[np.ndarray], np.ndarray]) -> None:
        self.model = model
        self.known: dict[bytes, float] = {}

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """Return the outputs ``(n,)``; only new pictures reach the model."""
        keys = [hashlib.blake2b(p.tobytes(), digest_size=16).digest() for p in pictures]
        new = {key: i for i, key in enumerate(keys) if key not in self.known}
        if new:
            found = self.model(pictures[list(new.values())])
            self.known.update(zip(new, found.tolist(), strict=True))
        return np.array([self.known[key] for key in keys])
