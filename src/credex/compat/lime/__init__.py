"""lime's explainers, computed by BayesLIME; modules and classes have lime's names."""

from credex.compat.lime import lime_image, lime_tabular, lime_text
from credex.compat.lime.lime_image import LimeImageExplainer
from credex.compat.lime.lime_tabular import LimeTabularExplainer
from credex.compat.lime.lime_text import LimeTextExplainer
from credex.compat.lime.results import ImageExplanation, LimeExplanation
from credex.compat.lime.wrappers.scikit_image import SegmentationAlgorithm

__all__ = [
    "ImageExplanation",
    "LimeExplanation",
    "LimeImageExplainer",
    "LimeTabularExplainer",
    "LimeTextExplainer",
    "SegmentationAlgorithm",
    "lime_image",
    "lime_tabular",
    "lime_text",
]
