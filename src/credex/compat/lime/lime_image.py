"""lime's explainer of images, computed by BayesLIME: change the import, keep the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credex.compat.lime.base import LimeExplainer, chosen_labels, class_outputs
from credex.compat.lime.results import ImageExplanation
from credex.domains import Image, Quickshift
from credex.domains.image.fills import NamedFill, mean_colour
from credex.domains.image.picture import Picture
from credex.domains.image.regions import Regions
from credex.errors import check_count
from credex.typing import Floats

__all__ = ["LimeImageExplainer"]

LIME_QUICKSHIFT_SEED = 42
"""Seed of scikit-image's quickshift that lime's default segmentation has."""


def _mean_colour(picture: Picture, regions: Regions) -> Floats:
    """Return each region's mean colour; lime cuts off what follows the decimal point."""
    colours = mean_colour(picture, regions)
    return np.trunc(colours) if picture.native.dtype.kind in "iu" else colours


class LimeImageExplainer(LimeExplainer):
    """lime's explainer of images; its arguments are lime's."""

    def __init__(
        self,
        kernel_width: float = 0.25,
        kernel: Callable[..., Any] | None = None,
        verbose: bool = False,
        feature_selection: str = "auto",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel_width=kernel_width,
            kernel=kernel,
            verbose=verbose,
            feature_selection=feature_selection,
            random_state=random_state,
        )

    def explain_instance(
        self,
        image: Any,
        classifier_fn: Callable[[Any], Any],
        labels: Sequence[int] = (1,),
        hide_color: Any = None,
        top_labels: int | None = 5,
        num_features: int = 100000,
        num_samples: int = 1000,
        batch_size: int = 10,
        segmentation_fn: Callable[[Any], Any] | None = None,
        distance_metric: str = "cosine",
        model_regressor: Any = None,
        random_seed: int | None = None,
    ) -> ImageExplanation:
        """Explain one picture: ``num_samples`` pictures with regions painted over.

        Regions are numbered from 0, also if ``segmentation_fn`` begins at 1 (lime then mixes them
        up). If there are no more than that many pictures, the importances are exact.
        """
        picture: NDArray[Any] = np.asarray(image)
        if picture.ndim == 2:
            picture = np.stack([picture] * 3, axis=2)
        seed = LIME_QUICKSHIFT_SEED if random_seed is None else random_seed
        segments = np.asarray((segmentation_fn or Quickshift(seed=seed))(picture))
        fill = NamedFill("the mean colour of the region", _mean_colour)
        domain = Image(segments, fill if hide_color is None else hide_color, channels="last")
        here = domain.at(picture)
        at_instance = class_outputs(classifier_fn(picture[None]), "one image")
        chosen, top = chosen_labels(at_instance, labels, top_labels)
        d = len(here.names)
        e = self._explain(
            domain,
            picture,
            classifier_fn,
            at_instance,
            labels=chosen,
            names=[str(j) for j in range(len(at_instance))],
            d=d,
            num_features=num_features,
            num_samples=num_samples,
            model_regressor=model_regressor,
            kernel=self._weighting(distance_metric, d),
            batch_rows=check_count("batch_size", batch_size),
        )
        regions = here.regions.labels
        return ImageExplanation(e, chosen, top, image=picture, segments=regions)
