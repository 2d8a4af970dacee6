"""Which mutants a room's sample has: Cosmic Ray's operators, one mutant a place, by a seed.

A sum has eleven replacements of its `+` and a constant two: drawn evenly, sums would be most of the
sample, and most of their mutants end in a `TypeError` that any test notices. So places are drawn,
and for each place one of its mutants. The draw hashes each place by itself: an edit moves only its
own module's share of the sample, and a larger sample contains the smaller.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import parso.python.tree  # noqa: F401 - before Cosmic Ray, whose operators need all of parso
from cosmic_ray.commands.init import _all_work_items  # private `_all_work_items`: lists, unsaved
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec, WorkItem

from tests.mutants.rooms import ROOT

SAME_BY_NATURE: Final = (
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_NotEq_IsNot",
)
"""`is` for `==` and back: the same for None, small numbers and short texts."""


def digest(*parts: object) -> str:
    """Return a short hash of some values' texts."""
    text = "\0".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


Position = tuple[int, int]


class Mutant(NamedTuple):
    """A mutation of one module; `key` changes with the module's text."""

    key: str
    spec: MutationSpec

    @property
    def module(self) -> str:
        """The module's path from the root."""
        return self.spec.module_path.as_posix()

    @property
    def line(self) -> int:
        """The first line of what is replaced."""
        return int(self.spec.start_pos[0])

    def code(self, root: Path = ROOT) -> str:
        """Return the mutated module."""
        operator = get_operator(self.spec.operator_name)()
        code = mutate_code(_source(root / self.module), operator, self.spec.occurrence)
        assert isinstance(code, str)
        return code

    def item(self) -> WorkItem:
        """Return it as Cosmic Ray's sessions hold it."""
        return WorkItem.single(self.key, self.spec)


def sample(modules: Iterable[str], size: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Draw at most `size` mutants, at most one for each place."""
    places = defaultdict(list)
    for path in modules:
        for spec in _specs(path, root):
            places[path, spec.start_pos, spec.end_pos].append(spec)
    drawn = sorted(places, key=lambda place: digest(seed, *place))[:size]
    return [_mutant(places[place], seed, root) for place in drawn]


def changed_lines(mutant: Mutant, root: Path = ROOT) -> tuple[str, str]:
    """Return the lines that the mutant replaces, and what by; stripped."""
    old, new = (text.splitlines() for text in (_source(root / mutant.module), mutant.code(root)))
    start = next(n for n, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    end = next(n for n, (a, b) in enumerate(zip_longest(old[::-1], new[::-1])) if a != b)
    # Where lines repeat, the two may overlap.
    end = min(end, len(old) - start, len(new) - start)
    return _stripped(old[start : len(old) - end]), _stripped(new[start : len(new) - end])


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(line.strip() for line in lines)


def _specs(path: str, root: Path) -> Iterator[MutationSpec]:
    tree = ast.parse(_source(root / path))
    excluded = [*_annotations(tree)]
    operators = [*_operators(tree)]
    for item in _all_work_items([root / path], {}):
        for spec in item.mutations:
            name, at = spec.operator_name, spec.start_pos
            if name in SAME_BY_NATURE or _is_in(excluded, at):
                continue
            if name.startswith("core/ReplaceBinaryOperator") and not _is_in(operators, at):
                continue  # the star of a parameter list
            yield MutationSpec(
                module_path=path,
                operator_name=name,
                occurrence=spec.occurrence,
                start_pos=at,
                end_pos=spec.end_pos,
                definition_name=spec.definition_name,
            )


def _mutant(specs: Sequence[MutationSpec], seed: int, root: Path) -> Mutant:
    """Draw one mutant of a place."""
    spec = min(specs, key=lambda spec: digest(seed, spec.operator_name, spec.occurrence))
    source = _source(root / spec.module_path)
    path = spec.module_path.as_posix()
    return Mutant(digest(source, path, spec.operator_name, spec.occurrence), spec)


def _is_in(ranges: Sequence[tuple[Position, Position]], at: Position) -> bool:
    return any(start <= at < end for start, end in ranges)


def _annotations(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            found = getattr(node, field, None)
            if found is not None:
                yield _start(found), _end(found)


def _operators(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield _end(node.left), _start(node.right)


def _start(node: ast.expr) -> Position:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> Position:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


@cache
def _source(file: Path) -> str:
    return file.read_text(encoding="utf-8")
