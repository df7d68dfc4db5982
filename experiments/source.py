"""Which source the sections of docs/paper.md were made with."""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import cache
from pathlib import Path

__all__ = ["source_digest"]

SRC = Path(__file__).resolve().parent.parent / "src" / "credex"
PARTS = ("designs", "estimators", "posteriors", "shap.py", "lime.py")
"""What decides the numbers of an explanation."""

SHOWN = ("__repr__", "__str__", "_repr_html_", "to_html", "plot")
"""Methods that show a result and decide no number."""


@cache
def source_digest(parts: tuple[str, ...] = PARTS) -> str:
    """Return 12 characters that change with any statement of these files and folders.

    Comments, docstrings, imports and methods that show a result do not count.
    """
    out = hashlib.sha256()
    for part in parts:
        path = SRC / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    node.body = [line for line in node.body if _decides(line)]
            out.update(f"{file.relative_to(SRC)}:{_dump(tree)}".encode())
    return out.hexdigest()[:12]


def _dump(tree: ast.Module) -> str:
    """Return a tree as text, the same in every version of Python: as 3.11 writes it."""
    full = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **full).replace(", type_params=[]", "")


def _decides(line: ast.stmt) -> bool:
    """Whether a statement can change a number: no text, no import, nothing that only shows one."""
    if isinstance(line, ast.FunctionDef):
        return line.name not in SHOWN
    if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
        return not isinstance(line.value.value, str)
    return not isinstance(line, ast.Import | ast.ImportFrom)
