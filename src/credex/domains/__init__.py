"""Domains: what an input is made of, and how its parts are switched off."""

from __future__ import annotations

from credex.domains.base import Domain, Neighbourhood, Perturbations
from credex.domains.masks import Masks
from credex.domains.tabular import Tabular

__all__ = ["Domain", "Masks", "Neighbourhood", "Perturbations", "Tabular"]
