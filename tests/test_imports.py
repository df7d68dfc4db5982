"""Imports point one way, and importing credex stays cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "credex"

# A file may import from earlier lines (and from its own folder), never from later ones.
ORDER = [
    "typing errors",
    "checks threads later cells",
    "posteriors",
    "kernels blackbox models ranks",
    "domains",
    "model_queue",
    "history",
    "designs",
    "stopping auto",
    "estimators",
    "calls",
    "loop",
    "at_once",
    "explanation_base",
    "json formatting frames",
    "plots",
    "explanation",
    "explanations options",
    "goals batch",
    "verify metrics zoom",
    "engine",
    "explainer",
    "explainers",
    "__init__",
]
RANK = {name: i for i, line in enumerate(ORDER) for name in line.split()}


def imports(path):
    """Modules of credex that a file imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("credex"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
            yield from names


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path):
    own = path.relative_to(SRC).parts[0].removesuffix(".py")
    assert own in RANK, f"{own} has no place in the order: give it one here and in CONTRIBUTING.md"
    for other in imports(path):
        assert other == own or RANK[other] < RANK[own], f"{own} imports {other}"


def test_importing_credex_imports_nothing_heavy():
    heavy = ["pandas", "sklearn", "matplotlib", "polars", "joblib", "scipy.stats", "scipy.optimize"]
    code = f"import sys, credex; print([m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
