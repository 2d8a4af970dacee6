"""The test files as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.rules.words import ROOT, files

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(file: Path) -> ast.Module:
    """Parse a file, once."""
    return ast.parse(file.read_text(encoding="utf-8"))


def test_files() -> Iterator[Path]:
    """Yield the Python files below `tests`."""
    return (file for file in files(("tests",)) if file.suffix == ".py")


def place(file: Path, node: ast.stmt | ast.expr) -> str:
    """Return where a node is, as editors take it."""
    return f"{file.relative_to(ROOT)}:{node.lineno}"
