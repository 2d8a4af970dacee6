"""What a process has with more protocol files, of the folder that it is given; JSON to stdout."""

from __future__ import annotations

import json
import sys
from typing import Any

from schemas import protocols
from schemas.protocols import programs

PROGRAM = b"q" * 32


def main(folder: str, changes: str) -> dict[str, Any]:
    """Return the document, and what is subscribed."""
    programs.ADDRESSES[900] = PROGRAM  # what a line of programs.toml does
    programs.NUMBERS[PROGRAM] = 900
    protocols.__path__.append(folder)

    from api.app import create_app
    from infra.settings import Settings
    from pipeline.ingest.accounts.subscription import Subscription, wanted_kinds
    from schemas.protocols.registry import KINDS

    kinds = wanted_kinds((kind for of in KINDS.values() for kind in of), ["positions", "tokens"])
    filters = Subscription(kinds, "kind", 1).request(0, None).accounts
    document = create_app(Settings(_env_file=None, protocols=changes)).openapi()
    return {
        "paths": document["paths"],
        "schemas": document["components"]["schemas"],
        "filters": sorted(
            each.SerializeToString(deterministic=True).hex() for each in filters.values()
        ),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
