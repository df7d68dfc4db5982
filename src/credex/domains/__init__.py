"""Domains: what an input is made of, and how its parts are switched off."""

from __future__ import annotations

from credex.domains.base import Domain, Neighbourhood
from credex.domains.image.fills import Blur, Noise
from credex.domains.image.image import Image
from credex.domains.image.regions import Felzenszwalb, Grid, Quickshift, Slic
from credex.domains.masked import MaskedDomain, MaskedNeighbourhood, Masks
from credex.domains.series import Series
from credex.domains.tabular.tabular import Tabular
from credex.domains.text.text import Text

__all__ = [
    "Blur",
    "Domain",
    "Felzenszwalb",
    "Grid",
    "Image",
    "MaskedDomain",
    "MaskedNeighbourhood",
    "Masks",
    "Neighbourhood",
    "Noise",
    "Quickshift",
    "Series",
    "Slic",
    "Tabular",
    "Text",
]
