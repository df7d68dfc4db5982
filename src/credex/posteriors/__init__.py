"""Posteriors: objects that answer. None of them chooses points."""

from credex.posteriors.exact import ExactPosterior
from credex.posteriors.linear import LinearPosterior
from credex.posteriors.regression import Prior
from credex.posteriors.shapley import ShapleyPosterior
from credex.posteriors.student import Belief, ErrorPosterior, Interval

__all__ = [
    "Belief",
    "ErrorPosterior",
    "ExactPosterior",
    "Interval",
    "LinearPosterior",
    "Prior",
    "ShapleyPosterior",
]
