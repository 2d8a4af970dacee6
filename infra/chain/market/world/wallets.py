"""The people of the market: wallets and validators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Wallet:
    """A wallet; bots keep wrapped SOL at hand, others wrap and unwrap for each trade."""

    address: bytes
    keeps_wsol: bool = False


@dataclass(slots=True, eq=False)
class Validator:
    """A validator's identity and vote account."""

    address: bytes
    vote_account: bytes
