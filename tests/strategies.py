"""What several test files draw from: Hypothesis strategies, stand-in models, small data."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)


class Counting:
    """A model that remembers how it was used: ``rows``, ``calls`` and, if asked, every row."""

    def __init__(self, inner, *, keep=False):
        self.inner, self.keep = inner, keep
        self.rows = self.calls = 0
        self.seen = []

    def __call__(self, rows):
        self.calls += 1
        self.rows += len(rows)
        if self.keep:
            self.seen += [np.asarray(r).tobytes() for r in np.asarray(rows)]
        return self.inner(rows)


class FailsAfter:
    """A model that raises ``error`` from call number ``good + 1`` on, until it is ``mended``."""

    def __init__(self, inner, good, error):
        self.inner, self.good, self.error = inner, good, error
        self.calls, self.mended = 0, False

    def __call__(self, rows):
        self.calls += 1
        if self.calls > self.good and not self.mended:
            raise self.error
        return self.inner(rows)


class Bumpy:
    """A game of many players, with every kind of interaction; picklable."""

    def __init__(self, d, seed=0, k=None):
        rng = np.random.default_rng(seed)
        self.a = rng.normal(size=(d, 6))
        self.b = rng.normal(size=(6,) if k is None else (6, k))

    def __call__(self, rows):
        x = np.asarray(rows, dtype=np.float64)
        # row by row, so that the answer cannot depend on how many rows come together
        return np.stack([np.tanh((r[:, None] * self.a).sum(axis=0)) @ self.b for r in x])


def numbers(n=120, d=6, seed=0):
    """Continuous training data."""
    return np.random.default_rng(seed).normal(size=(n, d))


def mixed(n=160, seed=0):
    """Two numbers, text, a category, a truth value, a nullable integer and a date."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.normal(30, 9, n),
            "job": rng.choice(["clerk", "nurse", "pilot"], n),
            "town": pd.Categorical(rng.choice(["rome", "oslo"], n)),
            "owner": rng.random(n) < 0.5,
            "children": pd.array(rng.choice([0, 1, 2, None], n), dtype="Int64"),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        },
        index=[f"r{i}" for i in range(n)],
    )


@st.composite
def games(draw, least=1, most=7):
    """``(d, table)`` of a random game with its 2^d values, in any unit."""
    d = draw(st.integers(least, most))
    scale = 10.0 ** draw(st.integers(-6, 6))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3, 1e6])) * scale
    table = np.random.default_rng(draw(seeds)).normal(size=2**d)
    return d, offset + scale * table


@st.composite
def budgets(draw):
    """``(d, seed, sampler, queries)`` that is enough for the linear posterior, never exact."""
    d = draw(st.integers(8, 14))
    return (
        d,
        draw(st.integers(0, 10_000)),
        draw(st.sampled_from(["random", "paired"])),
        draw(st.integers(2 * d + 7, 240)),
    )
