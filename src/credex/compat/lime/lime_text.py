"""lime's explainer of texts, computed by BayesLIME: change the import, keep the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lgamma, log
from typing import Any

import numpy as np

from credex.compat.lime.base import LimeExplainer, chosen_labels, class_outputs, ignored
from credex.compat.lime.results import LimeExplanation
from credex.designs.samplers import Candidates, Predictive
from credex.domains import Text
from credex.typing import Design, Floats, Weights

__all__ = ["LimeTextExplainer"]

TEXT_SCALE = 100.0
"""lime multiplies the distances of texts by this."""


@dataclass(frozen=True, slots=True)
class UniformSizes:
    """lime's texts: first how many words to remove, 1 to d with equal chances, then which."""

    paired: bool = False
    uniform: bool = False
    name: str = "uniform sizes"

    def select(
        self, stream: Any, n: int, posterior: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Draw ``n`` masks; they may repeat."""
        del posterior
        d = stream.sequence.d
        order = rng.random((n, d)).argsort(axis=1).argsort(axis=1)
        return Candidates(order >= rng.integers(1, d + 1, (n, 1)), np.arange(n))


@dataclass(frozen=True, slots=True)
class WeightedBySize:
    """A kernel times the probability of each mask in lime's texts; for all masks of a text."""

    kernel: Any
    n: int  # rows, of which lime's first is the text itself

    def weights(self, design: Design, origin: Floats) -> Weights:
        """Weights of the masks ``design (m, d)``."""
        d = design.shape[1]
        s = range(1, d + 1)  # 1 / (d · C(d, s)): log of d · d! / (s! (d − s)!)
        logs = [lgamma(i + 1) + lgamma(d - i + 1) - lgamma(d + 1) - log(d) for i in s]
        chance = np.array([1 / self.n, *np.exp(logs)])
        removed = d - np.asarray(design).sum(axis=1).astype(np.int64)
        return np.asarray(self.kernel.weights(design, origin) * chance[removed])


class LimeTextExplainer(LimeExplainer):
    """lime's explainer of texts; its arguments are lime's."""

    factor = TEXT_SCALE

    def __init__(
        self,
        kernel_width: float = 25,
        kernel: Callable[..., Any] | None = None,
        verbose: bool = False,
        class_names: Sequence[str] | None = None,
        feature_selection: str = "auto",
        split_expression: str | Callable[[str], list[str]] = r"\W+",
        bow: bool = True,
        mask_string: str | None = None,
        random_state: Any = None,
        char_level: bool = False,
    ) -> None:
        super().__init__(
            kernel_width=kernel_width,
            kernel=kernel,
            verbose=verbose,
            feature_selection=feature_selection,
            random_state=random_state,
        )
        if bow and mask_string is not None:
            ignored("mask_string", "as in lime it needs bow=False; words are removed")
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        unit: Any = split_expression
        if char_level:
            unit = _characters
        elif isinstance(split_expression, str):
            unit = _Words(re.compile(split_expression))
        mask = mask_string or ("\0" if char_level else "UNKWORDZ")
        self._domain = Text(unit, mask="" if bow else mask, repeats="shared" if bow else "separate")

    def explain_instance(
        self,
        text_instance: str,
        classifier_fn: Callable[[Any], Any],
        labels: Sequence[int] = (1,),
        top_labels: int | None = None,
        num_features: int = 10,
        num_samples: int = 5000,
        distance_metric: str = "cosine",
        model_regressor: Any = None,
    ) -> LimeExplanation:
        """Explain one text: ``num_samples`` texts with words removed, as lime draws them.

        If there are no more than that many, each is asked once, and the importances are exact.
        """
        here = self._domain.at(text_instance)
        at_instance = class_outputs(classifier_fn([text_instance]), "one text")
        chosen, top = chosen_labels(at_instance, labels, top_labels)
        names = self.class_names or [str(j) for j in range(len(at_instance))]
        d = len(here.names)
        kernel: Any = self._weighting(distance_metric, d)
        options: dict[str, Any] = {"sampler": UniformSizes()}
        if d < 62 and 2**d - 1 <= num_samples:
            options, kernel = {}, WeightedBySize(kernel, num_samples)
        e = self._explain(
            self._domain,
            text_instance,
            classifier_fn,
            at_instance,
            labels=chosen,
            names=names,
            d=d,
            num_features=num_features,
            num_samples=num_samples,
            model_regressor=model_regressor,
            kernel=kernel,
            **options,
        )
        spans = (part[0] for part in e.payload["spans"])
        words = tuple(text_instance[a:b] for a, b in spans)
        e = replace(e, instance=replace(e.instance, labels=words))
        return LimeExplanation(
            e, chosen, top, mode="classification", class_names=names, at_instance=at_instance
        )


@dataclass(frozen=True, slots=True)
class _Words:
    """What lies between matches of a pattern."""

    between: re.Pattern[str]

    def __call__(self, text: str) -> list[tuple[int, int]]:
        cuts = [(0, 0), *(m.span() for m in self.between.finditer(text)), (len(text), len(text))]
        return [(end, start) for (_, end), (start, _) in pairwise(cuts) if end < start]


def _characters(text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(len(text))]
