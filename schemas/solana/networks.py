"""Which chain a genesis hash identifies: a public cluster, or a local chain of `soltape chain`."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

from schemas.solana import base58

Network = Literal["mainnet", "testnet", "devnet", "simulated", "recorded"]


def _local(kind: str) -> str:
    return base58.encode(sha256(f"soltape {kind} chain".encode()).digest())


SIMULATED: Final = _local("simulated")
RECORDED: Final = _local("recorded")

# The public clusters' are those a validator is given as --expected-genesis-hash (Agave's
# documentation of clusters).
_NETWORKS: Final[dict[str, Network]] = {
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": "mainnet",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY": "testnet",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": "devnet",
    SIMULATED: "simulated",
    RECORDED: "recorded",
}


def network_of(genesis_hash: str) -> Network | None:
    """Return the network; None for a chain that is none of these."""
    return _NETWORKS.get(genesis_hash)


def is_genesis_hash(text: object) -> bool:
    """Return True if a value is 32 bytes as base58 text."""
    try:
        return isinstance(text, str) and len(text) <= 44 and len(base58.decode(text)) == 32
    except ValueError:
        return False
