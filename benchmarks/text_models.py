"""Text classifiers on real data: two linear ones whose answers are known, and a sentence model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.additive import logistic_shapley
from credex.domains.text.words import sentences
from realdata.fetch import kept
from realdata.minilm import MiniLM
from realdata.newsgroups import posts
from realdata.spam import mails

SPACE = ("sci.space", "sci.med")
TRAIN = 4_500
"""E-mails to train on; the others are explained."""

READ = 12
"""Sentences of a message that the sentence model is trained on."""


@dataclass(frozen=True)
class Linear:
    """A logistic model over words, TF-IDF without normalisation: every word's effect is known."""

    name: str
    pipeline: Any
    texts: tuple[str, ...]
    accuracy: float

    def probability(self, texts: Sequence[str]) -> np.ndarray:
        """``(n,)`` probability of the second class."""
        return self.pipeline.predict_proba(texts)[:, 1]

    def log_odds(self, texts: Sequence[str]) -> np.ndarray:
        """``(n,)`` the same in log-odds."""
        return self.pipeline.decision_function(texts)

    def contributions(self, words: Sequence[str]) -> tuple[np.ndarray, float]:
        """What each word adds to the log-odds, and the log-odds of the empty text."""
        empty = float(self.log_odds([""])[0])
        return self.log_odds(list(words)) - empty, empty

    def shapley(self, words: Sequence[str]) -> np.ndarray:
        """Exact Shapley values of the words for the probability."""
        return logistic_shapley(*self.contributions(words))


def _fitted(
    train: list[str], y: Any, test: list[str], y_test: Any, norm: str | None
) -> tuple[Any, float]:
    strength = 10.0 if norm else 0.0005
    pipeline = make_pipeline(
        TfidfVectorizer(norm=norm, min_df=3, max_features=20_000),
        LogisticRegression(C=strength, max_iter=3_000),
    ).fit(train, y)
    return pipeline, float(pipeline.score(test, y_test))


@cache
def _spam_split() -> tuple[list[str], np.ndarray, list[str], np.ndarray]:
    found = mails()
    at = np.random.default_rng(0).permutation(len(found))
    texts = [found[i].text for i in at]
    y = np.array([found[i].spam for i in at])
    return texts[:TRAIN], y[:TRAIN], texts[TRAIN:], y[TRAIN:]


@cache
def spam(norm: str | None = None) -> Linear:
    """Spam or not; ``norm="l2"`` makes it the usual TF-IDF, where words interact."""
    train, y, test, y_test = _spam_split()
    pipeline, accuracy = _fitted(train, y, test, y_test, norm)
    return Linear(f"spam{', l2-normalised' if norm else ''}", pipeline, tuple(test), accuracy)


@cache
def newsgroups() -> Linear:
    """Space or medicine."""
    (train, y), (test, y_test) = posts("train", SPACE), posts("test", SPACE)
    pipeline, accuracy = _fitted(train, y, test, y_test, None)
    return Linear("newsgroups, space or medicine", pipeline, tuple(test), accuracy)


@dataclass
class SentenceModel:
    """The mean of a text's sentence embeddings, and a logistic regression on it.

    Sentences that were seen before are not embedded again.
    """

    accuracy: float = float("nan")
    head: Any = None
    network: MiniLM = field(default_factory=MiniLM)
    seen: dict[str, np.ndarray] = field(default_factory=dict)

    def embed(self, texts: Sequence[str], most: int | None = None) -> np.ndarray:
        """``(n, 384)``: the mean over the sentences (the first ``most`` only)."""
        cuts = [[t[a:b] for a, b in sentences(t)][:most] or [""] for t in texts]
        new = list(dict.fromkeys(s for c in cuts for s in c if s not in self.seen))
        if new:
            self.seen.update(zip(new, self.network.embed(new), strict=True))
        return np.array([np.mean([self.seen[s] for s in c], axis=0) for c in cuts])

    def probability(self, texts: Sequence[str]) -> np.ndarray:
        """``(n,)`` probability of spam."""
        return self.head.predict_proba(self.embed(texts))[:, 1]


@cache
def sentence_model(n: int = 700, n_test: int = 200) -> SentenceModel:
    """Spam or not from sentence embeddings; those of the training texts are kept."""
    train, y, test, y_test = _spam_split()
    model = SentenceModel()
    path = kept("minilm-spam-1.npz")
    if not path.exists():
        np.savez(path, train=model.embed(train[:n], READ), test=model.embed(test[:n_test], READ))
        model.seen.clear()
    with np.load(path) as read:
        model.head = LogisticRegression(C=10.0, max_iter=2_000).fit(read["train"], y[:n])
        model.accuracy = float(model.head.score(read["test"], y_test[:n_test]))
    return model


def of_length(
    texts: Sequence[str], count: Callable[[str], int], low: int, high: int, n: int
) -> list[str]:
    """The first ``n`` texts with ``low`` to ``high`` parts."""
    out: list[str] = []
    for text in texts:
        if low <= count(text) <= high:
            out.append(text)
            if len(out) == n:
                break
    return out
