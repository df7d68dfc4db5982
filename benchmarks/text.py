"""Texts: do the intervals hold known answers, and how long does it take? ``make bench-text``.

The models are logistic regressions over TF-IDF without normalisation: what each word adds to the
log-odds is known, and its Shapley value for the probability is computed exactly
(`benchmarks.additive`). Where words interact (the usual, l2-normalised TF-IDF, and a sentence
model) texts are cut to eleven words and every coalition is asked.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import credex as cx
from benchmarks.text_models import (
    Linear,
    newsgroups,
    of_length,
    sentence_model,
    spam,
)
from benchmarks.timing import publish, table, yardstick
from credex.domains.text.words import words

SHORT = 11
"""Words of a text that is enumerated."""

ROUNDING = 1e-12
"""Values this close to an interval are inside: words that no model knows have an effect of 0."""


COVERAGE = """Coverage of 95 % intervals, clustered by text. Error: RMSE over the mean true
|importance|. On linear models BayesLIME's hold the pull of its ridge too, which is most of them."""

LIME = """Against lime_text on the spam model's log-odds, where each word's effect is known: median
error (as above) and seconds for one explanation at the same queries."""

SECONDS = """Seconds for one explanation by BayesSHAP. Width: the widest interval over the largest
importance."""


@dataclass(frozen=True)
class Plan:
    """How much is measured: texts of each kind, and seeds for each text."""

    texts: int
    seeds: int


def tokens(text: str) -> list[str]:
    """The words of a text, as `cx.Text` takes it apart."""
    return [text[a:b] for a, b in words(text)]


def count(text: str) -> int:
    """How many words; huge texts count as none, they are not used."""
    return len(words(text)) if len(text) < 40_000 else 0


def first_words(text: str, n: int) -> str:
    """The text up to its ``n``-th word."""
    return text[words(text)[0][0] : words(text)[n - 1][1]]


@dataclass
class Tally:
    """Hits and errors of explanations whose answer is known, by text."""

    hits: list[float]
    errors: list[float]
    seconds: list[float]

    def add(self, runs: Sequence[tuple[cx.Explanation, np.ndarray]]) -> None:
        """Count the runs of one text."""
        shares = []
        for e, truth in runs:
            i = e.interval()
            shares.append(np.mean((i.lower - ROUNDING <= truth) & (truth <= i.upper + ROUNDING)))
            self.errors.append(relative(e.mean, truth))
            self.seconds.append(e.seconds)
        self.hits.append(float(np.mean(shares)))

    def row(self) -> list[str]:
        """Coverage with its 95 % interval clustered by text, error, seconds."""
        share = float(np.mean(self.hits))
        half = 1.96 * float(np.std(self.hits, ddof=1)) / np.sqrt(len(self.hits))
        low, high = max(share - half, 0.0), min(share + half, 1.0)
        return [
            f"{share:.3f}",
            f"{low:.3f} … {high:.3f}",
            f"{np.mean(self.errors):.2g}",
            f"{np.mean(self.seconds):.2f}",
        ]


def relative(mean: np.ndarray, truth: np.ndarray) -> float:
    """RMSE over the mean size of the true values."""
    return float(np.sqrt(np.mean((mean - truth) ** 2)) / np.mean(np.abs(truth)))


def known(model: Linear, low: int, high: int, per_word: int, plan: Plan) -> list[str]:
    """BayesSHAP of the probability against exact Shapley values."""
    explainer, out = cx.BayesSHAP(model.probability, cx.Text()), Tally([], [], [])
    found = of_length(model.texts, count, low, high, plan.texts)
    for text in found:
        own = tokens(text)
        truth, queries = model.shapley(own), per_word * len(own)
        out.add(
            [(explainer.explain(text, queries=queries, seed=s), truth) for s in range(plan.seeds)]
        )
    return [model.name, f"{low}–{high} words", "BayesSHAP", f"{per_word} a word", *out.row()]


def known_lime(model: Linear, low: int, high: int, per_word: int, plan: Plan) -> list[str]:
    """BayesLIME of the log-odds against the words' contributions."""
    explainer, out = cx.BayesLIME(model.log_odds, cx.Text()), Tally([], [], [])
    for text in of_length(model.texts, count, low, high, plan.texts):
        own = tokens(text)
        truth, queries = model.contributions(own)[0], per_word * len(own)
        out.add(
            [(explainer.explain(text, queries=queries, seed=s), truth) for s in range(plan.seeds)]
        )
    name = f"{model.name}, log-odds"
    return [name, f"{low}–{high} words", "BayesLIME", f"{per_word} a word", *out.row()]


def enumerated(
    name: str,
    model: Callable[[Sequence[str]], np.ndarray],
    texts: Sequence[str],
    queries: int,
    plan: Plan,
) -> list[str]:
    """BayesSHAP of short texts against all their coalitions."""
    explainer, out = cx.BayesSHAP(model, cx.Text()), Tally([], [], [])
    for text in [first_words(t, SHORT) for t in texts[: plan.texts]]:
        truth = explainer.explain(text, posterior="exact").mean
        out.add(
            [(explainer.explain(text, queries=queries, seed=s), truth) for s in range(plan.seeds)]
        )
    return [name, f"{SHORT} words, enumerated", "BayesSHAP", f"{queries} in all", *out.row()]


