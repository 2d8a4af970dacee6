"""An answer cut to a size that an agent can read: lists lose their ends, nothing else changes.

Lists of our answers are in order of worth or of time, so what goes is what matters least. An entry
that takes the room of others, as a token in a thousand accounts does, has its own lists cut first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

MOST_BYTES: Final = 24 * 1024
"""Some 8,000 tokens of a model; clients warn at 10,000."""
FEWEST: Final = 1  # entries that a list keeps: an example of its shape
_SHARE: Final = 4  # so many entries fit at least: a larger one is cut within


@dataclass(slots=True)
class _List:
    path: str
    entries: list[Any]
    sizes: list[int]  # of each entry as JSON, in bytes
    shown: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes[: self.shown])


def cut(body: bytes, most_bytes: int = MOST_BYTES) -> tuple[Any, list[dict[str, Any]]]:
    """Return an answer's JSON as values, and for each list that was shortened what was shown.

    The result has `most_bytes` at most, unless the answer without its lists is larger.
    """
    answer = orjson.loads(body)
    _, shortened = _shorten(answer, "", len(body) - most_bytes, most_bytes)
    return answer, shortened


def _shorten(value: Any, path: str, over: int, most_bytes: int) -> tuple[int, list[dict[str, Any]]]:
    """Cut lists of a value until it is so many bytes smaller; return those left over, and which."""
    if over <= 0:
        return over, []
    lists = _lists(value, path)
    within = []
    share = most_bytes // _SHARE
    for each in lists:
        for number, entry in enumerate(each.entries):
            excess = min(over, each.sizes[number] - share)
            if excess > 0:
                left, found = _shorten(entry, f"{each.path}.{number}", excess, share)
                each.sizes[number] -= excess - left
                over -= excess - left
                within.append((each, number, found))
    while over > 0:
        longest = max(
            (each for each in lists if each.shown > FEWEST),
            key=lambda each: each.bytes,
            default=None,
        )
        if longest is None:
            break
        # A half at most: beside a list that is a little shorter, it must not lose everything.
        least = max(FEWEST, longest.shown // 2)
        while over > 0 and longest.shown > least:
            longest.shown -= 1
            over -= longest.sizes[longest.shown] + 1  # with its comma
    shortened = []
    for each in lists:
        if each.shown < len(each.entries):
            shortened.append({"list": each.path, "shown": each.shown, "of": len(each.entries)})
            del each.entries[each.shown :]
    for each, number, found in within:
        if number < each.shown:
            shortened += found
    return over, shortened


def _lists(answer: Any, at: str) -> list[_List]:
    """Return the lists of an answer, or of an entry at a path, that are not within another list."""
    found = []
    pending = [(at, answer)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{path}.{name}".lstrip("."), each) for name, each in value.items()]
        elif isinstance(value, list):
            sizes = [len(orjson.dumps(each)) for each in value]
            found.append(_List(path, value, sizes, len(value)))
    return found
