"""The documentation site: built without a warning, whole, and without the network."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import credex
from tests.needs import need

ROOT = Path(__file__).parents[1]
OUTSIDE = ["CONTRIBUTING.md", "CHANGELOG.md", "realdata/README.md"]
REFERENCE = ROOT / "docs" / "reference"


class Page(HTMLParser):
    """Anchors, links, and what a page loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in {"canonical", "prev", "next"}:
            self.loads.append(found["href"])
        self.loads += [found[key] for key in ("src", "srcset", "data-src") if found.get(key)]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    need("zensical")
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        import build
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("site")
    assert build.build(folder / "work", folder / "site") == 0
    return {p.relative_to(folder / "site").as_posix(): p for p in (folder / "site").rglob("*.*")}


@pytest.fixture(scope="session")
def pages(site):
    return {
        name: Page(path.read_text(encoding="utf-8"))
        for name, path in site.items()
        if name.endswith(".html")
    }


def test_every_page_is_in_the_site(pages):
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() in pages
    assert {"project/contributing.html", "project/changelog.html"} <= pages.keys()


def test_links_and_anchors_lead_somewhere(pages, site):
    for name, page in pages.items():
        if name == "404.html":  # its links are those of the root, wherever it is shown
            continue
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in {"http", "https", "data"}, link
                continue
            here = Path(name).parent / unquote(parts.path) if parts.path else Path(name)
            target = Path(*_resolved(here.parts)).as_posix()
            target = "index.html" if target == "." else target
            assert target in site, f"{name}: {link}"
            if parts.fragment and target in pages and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in pages[target].ids, f"{name}: {link}"


def _resolved(parts):
    out = []
    for part in parts:
        if part == "..":
            out.pop()
        elif part != ".":
            out.append(part)
    return out


def test_nothing_is_loaded_from_the_network(pages, site):
    for name, page in pages.items():
        for link in page.loads:
            assert urlsplit(link).scheme in {"", "data"}, f"{name} loads {link}"
            assert not link.startswith("//")
    for name, path in site.items():
        if name.endswith(".css"):
            text = path.read_text(encoding="utf-8")
            assert not re.findall(r"url\(\s*['\"]?(?:https?:|//)|@import", text), name


def test_formulas_are_drawn_and_blocks_of_code_are_left_alone(site):
    page = site["mathematics.html"].read_text(encoding="utf-8")
    assert page.count("<math") >= 15
    assert "$$" not in page
    assert "\\" not in page.split("<article")[1].split("</article>")[0].replace("\\n", "")


def test_docstrings_are_rendered(site):
    for name, path in site.items():
        if name.startswith("reference/") and name.endswith(".html"):
            text = path.read_text(encoding="utf-8")
            assert "::</p>" not in text
            assert ":meth:" not in text


def test_every_public_name_is_in_the_reference():
    text = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    named = set(re.findall(r"::: credex\.(?:\w+\.)*(\w+)", text))
    named |= set(re.findall(r"\w+", "".join(re.findall(r"members: \[(.*?)\]", text))))
    assert set(credex.__all__) <= named


@pytest.mark.parametrize("name", ["README.md", *OUTSIDE, "docs"])
def test_links_between_files_hold_on_github(name):
    files = [ROOT / name] if name.endswith(".md") else sorted((ROOT / name).rglob("*.md"))
    for file in files:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8")):
            if not urlsplit(link).scheme:
                assert (file.parent / unquote(link)).exists(), f"{file.name}: {link}"


def test_the_gallery_shows_every_plot_in_small_files():
    from credex.plots import BatchPlots, Plots

    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for kind in (Plots, BatchPlots):
        methods = [n for n in vars(kind) if not n.startswith("_") and callable(getattr(kind, n))]
        for name in set(methods) - {"posterior_gif", "forecast"}:  # f.plot() is the forecast
            assert f".plot.{name}(" in page, name
    pictures = list((ROOT / "docs" / "images" / "gallery").glob("*.png"))
    assert {f"images/gallery/{p.name}" for p in pictures} <= set(
        re.findall(r"images/[\w/]+\.png", page)
    )
    assert max(p.stat().st_size for p in pictures) < 60_000
