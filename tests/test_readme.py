"""Every ```python block of README.md and docs/*.md runs, in the order a reader meets it.

The blocks of one file share one namespace and one empty working directory. A traceback points at
the line of the Markdown file. A block that must not run is fenced as ```text. Where a block
imports a package that is not installed, the rest of its page is skipped.
"""

import ast
import re
import secrets
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

import credex
from tests.needs import missing, need

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(
    r"^(?P<indent>[ \t]*)```python[ \t]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.DOTALL | re.MULTILINE,
)


def blocks(text: str) -> list[str]:
    """The blocks, each padded with empty lines so that its line numbers are those of the page."""
    return [
        "\n" * text.count("\n", 0, match.start("code")) + textwrap.dedent(match["code"])
        for match in FENCE.finditer(text)
    ]


def pages_with_code() -> list[Path]:
    return [page for page in PAGES if page.exists() and blocks(page.read_text(encoding="utf-8"))]


def imported(code: str) -> set[str]:
    """Names of the modules that a block imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.fixture
def headless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # for worker processes that a block may start
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    (tmp_path / "token").write_text(secrets.token_hex(32))  # else Ray writes one into the home
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: None)  # Agg would warn
    yield
    plt.close("all")
    plt.switch_backend(before)


def pages() -> Iterator[object]:
    """Pages with code; engines are not held to our standards of warnings."""
    for page in pages_with_code():
        own = [pytest.mark.filterwarnings("default")] if page.name == "scale.md" else []
        yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=own)


@pytest.mark.parametrize("page", list(pages()))
def test_code_blocks_run(page: Path, headless: None) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        for name in sorted(imported(block)):
            need(name)
            if name.startswith("pyspark") and shutil.which("java") is None:
                missing("java is not installed")
        exec(compile(block, str(page), "exec"), namespace)


def test_what_a_block_imports() -> None:
    assert imported("import torch\nfrom a.b import c\ndef f():\n    import d as e") == {
        *("torch", "a.b", "d"),
    }


def test_readme_has_code_blocks() -> None:
    assert ROOT / "README.md" in pages_with_code()


def test_extensions_take_fewer_than_25_lines() -> None:
    """A domain, a sampler, a stopping rule and an estimator; `test_code_blocks_run` runs them."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    sections = {part.split("\n")[0]: blocks(part) for part in page.split("\n## ")[1:]}
    assert list(sections) == [
        *("A new domain", "A new sampler", "A new stopping rule", "A new estimator"),
    ]
    for found in sections.values():
        assert "class " in found[0]
        assert len(found[0].strip().splitlines()) < 25


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    yaml = need("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert cited["version"] == credex.__version__
    paper = cited["preferred-citation"]
    assert paper["title"].startswith("Reliable Post hoc Explanations")
    assert [a["family-names"] for a in paper["authors"]] == [
        *("Slack", "Hilgard", "Singh", "Lakkaraju"),
    ]


def test_blocks_keep_order_line_numbers_and_indentation() -> None:
    text = "# a\n```python\nx = 1\n```\n```text\nnot code\n```\n- b\n  ```python\n  y = 2\n  ```\n"
    assert blocks(text) == ["\n\nx = 1\n", "\n" * 9 + "y = 2\n"]
