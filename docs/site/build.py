"""Build the documentation site: ``python docs/site/build.py`` (``make docs``).

The pages of docs/ are written for GitHub, where links between files of the repository, formulas in
dollar signs and a page that nobody listed all work. This prepares a copy in which they work in a
site, too, and lets Zensical build it with ``--strict``: any warning is an error.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "realdata/README.md": "project/data.md",
}
"""Files of the repository that are pages of the site, and where."""

SHIM = re.compile(r"https://[^\"'\s]+/iframe-worker/shim")
"""Zensical's pages load this, so that search works in pages opened from disk; we have a copy."""

PLACE = re.compile(r"^ *# pages of docs/ .*\n", re.MULTILINE)
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$`(?P<inline>.+?)`\$", re.DOTALL)


def prepare(folder: Path) -> Path:
    """Write pages and configuration into a folder; return the configuration's path."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for source, target in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (pages / target).parent.mkdir(exist_ok=True)
        (pages / target).write_text(re.sub(r"\]\((?:\.\./)*docs/", "](../", text), encoding="utf-8")
    names = sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md"))
    for name in names:
        text = (pages / name).read_text(encoding="utf-8")
        (pages / name).write_text(for_the_site(text, name), encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    more = "".join(f"      - {name}\n" for name in names if f"{name}\n" not in config)
    config = PLACE.sub(more, config).replace("paths: [src]", f"paths: ['{ROOT / 'src'}']")
    path = folder / "mkdocs.yml"
    path.write_text(f"{config}docs_dir: docs\nsite_dir: site\n", encoding="utf-8")
    return path


def for_the_site(text: str, name: str) -> str:
    """Return a page with links to files outside docs/ and with formulas as MathML."""
    up = "../" * name.count("/")
    for source, target in OUTSIDE.items():
        text = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}", f"]({up}{target}", text)
    parts = FENCE.split(text)
    parts[::2] = [FORMULA.sub(_mathml, part) for part in parts[::2]]
    return "".join(parts)


def _mathml(match: re.Match[str]) -> str:
    """Return a formula as MathML, which browsers draw without a script."""
    display = "block" if match["block"] else "inline"
    tex = html.unescape(match["block"] or match["inline"]).strip()
    drawn = convert(" ".join(tex.split()), display=display)
    return drawn if match["block"] else f"<span>{drawn}</span>"  # a line may begin with it


def without_roles(page: str) -> str:
    """Return a page without what is reStructuredText in docstrings: ``::`` and ``:meth:``."""
    page = re.sub(r"<p>::</p>|:(?:meth|class|func|attr|mod):(?=<code>)", "", page)
    return page.replace("::</p>", ":</p>")


def build(folder: Path, site: Path) -> int:
    """Build the pages prepared in ``folder`` into ``site``; return 0 if there was no warning."""
    config = prepare(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(config)]
    style: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    built = subprocess.run(command, check=False, **style)  # noqa: S603 - a fixed command
    print(built.stdout.strip())
    doubts = re.findall(r"^(?:griffe|WARNING|Warning).*", built.stdout, re.MULTILINE)
    if built.returncode or doubts:  # what is wrong with a docstring is no issue for Zensical
        print(f"Not built: {len(doubts)} warnings, see above.")
        return built.returncode or 1
    for page in (folder / "site").rglob("*.html"):
        up = "../" * (len(page.relative_to(folder / "site").parts) - 1)
        text = SHIM.sub(f"{up or './'}site/iframe-worker.js", page.read_text(encoding="utf-8"))
        page.write_text(without_roles(text), encoding="utf-8")
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(folder / "site", site)
    print(f"The site is in {site.name}/: open {site.name}/index.html.")
    return 0


if __name__ == "__main__":
    sys.exit(build(ROOT / "build" / "site", ROOT / "site"))
