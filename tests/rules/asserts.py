"""Tests that assert nothing.

A test asserts by itself, or calls a function that does: one of its own module, of a module of
`tests` that it imports from, or of a conftest.py above it, its fixtures included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.rules.python import Function, place, test_files, tree_of
from tests.rules.words import ROOT

ASSERTING: Final = re.compile(
    r"expect|raises|warns|fail|refused"  # of pytest, of Playwright
    r"|(?:check|assert|eventually|until)(?:_\w+)?|\w+_(?:until|raises)"
)
ALLOWED: Final[dict[str, str]] = {}
"""Tests without an assertion, as `<file>::<name>`, and why."""


class Facts(NamedTuple):
    """A function, whether it asserts by itself, and the names in it."""

    function: Function
    is_asserting: bool
    names: frozenset[str]

    def asserts(self, known: Collection[str]) -> bool:
        """Return True if it asserts, or names one of those that do."""
        return self.is_asserting or not self.names.isdisjoint(known)


@cache
def functions(file: Path) -> tuple[Facts, ...]:
    """Return what is known of every function of a module, methods included."""
    return tuple(facts(node) for node in ast.walk(tree_of(file)) if isinstance(node, Function))


def facts(function: Function) -> Facts:
    """Look through a function; the names are of what it calls or hands on, and of its fixtures."""
    is_asserting = False
    names = {each.arg for each in function.args.args}
    for node in ast.walk(function):
        match node:
            case ast.Assert():
                is_asserting = True
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
    is_asserting = is_asserting or any(map(ASSERTING.fullmatch, names))
    return Facts(function, is_asserting, frozenset(names))


@cache
def asserting(file: Path) -> frozenset[str]:
    """Return the names of a module's functions that assert, directly or by another of them."""
    known: set[str] = set()
    while True:
        found = {each.function.name for each in functions(file) if each.asserts(known)}
        if found <= known:
            return frozenset(known)
        known |= found


def around(file: Path) -> set[str]:
    """Return the asserting functions that a test file can call."""
    known = set(asserting(file))
    for folder in file.parents:
        if (folder / "conftest.py").exists():
            known |= asserting(folder / "conftest.py")
        if folder == ROOT / "tests":
            break
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests."):
            module = ROOT / f"{node.module.replace('.', '/')}.py"
            if module.exists():
                known |= asserting(module)
    return known


def without(file: Path) -> Iterator[Function]:
    """Yield the tests of a file that assert nothing."""
    doubtful = [
        each
        for each in functions(file)
        if each.function.name.startswith("test_") and not each.is_asserting
    ]
    if doubtful:
        known = around(file)
        yield from (each.function for each in doubtful if not each.asserts(known))


def problems() -> Iterator[str]:
    """Yield a line for each test without an assertion."""
    for file in test_files():
        if file.name.startswith("test_"):
            for function in without(file):
                if f"{file.relative_to(ROOT)}::{function.name}" not in ALLOWED:
                    yield f"{place(file, function)}: {function.name} asserts nothing"
