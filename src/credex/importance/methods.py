"""`LossMethods`: the part of an explainer that is about the loss of its model."""

from __future__ import annotations

from typing import Any, Unpack

from credex.errors import check_count, check_positive
from credex.estimators.forecast import Forecast
from credex.explainer_base import ExplainerBase, on_screen
from credex.importance.plan import plan_loss
from credex.loss_shares import LossShares
from credex.options import OptionsDict
from credex.progress import progress_bar
from credex.stopping import CallDict, Goals, Width, split_call

__all__ = ["LossMethods"]

SEED_QUERIES = 800
"""Model rows of a forecast: 60 rows with two pairs, on three background rows each."""


class LossMethods(ExplainerBase):
    """What explainers say about a model's loss."""

    def explain_loss(
        self,
        X: Any,
        y: Any,
        *,
        loss: str,
        max_rows: int | None = None,
        progress: bool | None = None,
        **call: Unpack[CallDict],
    ) -> LossShares:
        """Divide what the model takes off the loss among its features (SAGE values).

        For BayesSHAP on tables. The value of a coalition is the negative mean loss over the rows of
        ``X``, with predictions that are averaged over all background rows where a feature is off.
        φ of a feature is its Shapley value; all of them sum to the loss of the mean prediction less
        that of the model. Rows are chosen at random, each class apart; a surrogate of the model
        says what it can of all rows, and intervals are about all rows of ``X``, whatever the
        surrogate misses (see docs/method.md).

        Parameters
        ----------
        X
            Rows with known labels: a frame, a 2-D array or a list of rows, 10 or more.
        y
            A label for each row. For cross-entropy a class of the model, or if it has no
            ``classes_`` the column of its outputs, 0, 1, …; 0 or 1 if it returns one probability.
        loss
            ``"squared error"``, of one output, or ``"cross-entropy"``, of all (``target`` is not
            used), in which probabilities below 1e-6 count as 1e-6.
        max_rows
            Rows of ``X`` to ask about, at most.
        progress
            A bar of the model rows sent; by default on a terminal only.
        **call
            ``width``: stop when every interval of a φ is at most this wide. ``stop``: a rule, such
            as ``RankingSettled(3, 0.95)`` or ``RelativeWidth(0.1)``. ``queries``: spend this many
            model rows. ``max_queries``: ceiling for the others, 20,000 by default. By default
            intervals are at most 20 % of the largest φ. And the options ``target``, ``level``,
            ``seed``, ``batch_rows``, ``concurrency``.

        Examples
        --------
        >>> import numpy as np, credex as cx
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> shap = cx.BayesSHAP(lambda rows: rows @ [3.0, 1.0, 0.0], X[:100])
        >>> y = X @ [3.0, 1.0, 0.0]
        >>> found = shap.explain_loss(X, y, loss="squared error", queries=400)
        >>> found.order
        [0, 1, 2]
        """
        goals, opts = split_call(call, self.options)
        run = plan_loss(self, X, goals, opts, y=y, loss=loss, max_rows=max_rows)
        with progress_bar("explaining", goals.ceiling[0], show=on_screen(progress)) as bar:
            run.queue.on_call = bar.update
            return run.run()

    def forecast_loss(
        self,
        X: Any,
        y: Any,
        *,
        loss: str,
        width: float,
        seed_queries: int = SEED_QUERIES,
        row_cost: float | None = None,
        **options: Unpack[OptionsDict],
    ) -> Forecast:
        """Spend ``seed_queries`` model rows and say how many more `explain_loss` takes.

        As ``forecast_global`` does it, for intervals of shares of the loss. What few rows decide
        takes more.
        """
        if row_cost is not None:
            check_positive("row_cost", row_cost)
        opts, limits = self.options.override(options), Width(width)
        goals = Goals(queries=check_count("seed_queries", seed_queries))
        run = plan_loss(self, X, goals, opts, y=y, loss=loss)
        return run.forecast(limits.width, row_cost)
