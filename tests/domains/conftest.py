"""Frames with every dtype credex promises to carry to the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.needs import need

N = 60


def pandas_frame(n: int = N, *, labels: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    days = pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "small": rng.integers(0, 9, n).astype(np.int8),
            "income": rng.normal(30, 9, n),
            "half": rng.normal(size=n).astype(np.float32),
            "sex": pd.Series(rng.choice(["f", "m", None], n)).astype("str"),
            "town": pd.Categorical(rng.choice(["rome", "oslo"], n), ["oslo", "rome", "paris"]),
            "grade": pd.Categorical(rng.choice([3, 1], n), [3, 1, 2], ordered=True),
            "flag": rng.random(n) < 0.5,
            "maybe": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "count": pd.array(rng.choice([1, 2, 5, None], n), dtype="Int64"),
            "when": pd.Timestamp("2020-01-01") + days,
            "zoned": (pd.Timestamp("2021-06-01") + days).tz_localize("Europe/Rome"),
            "lasted": days,
            "thing": pd.Series(rng.choice(["u", "v"], n), dtype=object),
        }
    )
    frame.loc[frame.index[:4], "when"] = pd.NaT
    frame.columns = frame.columns.rename("column")
    if labels:
        frame.index = pd.Index([f"r{i}" for i in range(n)], name="id")
    return frame


def polars_frame(n: int = N) -> Any:
    pl = need("polars")
    rng = np.random.default_rng(8)
    days = rng.integers(18000, 18900, n).astype(np.int32)
    return pl.DataFrame(
        {
            "age": pl.Series(rng.integers(18, 90, n), dtype=pl.UInt8),
            "income": rng.normal(30, 9, n),
            "half": pl.Series(rng.normal(size=n), dtype=pl.Float32),
            "sex": pl.Series(rng.choice(["f", "m", None], n).tolist(), dtype=pl.String),
            "town": pl.Series(rng.choice(["rome", "oslo"], n).tolist(), dtype=pl.Categorical),
            "size": pl.Series(rng.choice(["s", "m"], n).tolist(), dtype=pl.Enum(["s", "m", "l"])),
            "flag": rng.random(n) < 0.5,
            "count": pl.Series(rng.choice([1, 2, None], n).tolist(), dtype=pl.Int32),
            "day": pl.Series(days).cast(pl.Date),
            "when": pl.Series(days.astype(np.int64) * 86_400_000_000_123).cast(pl.Datetime("ns")),
            "zoned": pl.Series(days.astype(np.int64) * 86_400_000).cast(pl.Datetime("ms", "UTC")),
        }
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    return pandas_frame()


@pytest.fixture
def plain_frame() -> pd.DataFrame:
    return pandas_frame(labels=False)


@pytest.fixture
def polars() -> Any:
    return polars_frame()


@pytest.fixture
def floats() -> Any:
    return np.random.default_rng(3).normal(size=(80, 5))