def lime_text(model: Linear, text: str, queries: int, seed: int) -> tuple[np.ndarray, float]:
    """Coefficients of lime for the log-odds, all words, repeated ones apart; and seconds."""
    from lime.lime_text import LimeTextExplainer

    def both(texts: list[str]) -> np.ndarray:
        y = model.log_odds(texts)
        return np.stack([-y, y], axis=1)

    peer = LimeTextExplainer(
        split_expression=tokens, bow=False, feature_selection="none", random_state=seed
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        e = peer.explain_instance(text, both, labels=(1,), num_features=10_000, num_samples=queries)
    seconds = time.perf_counter() - start
    out = np.zeros(len(tokens(text)))
    for i, value in e.as_map()[1]:
        out[i] = value
    return out, seconds


def against_lime(model: Linear, low: int, high: int, queries: int, plan: Plan) -> list[list[str]]:
    """Errors to the words' known contributions to the log-odds, at the same queries."""
    errors: dict[str, list[float]] = {"lime_text": [], "BayesLIME": [], "BayesSHAP": []}
    seconds: dict[str, list[float]] = {name: [] for name in errors}
    explainers = {
        "BayesLIME": cx.BayesLIME(model.log_odds, cx.Text()),
        "BayesSHAP": cx.BayesSHAP(model.log_odds, cx.Text()),
    }
    for text in of_length(model.texts, count, low, high, plan.texts):
        truth = model.contributions(tokens(text))[0]
        for seed in range(plan.seeds):
            found, took = lime_text(model, text, queries, seed)
            errors["lime_text"].append(relative(found, truth))
            seconds["lime_text"].append(took)
            for name, explainer in explainers.items():
                start = time.perf_counter()
                e = explainer.explain(text, queries=queries, seed=seed)
                seconds[name].append(time.perf_counter() - start)
                errors[name].append(relative(e.mean, truth))
    return [
        [
            f"{low}–{high} words",
            f"{queries:,}",
            name,
            f"{np.median(errors[name]):.2g}",
            f"{np.median(seconds[name]):.3f}",
        ]
        for name in errors
    ]


def timed(name: str, what: str, run: Callable[[], cx.Explanation]) -> list[str]:
    """One explanation, timed."""
    start = time.perf_counter()
    e = run()
    took = time.perf_counter() - start
    return [
        name,
        what,
        str(len(e.names)),
        f"{e.n_queries:,}",
        f"{took:.2f}",
        f"{e.model_seconds:.2f}",
        f"{e.interval().width.max() / np.abs(e.mean).max():.2f}",
    ]


def seconds(quick: bool) -> list[list[str]]:  # noqa: FBT001 - one switch
    """Texts of 200 and 2,000 words, word by word and sentences first."""
    rows = []
    sentence = sentence_model()
    texts = spam().texts
    for name, model, dear in (
        ("TF-IDF", spam().probability, False),
        ("sentence embeddings", sentence.probability, True),
    ):
        for low, high in ((190, 210), (1_900, 2_200)):
            text = of_length(texts, count, low, high, 1)[0]
            what = f"{count(text):,} words"
            if not dear or (low < 1_000 and not quick):
                shap = cx.BayesSHAP(model, cx.Text())
                queries = max(1_000, int(2.2 * count(text))) if not dear else 600
                rows.append(
                    timed(
                        name,
                        f"{what}, word by word",
                        lambda s=shap, t=text, q=queries: s.explain(t, queries=q),
                    )
                )
            coarse = cx.BayesSHAP(model, cx.Text(unit="sentence"))

            def zoomed(s: cx.BayesSHAP = coarse, t: str = text) -> cx.Explanation:
                first = s.explain(t, max_queries=600)
                return s.zoom(first, most=3, max_queries=first.n_queries + 600)

            rows.append(timed(name, f"{what}, sentences, then 3 of them by words", zoomed))
    return rows


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few texts; nothing is written")
    quick = parser.parse_args().quick
    plan = Plan(3, 2) if quick else Plan(16, 4)
    models = (spam(),) if quick else (spam(), newsgroups())
    rows = []
    for model in models:
        rows += [
            known(model, 25, 45, each, plan) for each in ((6, 24) if quick else (4, 8, 24, 48))
        ]
        rows.append(known(model, 180, 220, 6, Plan(plan.texts // 2 + 1, 2)))
        rows.append(known_lime(model, 25, 45, 24, plan))
    usual, sentence = spam("l2"), sentence_model()
    short = of_length(spam().texts, count, SHORT, 200, plan.texts)
    rows.append(enumerated(usual.name, usual.probability, short, 200, plan))
    few = Plan(3 if quick else 10, plan.seeds)
    rows.append(enumerated("spam, sentence embeddings", sentence.probability, short, 200, few))
    head = ["model", "texts", "method", "queries", "coverage", "95 % interval", "error", "seconds"]
    lime_rows = [
        *against_lime(spam(), 25, 45, 500, plan),
        *against_lime(spam(), 180, 220, 2_000, Plan(plan.texts // 2 + 1, 1)),
    ]
    names = ["model", "text", "features", "queries", "seconds", "of it the model", "width"]
    accuracy = f"Accuracy on texts not trained on: TF-IDF {spam().accuracy:.3f}, l2-normalised "
    accuracy += f"{usual.accuracy:.3f}, sentence embeddings {sentence.accuracy:.3f}"
    accuracy += "" if quick else f", newsgroups {newsgroups().accuracy:.3f}"
    accuracy += f". One core; a 2000×2000 matrix product took {yardstick():.2f} s."
    body = "\n\n".join(
        [
            COVERAGE,
            table(head, rows),
            LIME,
            table(["texts", "queries", "method", "error", "seconds"], lime_rows),
            SECONDS,
            table(names, seconds(quick)),
            accuracy,
        ]
    )
    if quick:
        print(body)
    else:
        publish("text", "Texts: coverage, error and time", "make bench-text", body)


if __name__ == "__main__":
    main()
