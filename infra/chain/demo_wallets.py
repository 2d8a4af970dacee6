"""Wallets that every simulated market has, at the same addresses whatever its seed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from solders.keypair import Keypair

from schemas.solana.addresses import text

_HABITS: Final = {
    "holder-0": "trades, provides liquidity and has leveraged positions",
    "lender-1": "lends, borrows and provides liquidity",
    "staker-0": "stakes, and has shares of vaults and pools",
}
_KNOWN: Final = {"obligor-0": "lends, and has nothing whose worth is not known"}
PAYER: Final = "holder-0"
"""Who pays for calls where nobody else is named."""
SELLER: Final = "seller"
"""Whom payments for calls go to."""
FEE_PAYER: Final = "facilitator"


def keypair(name: str) -> Keypair:
    """Return a wallet's key pair; anybody knows it, and it is worth nothing elsewhere."""
    return Keypair.from_seed(blake2b(f"demo/{name}".encode(), digest_size=32).digest())


def address(name: str) -> bytes:
    """Return a wallet's address, 32 bytes."""
    return bytes(keypair(name).pubkey())


ADDRESSES: Final = {name: address(name) for name in _HABITS}
"""Name in the market -> address, of those that have positions of all protocols together."""
WALLETS: Final = {text(ADDRESSES[name]): habit for name, habit in _HABITS.items()}
"""Base58 address -> what the wallet does."""
KNOWN: Final = {name: address(name) for name in _KNOWN}
"""Name in the market -> address, of those without a position that has an unknown amount."""
SHOWN: Final = WALLETS | {text(KNOWN[name]): habit for name, habit in _KNOWN.items()}
"""Base58 address -> what the wallet does, of all that users are pointed to."""
