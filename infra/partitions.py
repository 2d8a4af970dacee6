"""What a role says that finds settled lanes of another count than its own."""

from __future__ import annotations

from schemas.topics import SETTLED_BY_MINT


def why_wrong(found: int, where: str) -> str | None:
    """Return why this process cannot work with a count that was found, None where it can."""
    own = SETTLED_BY_MINT.partitions
    if found == own:
        return None
    remedy = f"set SETTLED_PARTITIONS={found} for every role"
    if own > found:
        remedy += f", or stop every role and run `soltape partitions raise {own}`"
    return f"SETTLED_PARTITIONS is {own}, but {where} has {found} settled partitions: {remedy}"
