"""Images: pictures, whose features are regions that are kept or painted over."""

from credex.domains.image.fills import Blur, Noise
from credex.domains.image.image import Image
from credex.domains.image.regions import Felzenszwalb, Grid, Quickshift, Slic

__all__ = ["Blur", "Felzenszwalb", "Grid", "Image", "Noise", "Quickshift", "Slic"]
