"""The data set in numbers: how much there is, who is who, and when it happened.

Everything follows from the seed: SQL and Python compute the same addresses, SHA-256 of a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from schemas.solana.base58 import encode
from schemas.times import DAY_MS

DAYS: Final = 14
FIRST_DAY: Final = 20_717  # since the Unix epoch
FIRST_SLOT: Final = 400_000_000
SLOT_MS: Final = 400
SLOTS_A_DAY: Final = DAY_MS // SLOT_MS
QUANTITY_RAW: Final = 10**9  # of each swap: a thousand tokens
DECIMALS: Final = 6
SUPPLY_RAW: Final = 10**15
SOL_USD: Final = 160

LAST_SLOT: Final = FIRST_SLOT + DAYS * SLOTS_A_DAY - 1
LAST_MS: Final = FIRST_DAY * DAY_MS + (LAST_SLOT - FIRST_SLOT) * SLOT_MS

_SWAPS_A_WALLET: Final = 10
_SWAPS_A_MINT: Final = 100
_BUSY: Final = 50  # one wallet in so many makes half of the swaps


@dataclass(frozen=True, slots=True)
class World:
    """So many swaps of so many wallets with so many tokens, within two weeks.

    Half of the swaps are of a fiftieth of the wallets. Tokens fall off in popularity: of n the
    first one has one swap in the cube root of n. A wallet likes some four tokens, a busy one
    forty, and keeps to them.
    """

    swaps: int
    seed: int = 1

    @property
    def wallets(self) -> int:
        """Return how many wallets there are."""
        return max(_BUSY, self.swaps // _SWAPS_A_WALLET)

    @property
    def mints(self) -> int:
        """Return how many tokens there are."""
        return max(10, self.swaps // _SWAPS_A_MINT)

    def parameters(self, **more: Any) -> dict[str, Any]:
        """Return what the SQL files are given."""
        return {
            "seed": self.seed,
            "swaps": self.swaps,
            "wallets": self.wallets,
            "busy": self.wallets // _BUSY,
            "mints": self.mints,
            "first_slot": FIRST_SLOT,
            "slots": DAYS * SLOTS_A_DAY,
            "slot_ms": SLOT_MS,
            "first_ms": FIRST_DAY * DAY_MS,
            "quantity_raw": QUANTITY_RAW,
            **more,
        }

    def wallet(self, number: int) -> str:
        """Return the address of a wallet."""
        return encode(self.raw("wallet", number))

    def mint(self, number: int) -> str:
        """Return the address of a token."""
        return encode(self.raw("mint", number))

    def pool(self, number: int) -> str:
        """Return the address of a token's pool."""
        return encode(self.raw("pool", number))

    def raw(self, kind: str, number: int) -> bytes:
        """Return the bytes of an address."""
        return sha256(f"{self.seed} {kind} {number}".encode()).digest()
