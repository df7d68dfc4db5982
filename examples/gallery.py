"""Run docs/gallery.md and draw its pictures; ``make gallery`` runs this.

After a block of code, an image names the file that ``ax`` of the block is saved to: the code on the
page is the code that made the picture.
"""

import os
import re
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from PIL import Image

DOCS = Path(__file__).resolve().parents[1] / "docs"
PARTS = re.compile(
    r"^```python\n(?P<code>.*?)^```$|^!\[.*?\]\((?P<image>.*?)\)$", re.DOTALL | re.MULTILINE
)


def save(figure: Any, path: Path) -> None:
    """Write a PNG of 256 colours, which is enough for a plot and a third of the bytes."""
    whole = BytesIO()
    figure.savefig(whole, dpi=110)
    path.parent.mkdir(exist_ok=True)
    Image.open(whole).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def main() -> None:
    """Run the blocks in order and save what they draw."""
    mpl.use("Agg")  # write files, open no window
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as elsewhere:
        os.chdir(elsewhere)  # for files that the page writes
        for part in PARTS.finditer((DOCS / "gallery.md").read_text(encoding="utf-8")):
            if part["code"]:
                plt.close("all")
                exec(compile(part["code"], "gallery.md", "exec"), names)  # noqa: S102 - our own page
            elif part["image"].startswith("images/gallery/"):
                path = DOCS / part["image"]
                save(names["ax"].figure, path)
                print(f"{path.stat().st_size / 1000:5.0f} kB  {part['image']}")


if __name__ == "__main__":
    main()
