"""Domains: what an input is made of, and how its parts are switched off."""

from __future__ import annotations

from credex.domains.base import Domain, Neighbourhood, Perturbations
from credex.domains.masks import Masks
from credex.domains.series import Series
from credex.domains.tabular import Tabular
from credex.domains.text import Text

__all__ = ["Domain", "Masks", "Neighbourhood", "Perturbations", "Series", "Tabular", "Text"]
