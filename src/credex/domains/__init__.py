"""Domains: what an input is made of, and how its parts are switched off."""

from __future__ import annotations

from credex.domains.base import Domain, Neighbourhood, Perturbations
from credex.domains.fills import Blur, Noise
from credex.domains.image import Image
from credex.domains.masks import Masks
from credex.domains.segments import Felzenszwalb, Grid, Quickshift, Slic
from credex.domains.series import Series
from credex.domains.tabular import Tabular
from credex.domains.text import Text

__all__ = [
    "Blur",
    "Domain",
    "Felzenszwalb",
    "Grid",
    "Image",
    "Masks",
    "Neighbourhood",
    "Noise",
    "Perturbations",
    "Quickshift",
    "Series",
    "Slic",
    "Tabular",
    "Text",
]
