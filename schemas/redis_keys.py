"""Every key of ours in Redis: its name, type, owner, how long it stays.

`{m3}` and `{w3}` in a key are Redis Cluster hash tags: the partition, by mint or by wallet, that
the key's facts were computed from. All keys of one partition live on one node, so that they and
the partition's watermark are written in one MULTI. `mint_tag` and `wallet_tag` tell a reader
where to look. Raw 32-byte addresses, not base58, stand where a key or a field says `raw`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of key; `make(...)` fills in its name."""

    pattern: str  # str.format pattern; {tag} becomes the hash tag with its braces
    type: Literal["string", "hash", "zset", "set", "list", "stream"]
    owner: str  # the agent group that writes it; everybody else reads
    ttl_s: int | None
    about: str

    def make(self, **parts: object) -> str:
        """Return the name of one key."""
        return self.pattern.format(**parts)


def mint_tag(mint: str) -> str:
    """Return the hash tag of what is kept by mint."""
    return tag_of_mints(SETTLED_BY_MINT.partition(mint))


def wallet_tag(wallet: str) -> str:
    """Return the hash tag of what is kept by wallet."""
    return tag_of_wallets(SETTLED_BY_WALLET.partition(wallet))


def tag_of_mints(partition: int) -> str:
    """Return the hash tag of a partition by mint."""
    return f"{{m{partition}}}"


def tag_of_wallets(partition: int) -> str:
    """Return the hash tag of a partition by wallet."""
    return f"{{w{partition}}}"


# Progress of the agents on the settled lanes.

WATERMARK: Final = Key(
    "wm:{tag}:{group}",
    "hash",
    "each settled group",
    None,
    "slot: the last applied; offset: of its message; time_ms: of its block; at_ms: when written",
)

# Prices and live frames (agent `live`). The streams are `schemas.channels`.

PRICE: Final = Key(
    "price:{tag}:{mint}",
    "hash",
    "live",
    3 * 86_400,
    "price_sol, price_usd, time_ms, slot, pool, closes: `schemas.prices`; state: the writer's own",
)
LIVE_EPOCH: Final = Key(
    "live:epoch",
    "string",
    "live",
    None,
    "changes whenever the live streams may have a hole",
)
LIVE_FENCE: Final = Key(
    "live:fence",
    "hash",
    "live",
    None,
    "partition of tape-live: offset and sent_ms of the last batch whose frames are in the streams",
)

# Books of wallets (agent `pnl`).

# Markets of mints (agent `market`).
