"""The rooms that mutants are made of, and the tests that must notice them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SESSIONS: Final = ".mutants"
GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")


class Room(NamedTuple):
    """Folders whose modules are mutated, and the folders of tests that mirror them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def modules(self, root: Path = ROOT) -> Iterator[str]:
        """Yield the room's modules as paths from the root, generated ones left out."""
        for folder in self.sources:
            for file in sorted((root / folder).rglob("*.py")):
                if not file.name.endswith(GENERATED):
                    yield file.relative_to(root).as_posix()


ROOMS: Final = {
    "pipeline/domain": Room(("pipeline/domain",), ("tests/pipeline/domain",)),
    # The counting is done by scripts inside Redis: their tests start a Valkey, once a run.
    "api/access": Room(("api/access",), ("tests/api/access", "tests/integration/api/access")),
    "schemas": Room(("schemas",), ("tests/schemas",)),
    "pipeline/decoding": Room(
        ("pipeline/decoding", "pipeline/decoders"),
        ("tests/pipeline/decoding", "tests/pipeline/decoders"),
    ),
}
