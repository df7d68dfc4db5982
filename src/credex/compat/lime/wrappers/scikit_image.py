"""lime's wrapper of scikit-image's segmenters."""

from __future__ import annotations

from typing import Any

from credex.errors import InputError, MissingExtraError

__all__ = ["SegmentationAlgorithm"]


class SegmentationAlgorithm:
    """lime's wrapper of scikit-image's ``"quickshift"``, ``"felzenszwalb"`` and ``"slic"``."""

    def __init__(self, algo_type: str, **target_params: Any) -> None:
        if algo_type not in ("quickshift", "felzenszwalb", "slic"):
            known = "'quickshift', 'felzenszwalb' or 'slic'"
            raise InputError(f"algo_type must be {known}; got {algo_type!r}")
        self.algo_type, self.target_params = algo_type, target_params

    def __call__(self, image: Any) -> Any:
        """Cut the picture."""
        try:
            from skimage import segmentation
        except ImportError:
            msg = f"{self.algo_type} needs scikit-image: pip install 'credex[image]'"
            raise MissingExtraError(msg) from None
        params = dict(self.target_params)
        if "random_seed" in params:  # what scikit-image called it before
            params["rng"] = params.pop("random_seed")
        return getattr(segmentation, self.algo_type)(image, **params)
