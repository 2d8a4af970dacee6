"""The statements of our migrations as replicated tables: with CLICKHOUSE_REPLICATED.

Each table of the MergeTree family becomes the replicated one of its kind, its place in Keeper made
of the server's macros {shard} and {replica}. With CLICKHOUSE_CLUSTER what is created or dropped is
so on every server of that cluster; an ALTER reaches the replicas of its table through Keeper, and
sent to each it would only meet itself.

Rows are there for the agents once a majority of the replicas has them (`INSERT_SETTINGS`), before
the watermark passes them. What a retry writes twice is left out by its token, as in one server:
replicas remember more of them than `non_replicated_deduplication_window` asks for. A mutation with
mutations_sync = 2, as `soltape rebuild` deletes rows, waits for all replicas.

Reads take what their replica has, which may be less than the majority has. The agents read back
what they put away: give them one server, and another only when its replication queue is empty.
"""

from __future__ import annotations

import re
from typing import Final

from infra.clickhouse.statement import tokens

INSERT_SETTINGS: Final = {"insert_quorum": "auto"}
PLACE: Final = b"'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
_KINDS: Final = ((b"TABLE",), (b"VIEW",), (b"MATERIALIZED", b"VIEW"), (b"DATABASE",))
_CONDITIONS: Final = ((b"IF", b"NOT", b"EXISTS"), (b"IF", b"EXISTS"))
_MERGE_TREE: Final = re.compile(rb"\w*MergeTree", re.IGNORECASE)


class NotReplicable(Exception):
    """A statement makes a table whose rows would be on one server alone; the text names it."""


def replicated(statement: str, cluster: str | None = None) -> str:
    """Return a statement for replicated tables; one that makes or drops nothing as it is.

    Raises NotReplicable.
    """
    text = statement.encode()
    found = list(tokens(text))
    words = [(token["word"] or b"").upper() for token in found]
    if words[:1] not in ([b"CREATE"], [b"DROP"]):
        return statement
    at = 3 if words[1:3] == [b"OR", b"REPLACE"] else 1
    kind = next(kind for kind in _KINDS if tuple(words[at : at + len(kind)]) == kind)
    at += len(kind)
    for condition in _CONDITIONS:
        if tuple(words[at : at + len(condition)]) == condition:
            at += len(condition)
            break
    inserts: list[tuple[int, bytes]] = []  # where, and what
    if cluster is not None:
        inserts.append((found[at].end(), b" ON CLUSTER " + cluster.encode()))
    if words[0] == b"CREATE" and kind == (b"TABLE",):
        inserts += _engine(found, words)
    for where, what in reversed(inserts):
        text = text[:where] + what + text[where:]
    return text.decode()


def _engine(found: list[re.Match[bytes]], words: list[bytes]) -> list[tuple[int, bytes]]:
    """Return what to insert into the engine clause of a CREATE TABLE."""
    depth = 0
    for at, token in enumerate(found):
        depth += (token["mark"] == b"(") - (token["mark"] == b")")
        if depth or words[at] != b"ENGINE":
            continue
        at += 2 if found[at + 1]["mark"] == b"=" else 1
        name = found[at]["word"] or b""
        if not _MERGE_TREE.fullmatch(name) or name.upper().startswith((b"REPLICATED", b"SHARED")):
            raise NotReplicable(f"a table of the engine {name.decode()} cannot be replicated")
        begin = (found[at].start(), b"Replicated")
        if at + 1 == len(found) or found[at + 1]["mark"] != b"(":
            return [begin, (found[at].end(), b"(" + PLACE + b")")]
        has_none = found[at + 2]["mark"] == b")"
        return [begin, (found[at + 1].end(), PLACE + (b"" if has_none else b", "))]
    raise NotReplicable("a table without an engine cannot be replicated")
