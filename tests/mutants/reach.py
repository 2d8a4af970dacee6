"""Which tests reach which function: one run of a room's tests, watched.

A mutant inside a function is tried on the tests that call the function, shortest first. A mutant
outside of functions, or in one that runs while modules are imported, is tried on those that call
anything in its module, or whose file imports it; where none does, on all of the room's.
"""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from tests.mutants.rooms import ROOT

Function = tuple[str, int]
"""A module's path from the root, and the first line of the function, decorators included."""
_IMPORTED: Final = "import"
_BETWEEN: Final = "between"
_AT_NO_FUNCTION: Final = 0
_GENERATED: Final = "<string>"
"""The file that Python names for what has no text of its own, as a dataclass's `__init__`."""


class Reach(NamedTuple):
    """What the tests of a room call, and the CPU seconds of each test."""

    calls: dict[str, set[Function]]
    at_import: set[Function]
    seconds: dict[str, float]

    @classmethod
    def read(cls, written: Any) -> Reach:
        """Return what `written` wrote."""
        calls, at_import, seconds = written
        return cls(
            {test: {(path, line) for path, line in called} for test, called in calls.items()},
            {(path, line) for path, line in at_import},
            seconds,
        )

    def written(self) -> Any:
        """Return it as JSON has it."""
        calls = {test: sorted(called) for test, called in self.calls.items()}
        return [calls, sorted(self.at_import), self.seconds]

    def tests_of(self, module: str, line: int, source: str) -> list[str]:
        """Return the tests to try a mutant on, shortest first."""
        function = function_at(source, line)
        if function is not None and (module, function) not in self.at_import:
            return self._sorted(lambda called: (module, function) in called)
        near = self._sorted(lambda called: any(path == module for path, _ in called))
        return near or self._sorted(lambda _: True)

    def _sorted(self, fits: Callable[[set[Function]], bool]) -> list[str]:
        found = [test for test in self.seconds if fits(self.calls.get(test, set()))]
        return sorted(found, key=lambda test: self.seconds[test])


def function_at(source: str, line: int) -> int | None:
    """Return the first line of the innermost function whose body has the line, None outside."""
    innermost = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if node.body[0].lineno <= line <= (node.end_lineno or line):
                innermost = max(innermost or 0, first)
    return innermost


def imports(source: str) -> set[str]:
    """Return the names that a module imports, with those of their packages."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{each.name}" for each in node.names}
    return names


class Watch:
    """A plugin of pytest that notes the functions of some modules which each test calls."""

    def __init__(self, modules: Sequence[str], root: Path = ROOT) -> None:
        self._paths = {str(root / module): module for module in modules}
        self._names = {module.removesuffix(".py").replace("/", "."): module for module in modules}
        self._calls: dict[str, set[Function]] = defaultdict(set)
        self._seconds: dict[str, float] = defaultdict(float)
        self._now = _IMPORTED

    def start(self) -> None:
        """Note calls from now on, in this thread and those that it starts."""
        sys.setprofile(self._note)
        threading.setprofile(self._note)

    def reach(self) -> Reach:
        """Return what was noted; what a shared fixture calls counts for each test of its file."""
        sys.setprofile(None)
        threading.setprofile(None)
        at_import = self._calls[_IMPORTED]
        calls = {
            test: self._calls[test] | self._calls.get(test.partition("::")[0], set())
            for test in self._seconds
        }
        return Reach(calls, at_import, dict(self._seconds))

    def pytest_collection_finish(self) -> None:
        """Imports end here."""
        self._now = _BETWEEN

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fixtures: a later test of the file may use what they made."""
        file = item.nodeid.partition("::")[0]
        if file not in self._calls:
            imported = imports(item.path.read_text(encoding="utf-8"))
            used = (self._names[name] for name in imported if name in self._names)
            self._calls[file] = {(module, _AT_NO_FUNCTION) for module in used}
        return (yield from self._during(item, file))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """The test itself."""
        return (yield from self._during(item, item.nodeid))

    def _during(self, item: pytest.Item, caller: str) -> Generator[None, None, None]:
        began = time.process_time()
        self._now = caller
        try:
            return (yield)
        finally:
            self._now = _BETWEEN
            self._seconds[item.nodeid] += time.process_time() - began

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            path, line = frame.f_code.co_filename, frame.f_code.co_firstlineno
            module = self._paths.get(path)
            if module is None and path == _GENERATED:
                module = self._names.get(frame.f_globals.get("__name__", ""))
                line = _AT_NO_FUNCTION
            if module is not None:
                self._calls[self._now].add((module, line))
