"""credex: explanations of single predictions, and how far each number can be trusted."""

from credex import metrics
from credex.aggregate import Aggregate, aggregate
from credex.designs.coalitions import shapley_kernel
from credex.designs.paper_focused import PaperFocused
from credex.designs.perturbations import Exponential
from credex.designs.samplers import Focused, Paired, Random
from credex.domains import (
    Blur,
    Felzenszwalb,
    Grid,
    Image,
    Masks,
    Noise,
    Quickshift,
    Series,
    Slic,
    Tabular,
    Text,
)
from credex.errors import (
    BudgetError,
    CredexError,
    InputError,
    InterruptedRun,
    MissingExtraError,
    ModelError,
    ModelOutputError,
    ModelRaisedError,
    OutputError,
    RandomModelError,
    StoppedRun,
)
from credex.estimators.forecast import Forecast, perturbations_to_go
from credex.explanation import Explanation
from credex.explanations import Explanations, Failure
from credex.interactions import Interactions
from credex.lime import BayesLIME
from credex.loss_shares import LossShares
from credex.models import from_http, from_onnx, from_torch
from credex.models.pipelines import from_pipeline
from credex.posteriors import ErrorPosterior, Interval, LinearPosterior, Prior
from credex.recipes import Published
from credex.saved_batch import SavedBatch, read_batch
from credex.shap import BayesSHAP
from credex.stopping import Queries, RankingSettled, RelativeWidth, WallClock, Width
from credex.verify import Verification

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "BayesLIME",
    "BayesSHAP",
    "Blur",
    "BudgetError",
    "CredexError",
    "ErrorPosterior",
    "Explanation",
    "Explanations",
    "Exponential",
    "Failure",
    "Felzenszwalb",
    "Focused",
    "Forecast",
    "Grid",
    "Image",
    "InputError",
    "Interactions",
    "InterruptedRun",
    "Interval",
    "LinearPosterior",
    "LossShares",
    "Masks",
    "MissingExtraError",
    "ModelError",
    "ModelOutputError",
    "ModelRaisedError",
    "Noise",
    "OutputError",
    "Paired",
    "PaperFocused",
    "Prior",
    "Published",
    "Queries",
    "Quickshift",
    "Random",
    "RandomModelError",
    "RankingSettled",
    "RelativeWidth",
    "SavedBatch",
    "Series",
    "Slic",
    "StoppedRun",
    "Tabular",
    "Text",
    "Verification",
    "WallClock",
    "Width",
    "aggregate",
    "from_http",
    "from_onnx",
    "from_pipeline",
    "from_torch",
    "metrics",
    "perturbations_to_go",
    "read_batch",
    "shapley_kernel",
]


def __dir__() -> list[str]:
    """Show the public names only."""
    return list(__all__)
