"""The paper's black box for tables: an 80/20 split and a forest of 100 trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from realdata import compas, german

__all__ = ["Forest", "Which", "forest"]

Which = Literal["compas", "rearrest", "german"]


@dataclass(frozen=True)
class Forest:
    """A fitted forest and the rows it was fitted on and is explained on.

    Attributes
    ----------
    train, test
        Frames of float64.
    categorical
        Columns that hold 0 or 1.
    accuracy
        Share of test rows classified rightly.
    """

    model: RandomForestClassifier
    train: pd.DataFrame
    test: pd.DataFrame
    categorical: tuple[str, ...]
    accuracy: float

    def probability(self, rows: Any) -> np.ndarray:
        """Probability of class 1, ``(n,)``."""
        return self.model.predict_proba(np.asarray(rows, dtype=np.float64))[:, 1]


@cache
def forest(which: Which, seed: int = 0) -> Forest:
    """Split, fit and score: ``"compas"`` (high score), ``"rearrest"``, or ``"german"``."""
    if which == "german":
        (X, y), categorical = german.table(), german.CATEGORICAL
    else:
        X, y = compas.table("score" if which == "compas" else "rearrest")
        categorical = tuple(name for name in compas.CATEGORICAL if name in X)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    model = RandomForestClassifier(100, random_state=seed, n_jobs=1)
    model.fit(train.to_numpy(), y_train.to_numpy())
    accuracy = float(model.score(test.to_numpy(), y_test.to_numpy()))
    return Forest(model, train, test, categorical, accuracy)
