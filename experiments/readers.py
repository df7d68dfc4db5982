"""The user study with people: make the page, analyse the answers.

``python -m experiments.readers page`` writes ``out/paper/readers.html``, one file that needs no
server: it asks for consent, shows masked digits, and lets the reader save the answers as a file.
Nothing is sent anywhere. ``python -m experiments.readers analyse ANSWERS.json …`` reads such files,
one for each reader, and makes the paper's one-tailed two-sample t-test.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from experiments.masked import METHODS, masked_digits

__all__ = ["analyse", "page"]

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = Path(__file__).with_name("readers.html")
COUNT = 15
"""Digits, each shown once for either method: the paper's number."""


def page(count: int = COUNT) -> str:
    """Return the page, with the digits of both methods in random order."""
    cards = [
        {"id": f"{i}-{method}", "image": _png(d.left[method])}
        for i, d in enumerate(masked_digits(count, seed=1))
        for method in METHODS
    ]
    order = np.random.default_rng(1).permutation(len(cards))
    text = TEMPLATE.read_text(encoding="utf-8")
    return text.replace("/*CARDS*/[]", json.dumps([cards[k] for k in order]))


def key(count: int = COUNT) -> dict[str, int]:
    """Return the right answer to every card."""
    digits = masked_digits(count, seed=1)
    return {f"{i}-{m}": d.label for i, d in enumerate(digits) for m in METHODS}


def analyse(answers: list[dict[str, int]], right: dict[str, int]) -> dict[str, float]:
    """Error rates of both methods, and p that BayesLIME's is not larger.

    Parameters
    ----------
    answers
        For each reader, the digit given for each card.
    right
        The right digit of each card.

    Examples
    --------
    >>> right = {"0-LIME": 4, "0-BayesLIME": 4, "1-LIME": 7, "1-BayesLIME": 7}
    >>> sure = {"0-LIME": 4, "0-BayesLIME": 9, "1-LIME": 7, "1-BayesLIME": 7}
    >>> found = analyse([sure, sure | {"1-LIME": 1}], right)
    >>> found["LIME"], found["BayesLIME"], found["readers"]
    (25.0, 50.0, 2.0)
    """
    if len(answers) < 2:
        raise SystemExit(f"{len(answers)} reader: the test needs at least two")
    rates = {m: [] for m in METHODS}
    for given in answers:
        missing = set(right) - set(given)
        if missing:
            raise SystemExit(f"an answer file lacks {len(missing)} cards, such as {min(missing)}")
        for m in METHODS:
            cards = [c for c in right if c.endswith(f"-{m}")]
            rates[m].append(100 * float(np.mean([given[c] != right[c] for c in cards])))
    lime, bayes = rates["LIME"], rates["BayesLIME"]
    return {
        "readers": float(len(answers)),
        "LIME": float(np.mean(lime)),
        "BayesLIME": float(np.mean(bayes)),
        "p, two samples": float(ttest_ind(bayes, lime, alternative="greater").pvalue),
        "p, paired": float(ttest_rel(bayes, lime, alternative="greater").pvalue),
    }


def _png(pixels: np.ndarray) -> str:
    from PIL import Image

    image = Image.fromarray((255 * np.clip(pixels, 0, 1)).astype(np.uint8))
    buffer = io.BytesIO()
    image.resize((224, 224), Image.Resampling.NEAREST).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.readers", description=__doc__)
    parser.add_argument("what", choices=("page", "analyse"))
    parser.add_argument("files", nargs="*", type=Path, help="answers, one file for each reader")
    args = parser.parse_args()
    if args.what == "page":
        path = ROOT / "out" / "paper" / "readers.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}: open it in a browser")
        return
    answers = [json.loads(f.read_text(encoding="utf-8"))["answers"] for f in args.files]
    for name, value in analyse(answers, key()).items():
        print(f"{name:16} {value:.4g}")


if __name__ == "__main__":
    main()
