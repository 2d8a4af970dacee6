"""Wallets that every simulated market has, at the same addresses whatever its seed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from schemas.solana.addresses import text

_HABITS: Final = {
    "holder-0": "trades, provides liquidity and has leveraged positions",
    "lender-1": "lends, borrows and provides liquidity",
    "staker-0": "stakes, and has shares of vaults",
}
ADDRESSES: Final = {
    name: blake2b(f"demo/{name}".encode(), digest_size=32).digest() for name in _HABITS
}
"""Name in the market -> address, for a keypair's public key."""
WALLETS: Final = {text(ADDRESSES[name]): habit for name, habit in _HABITS.items()}
"""Base58 address -> what the wallet does."""
