"""Imports point one way, and importing credex stays cheap."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "credex"

# A file may import from earlier lines (and from its own folder), never from later ones.
ORDER = [
    "typing errors sealed lock collector",
    "seeds cells history markup",
    "posteriors",
    "recipes",
    "options blackbox models",
    "domains",
    "game",
    "model_queue",
    "concurrent_queue",
    "designs",
    "stopping",
    "auto",
    "estimators",
    "explanation_base",
    "formatting json comparison deconvolve row_estimates",
    "averages",
    "aggregate loss_shares",
    "verdict",
    "html",
    "frames",
    "plots",
    "report",
    "interop",
    "explanation",
    "explanations",
    "run verify metrics zoom interactions",
    "progress",
    "explainer_base",
    "batch",
    "portfolio",
    "engines",
    "batch_folder",
    "saved_batch",
    "disk",
    "importance",
    "explainer",
    "shap lime",
    "compat",
    "serve",
    "cli",
    "__main__",
    "__init__",
]
RANK = {name: i for i, line in enumerate(ORDER) for name in line.split()}


def imports(path):
    """Modules of credex that a file imports anywhere: also for types, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("credex"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
        if isinstance(node, ast.Import):
            yield from [a.name.split(".")[1] for a in node.names if a.name.startswith("credex.")]


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path):
    own = path.relative_to(SRC).parts[0].removesuffix(".py")
    assert own in RANK, f"{own} has no place in the order: give it one here and in CONTRIBUTING.md"
    for other in imports(path):
        assert other == own or RANK[other] < RANK[own], f"{own} imports {other}"


def module_name(path):
    parts = ("credex", *path.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_files_import_each_other_inside_a_folder_either():
    files = {module_name(path): path for path in SRC.rglob("*.py")}
    graph = {}
    for name, path in files.items():
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        pairs = [
            (node.module or "", alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        found = {f"{module}.{thing}" for module, thing in pairs} & files.keys()
        found |= {module for module, thing in pairs if f"{module}.{thing}" not in files}
        graph[name] = (found & files.keys()) - {name}
        assert all(node.level == 0 for node in nodes if isinstance(node, ast.ImportFrom)), name
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_importing_credex_imports_nothing_heavy():
    heavy = ["pandas", "sklearn", "matplotlib", "polars", "joblib", "scipy.stats", "scipy.optimize"]
    heavy += ["starlette", "uvicorn"]
    code = f"import sys, credex; print([m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


FIRST = """
import sys
import numpy as np
import credex as cx
X = np.random.default_rng(0).normal(size=(200, 6))
def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]
print(cx.{explainer}.explain({x}))
print([m for m in {heavy} if m in sys.modules])
"""


@pytest.mark.parametrize(
    ("explainer", "x"),
    [
        ("BayesSHAP(f, X)", "X[0]"),
        ("BayesSHAP(f, X)", "X[0], queries=100, posterior='gp'"),
        ("BayesLIME(f, X)", "X[0], queries=200"),
        ("BayesSHAP(f, cx.Masks(6))", "queries=40"),
    ],
    ids=["table", "process", "lime", "masks"],
)
def test_a_first_explanation_imports_nothing_heavy(explainer, x):
    """An array needs neither pandas nor scikit-learn, whose imports take a second or two."""
    heavy = ["pandas", "sklearn", "matplotlib", "joblib", "tqdm", "scipy.stats"]
    code = FIRST.format(explainer=explainer, x=x, heavy=heavy)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_sentence_of_the_paper_has_a_file():
    page = (SRC.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page[page.index("| the paper says | file |") : page.index("Rules that hold")]
    named = re.findall(r"`(src/credex/[^`]+)`", table)
    assert len(named) >= 12
    for name in named:
        assert (SRC.parents[1] / name).is_file(), name


def test_the_map_names_every_module():
    page = (SRC.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for line in ORDER[:-1]:
        for name in line.split():
            assert f"`{name}.py`" in page or f"`{name}/`" in page, name
