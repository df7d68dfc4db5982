"""`Image`: pictures, whose features are regions that are kept or painted over."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np

from credex.domains.draws import blocks
from credex.domains.image.compose import Mixer
from credex.domains.image.fills import fill_of
from credex.domains.image.picture import Channels, Picture, Pixels, packed, read, unpacked
from credex.domains.image.regions import Regions, Slic, cut
from credex.errors import InputError
from credex.typing import Floats, Ints, Masks, Native

__all__ = ["Image", "ImageNeighbourhood"]

LAYERS = 4
"""Pictures are counted this many times when a model call is sized."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A picture that an explanation kept, with the regions it was cut into."""

    picture: Picture
    regions: Regions


class Image:
    """A domain of pictures: arrays, torch tensors, PIL images, or paths of files.

    Parameters
    ----------
    segments
        How a picture is cut into regions: `Slic`, `Quickshift`, `Felzenszwalb`, `Grid`, an
        ``(H, W)`` array of labels (its numbers become the names), or a function of the picture
        (``(H, W, C)`` floats between 0 and 1) that returns one.
    fill
        What takes the place of a region that is switched off: ``"mean"`` (its own mean colour), a
        number or a colour in the picture's own units, `Blur`, `Noise`, ``"inpaint"`` (what the
        pixels around it suggest), or another picture of the same shape.
    channels
        ``"first"``, ``"last"`` or ``"none"``; ``None`` looks for an axis of length 1, 3 or 4.
    value_range
        Smallest and largest possible value of a pixel; ``None``: 0…255 for uint8, 0…1 for floats
        that lie there, else 0…255 if they fit.

    Notes
    -----
    The model is given pictures as they came: a batch with the same dtype and layout; torch tensors
    for a tensor, a list of PIL images for a PIL image, ``(n, H, W, C)`` uint8 for a path.

    Examples
    --------
    >>> import credex as cx
    >>> import numpy as np
    >>> picture = np.zeros((8, 8))
    >>> picture[:4, :4] = 1.0  # a bright corner
    >>> brightness = lambda pictures: pictures.mean(axis=(1, 2))
    >>> e = cx.BayesSHAP(brightness, cx.Image(segments=cx.Grid(2, 2), fill=0.0)).explain(picture)
    >>> e.mean
    array([0.25, 0.  , 0.  , 0.  ])
    """

    names = None  # every picture has regions of its own

    def __init__(
        self,
        segments: Any = None,
        fill: Any = "mean",
        *,
        channels: Channels | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        if isinstance(segments, str | int | float):
            msg = f"segments={segments!r} is not known; use cx.Slic(20), cx.Grid(4, 5), "
            msg += "cx.Quickshift(), cx.Felzenszwalb(), an array of labels, or a function"
            raise InputError(msg)
        if channels is not None and channels not in get_args(Channels):
            msg = f"channels must be 'first', 'last' or 'none'; got {channels!r}"
            raise InputError(msg)
        if value_range is not None and not value_range[0] < value_range[1]:
            msg = f"value_range must be (low, high) with low < high; got {value_range!r}"
            raise InputError(msg)
        self.segments = Slic() if segments is None else segments
        self.fill = fill_of(fill)
        self.channels = channels
        self.value_range = value_range
        self.summary = f"switched off: {self.fill.words}"

    def at(self, x: Any) -> ImageNeighbourhood:
        """Cut one picture into regions and make its replacement."""
        if isinstance(x, _Kept):
            return self._around(x.picture, x.regions)
        picture = self._read(x)
        return self._around(picture, cut(picture, self.segments))

    def _read(self, x: Any) -> Picture:
        if x is None:
            msg = "explain() needs an image: an array, a PIL image or a path"
            raise InputError(msg)
        return read(x, channels=self.channels, value_range=self.value_range)

    def _around(self, picture: Picture, regions: Regions) -> ImageNeighbourhood:
        replacement = picture.like(self.fill.pixels(picture, regions))
        return ImageNeighbourhood(picture, regions, replacement, self.fill.words)

    def split(self, X: Any) -> list[Any]:
        """Take a batch apart: ``(n, …)`` pictures, or a list of pictures of any size and kind."""
        if isinstance(X, str) or hasattr(X, "getbands") or hasattr(X, "as_posix"):
            msg = "explain_many() takes several images; pass [image], or use explain(image)"
            raise InputError(msg)
        shape = getattr(X, "shape", None)
        if shape is not None:
            one = len(shape) < 3 or (len(shape) == 3 and self._looks_like_one(shape))
            if one:
                msg = f"explain_many() takes (n, H, W) or (n, H, W, C) images; shape {shape} is "
                msg += "one image: pass x[None], or use explain(x)"
                raise InputError(msg)
        return list(X)

    def _looks_like_one(self, shape: Sequence[int]) -> bool:
        return self.channels in ("first", "last") or (shape[2] in (3, 4) and self.channels is None)

    def concat(self, inputs: Sequence[Native]) -> Native:
        """Stack batches of one form."""
        if isinstance(inputs[0], list):
            return [picture for block in inputs for picture in block]
        if isinstance(inputs[0], np.ndarray):
            return np.concatenate(list(inputs))
        import torch

        return torch.cat(list(inputs))

    def restore(self, payload: Any) -> Any:
        """Turn what an explanation kept back into an instance, with its own regions."""
        if not isinstance(payload, dict) or payload.get("domain") != "image":
            msg = "this explanation is not of an image"
            raise InputError(msg)
        if payload["fill"] != self.fill.words:
            msg = f"this explanation was made with another fill ({payload['fill']}), now it is "
            msg += f"{self.fill.words}: what was asked does not fit"
            raise InputError(msg)
        picture, regions = seen(payload)
        return _Kept(picture, regions)


def seen(payload: dict[str, Any]) -> tuple[Picture, Regions]:
    """Return the picture and the regions that an explanation's payload holds."""
    labels = unpacked(payload["labels"]).astype(np.int64)
    return Picture.from_payload(payload["picture"]), Regions(labels, tuple(payload["numbers"]))


@dataclass(frozen=True)
class ImageNeighbourhood:
    """One picture, its regions, and what they are painted over with."""

    picture: Picture
    regions: Regions
    replacement: Pixels
    removal: str
    by_masks: bool = True
    base_key: None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """``region 0``, … by the segmenter's own numbers."""
        return self.regions.names

    @cached_property
    def values(self) -> tuple[object, ...]:
        """Where each region lies, and its share of the picture."""
        return self.regions.places()

    @property
    def label(self) -> object:
        """The path, if there was one."""
        return self.picture.label

    @cached_property
    def active(self) -> Masks:
        """``(d,)``: the region differs from its replacement somewhere."""
        differs = self.picture.native != self.replacement
        return np.bincount(self._labels[differs], minlength=self.regions.d) > 0

    @property
    def _labels(self) -> Ints:
        """Region of every number of the picture, in its own layout."""
        labels, layout = self.regions.labels, self.picture.layout
        if layout != "HW":
            labels = labels[None] if layout == "CHW" else labels[:, :, None]
        return np.broadcast_to(labels, self.picture.native.shape)

    @cached_property
    def background_weights(self) -> Floats:
        """``(1,)`` the number 1."""
        return np.ones(1)

    @property
    def background_note(self) -> str:
        """The empty coalition."""
        return f"every region replaced by {self.removal}"

    @property
    def row_bytes(self) -> int:
        """Four times the bytes of one picture: a network holds its layers besides its input."""
        return LAYERS * self.picture.native.nbytes

    @property
    def form(self) -> Hashable:
        """Pictures of one shape and type stack."""
        return self.picture.form

    @cached_property
    def design_at(self) -> Floats:
        """``(d,)`` ones."""
        return np.ones(self.regions.d)

    @property
    def unit(self) -> tuple[str, ...]:
        """``"per part present"`` for each region."""
        return ("per part present",) * self.regions.d

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    def base_inputs(self) -> Native:
        """Return the replacement."""
        return self.picture.batch(self.replacement[None].copy())

    def instance_inputs(self) -> Native:
        """Return the picture."""
        return self.picture.batch(self.picture.native[None].copy())

    @cached_property
    def mixer(self) -> Mixer:
        """Makes perturbed pictures."""
        return Mixer.of(self.picture.native, self.replacement, self._labels)

    def coalition_inputs(
        self,
        masks: Masks,
        *,
        merge: bool = True,  # noqa: ARG002 - one picture a mask
    ) -> tuple[Native, None]:
        """Return a picture for each of ``(n, d)`` masks."""
        return self.picture.batch(self.mixer(np.asarray(masks, dtype=np.bool_))), None

    def perturb(self, seed: int, start: int, stop: int) -> _MaskedRows:
        """Masks ``start`` to ``stop`` of fair coin flips, and the pictures they make."""
        flips = blocks(seed, "masks", start, stop, self.regions.d) < 0.5
        return _MaskedRows(self, flips)

    @cached_property
    def _payload(self) -> dict[str, Any]:
        labels = self.regions.labels
        return {
            "domain": "image",
            "picture": self.picture.payload(),
            "labels": packed(labels.astype(np.uint8 if self.regions.d <= 256 else np.uint16)),
            "numbers": list(self.regions.numbers),
            "fill": self.removal,
            "replacement": hashlib.sha256(self.replacement.tobytes()).hexdigest(),
        }

    def payload(self) -> dict[str, Any]:
        """Return the picture and its regions, compressed, and a fingerprint of the replacement."""
        return self._payload


@dataclass(frozen=True, slots=True)
class _MaskedRows:
    around: ImageNeighbourhood
    masks: Masks

    key = None

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def design(self) -> Masks:
        return self.masks

    def inputs(self) -> Native:
        return self.around.coalition_inputs(self.masks)[0]

    def pick(self, positions: Ints) -> Native:
        return self.around.coalition_inputs(self.masks[positions])[0]

    def coordinates(self) -> Floats:
        return self.masks.astype(np.float64)

    def unique(self) -> tuple[Native, Ints | None]:
        return self.inputs(), None
