"""`Published`: settings of the recipe that the code of the paper's authors follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from credex.errors import InputError, check_count

__all__ = ["Published"]


@dataclass(frozen=True, slots=True)
class Published:
    """The recipe of the code that the paper's authors published; ``"published"`` with settings.

    It differs from the paper's text. Both explainers: masks repeat, the instance is one of the N
    rows, and the intercept is a coefficient like the others, with the same unit prior. BayesLIME's
    weights are √exp(−D²/(0.75√d)²) with the Euclidean distance of 0/1 masks, on pictures too.
    BayesSHAP first asks ``screening`` perturbations that N does not count, and keeps the features
    with the largest coefficients in a plain ridge regression; the others stay at the instance's
    value. Its rows are each kept feature alone, the instance, and random ones: fair coins, or on
    tables lime's draws from the training data, where a mask is on in the instance's bin. Weights
    are the Shapley kernel among the kept features, and 1 for none and all of them. Intervals are
    of a Student-t with N degrees of freedom.

    Parameters
    ----------
    features
        How many features BayesSHAP keeps, or their names (as a longer run takes those of a
        shorter one); with as many as there are, there is no screening.
    screening
        Extra perturbations to choose them by. On tables the regression is on the values in
        standard deviations, categories by number.
    slip
        On tables, ask for single features as the code does: it leaves out a translation, so that
        these rows hold 0 and 1 (numbers of bins) in place of values. ``False`` takes the instance's
        value for the single feature and draws the others from other bins.

    Examples
    --------
    >>> import credex as cx
    >>> def v(masks):
    ...     return masks @ [1.0, 2.0, 3.0]
    >>> e = cx.BayesSHAP(v, cx.Masks(3), recipe=cx.Published(features=2)).explain(queries=60)
    >>> e.selected[:, 0].tolist()
    [False, True, True]
    """

    features: int | tuple[str, ...] = 15
    screening: int = 1_000
    slip: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.features, Sequence) and not isinstance(self.features, str):
            object.__setattr__(self, "features", tuple(self.features))  # a list is not hashable
            good = all(isinstance(name, str) for name in self.features)
            if not good or len(set(self.features)) < len(self.features) or not self.features:
                msg = "Published(features=) must be a number, or different names of features; "
                raise InputError(msg + f"got {self.features!r}")
        else:
            check_count("Published(features=)", self.features)
        check_count("Published(screening=)", self.screening)
        if not isinstance(self.slip, bool):
            raise InputError(f"Published(slip=) must be True or False; got {self.slip!r}")

    def stored(self) -> dict[str, Any]:
        """Return the settings as plain values; `Options` reads them."""
        return asdict(self)
