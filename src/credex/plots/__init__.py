"""Plots: ``e.plot.intervals()``, ``e.plot.waterfall()``, ``batch.plot.beeswarm()`` and others.

matplotlib is imported when the first plot is drawn. No plot opens a window or changes ``rcParams``
or the backend: text and axes follow the current style.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from credex.estimators.forecast import Forecast
from credex.explanation_base import ExplanationBase
from credex.plots import (
    compare,
    forecast,
    image,
    intervals,
    pairs,
    ranks,
    reliability,
    series,
    trace,
    waterfall,
)
from credex.plots.batch import BatchPlots
from credex.plots.text import TextPlot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BatchPlots", "Plots", "reliability"]


@dataclass(frozen=True, slots=True, eq=False)
class Plots:
    """The plots of one explanation.

    Everywhere ``output`` says which output, by name or number, and is needed only if there are
    several; ``level`` is the level of the intervals, by default the explanation's; ``ax`` is where
    to draw, by default a new figure. Save a plot with ``ax.figure.savefig("why.png")``.
    """

    explanation: ExplanationBase

    def intervals(
        self,
        *,
        output: Any = None,
        most: int = 15,
        level: float | None = None,
        ax: Axes | None = None,
        sort: bool = True,
    ) -> Any:
        """Draw a forest plot: a stroke at each importance, thick 50 % and thin ``level`` intervals.

        Orange raises the prediction, blue lowers it; a feature whose interval includes zero is
        pale and hollow, one that is known exactly is a diamond. Panels of several outputs have one
        scale.

        Parameters
        ----------
        output, level
            See `Plots`; by default a panel for each output.
        most
            Rows; the features with the largest importances are drawn.
        ax
            Where to draw. A new figure, as high as its rows need, also prints the numbers.
        sort
            Largest importance first; ``False`` keeps the order of the columns.

        Returns
        -------
        matplotlib.axes.Axes
            With several outputs an array of them.

        Examples
        --------
        >>> import credex as cx
        >>> e = cx.BayesSHAP(lambda m: m @ [1.0, -2.0], cx.Masks(2)).explain()
        >>> ax = e.plot.intervals()
        >>> [t.get_text() for t in ax.get_yticklabels()]
        ['part 1', 'part 0']
        """
        if output is None and ax is None and len(self.explanation.outputs) > 1:
            return intervals.draw_panels(self.explanation, most, level, sort=sort)
        return intervals.draw(self.explanation, output, most, level, ax, sort=sort)

    def text(self, *, output: Any = None, level: float | None = None) -> TextPlot:
        """Draw a text with its importances: colour says how much, underline how certain.

        Orange raises the prediction, blue lowers it. A solid underline: the interval excludes
        zero; a dotted one: it does not.

        Returns
        -------
        TextPlot
            Shown by a notebook; ``print`` it in a terminal, ``save("why.html")`` it, or take its
            ``html``, a whole page.

        Examples
        --------
        >>> import credex as cx
        >>> def model(texts):
        ...     return [len(t.split()) + 4.0 * ("free" in t) for t in texts]
        >>> e = cx.BayesSHAP(model, cx.Text()).explain("a free phone")
        >>> print(e.plot.text().terminal(colour=False).splitlines()[2])
        [+a] [+++free] [+phone]
        """
        return TextPlot.of(self.explanation, output, level)

    def series(self, *, output: Any = None, level: float | None = None) -> Any:
        """Draw a time series with its segments shaded, and their importances below.

        Returns
        -------
        numpy.ndarray of matplotlib.axes.Axes
            Channels and importances from top to bottom.
        """
        return series.draw(self.explanation, output, level)

    def ranks(self, *, output: Any = None, most: int = 10, ax: Axes | None = None) -> Axes:
        """Draw how likely each feature is to rank 1st, 2nd, … by the size of its importance.

        Probabilities above 0.05 are printed in their cells. ``most`` is the number of rows, and
        of ranks; ranks beyond are one column, "later".
        """
        return ranks.draw(self.explanation, output, most, ax)

    def waterfall(
        self,
        *,
        output: Any = None,
        most: int = 10,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the steps from the base value to the prediction, with whiskers.

        The largest importances are on top; the features beyond ``most`` are one step, whose
        interval is that of their sum. Pale: the interval includes zero.
        """
        return waterfall.draw(self.explanation, output, most, level, ax)

    def pairs(
        self,
        first: str | int | None = None,
        second: str | int | None = None,
        *,
        output: Any = None,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the joint posterior of two features, by default of the two largest.

        A narrow slanted shape: what one of them has, the other has not. Dashed lines are where
        both are equally important.
        """
        return pairs.draw(self.explanation, first, second, output, level=level, ax=ax)

    def trace(
        self,
        states: Iterable[Any],
        *,
        output: Any = None,
        most: int = 4,
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw how importances and intervals changed in a run: ``states = list(s.iterate(x))``.

        ``most`` features (six at most) with the largest importances; earlier explanations of the
        same instance will do, too.
        """
        return trace.draw(self.explanation, states, output, most, level=level, ax=ax)

    def forecast(self, forecast_: Forecast, *, ax: Axes | None = None) -> Axes:
        """Draw how many queries a width takes: the forecast that began with this explanation.

        ``forecast.plot()`` does the same.
        """
        return forecast.draw(self.explanation, forecast_, ax)

    def compare(
        self,
        other: ExplanationBase,
        *,
        output: Any = None,
        most: int = 15,
        level: float | None = None,
        names: tuple[str, str] = ("this", "the other"),
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the differences to another explanation, of another model, version or row.

        Features are matched by name. A difference is real if its interval excludes zero; P(sign)
        is the probability that it has the sign it shows. ``names`` are for the title.
        """
        return compare.draw(self.explanation, other, output, most, level, names=names, ax=ax)

    # -- images --------------------------------------------------------------------------------

    def overlay(
        self, *, output: Any = None, level: float | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw the image with its regions coloured by importance.

        Orange raises the prediction, blue lowers it, the stronger the more. A region whose
        interval includes zero is pale and hatched. A new figure also has a colour bar.
        """
        return image.overlay(self.explanation, output, level, ax)

    def regions(
        self,
        k: int = 4,
        *,
        output: Any = None,
        level: float | None = None,
        signed: bool = False,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the ``k`` regions with the largest importances; the rest of the image is dimmed.

        Each is outlined (orange raises, blue lowers; dashed if its interval includes zero) and
        numbered by rank; the numbers are listed below. ``signed``: the largest φ instead of the
        largest |φ|, that is, only what raises the prediction.
        """
        return image.regions(self.explanation, k, output, level, ax, signed=signed)

    def posterior_gif(
        self,
        path: str | Path,
        *,
        draws: int = 8,
        seconds: float = 8.0,
        output: Any = None,
        seed: int = 0,
    ) -> Path:
        """Write an animation of draws from the posterior.

        Every frame colours the image by one draw of the importances: regions that keep their
        colour are certain, regions that change between orange and blue are not.

        Parameters
        ----------
        path
            Where to write the GIF.
        draws
            Number of independent draws; the animation passes through all and begins again.
        seconds
            Length of the animation.
        output
            See `Plots`.
        seed
            Seed of the draws.
        """
        return image.posterior_gif(
            self.explanation, path, draws=draws, seconds=seconds, output=output, seed=seed
        )
