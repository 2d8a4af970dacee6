"""Private members of the product that tests touch; each needs its reason in the file.

The reason is a comment: `# private`, the names in backquotes, a colon and why no public way shows
it. One comment covers a name for its file. A class may use its own members.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.rules.python import place, test_files, tree_of
from tests.rules.words import ROOT

PRIVATE: Final = re.compile(r"_[A-Za-z]\w*")
REASON: Final = re.compile(r"# private ((?:`_\w+`(?:, )?)+)(?:: |:$)", re.MULTILINE)
PUBLIC: Final = {
    **dict.fromkeys(("_asdict", "_fields", "_make", "_replace"), "of named tuples"),
    "_exit": "of os",
}


def reasons(text: str) -> set[str]:
    """Return the names whose use a file explains."""
    return {name for names in REASON.findall(text) for name in re.findall(r"_\w+", names)}


def touched(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield each use of a private name of something else, with the node."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if PRIVATE.fullmatch(name):
                yield node, name
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("tests"):
                yield from ((node, each.name) for each in names if PRIVATE.fullmatch(each.name))
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=arguments):
                for each in arguments[:2]:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        name = each.value.rpartition(".")[2]
                        if PRIVATE.fullmatch(name):
                            yield node, name


def problems() -> Iterator[str]:
    """Yield a line for each use without a reason, and for each reason without a use."""
    for file in test_files():
        known = reasons(file.read_text(encoding="utf-8"))
        used: set[str] = set()
        for node, name in touched(tree_of(file)):
            used.add(name)
            if name not in known and name not in PUBLIC:
                yield f"{place(file, node)}: {name} is private: test what it does, or say why not"
        for name in sorted(known - used):
            yield f"{file.relative_to(ROOT)}: nothing uses {name} any more: take its reason out"
