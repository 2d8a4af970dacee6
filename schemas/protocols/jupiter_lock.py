"""Jupiter Lock: tokens that vest for a recipient.

A cancelled escrow is empty: cancelling sends to the recipient what was free, and the rest back.
Each escrow has whether its creator may cancel it, or name another recipient of all that is in it.

Source: `locker` (`state/vesting_escrow.rs`: `VestingEscrow`, `get_max_unlocked_amount`,
`signer_flag`; `instructions/cancel_vesting_escrow.rs`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64

PROGRAM: Final = key("LocpQgucEQHbqNABEYvBvwoxCPsSbG91A1QaQhQQqjn")

_RECIPIENT_AT: Final = 8
_CREATOR: Final = slice(72, 104)
ESCROW: Final = Kind(
    "jupiter_lock_escrow",
    PROGRAM,
    bytes.fromhex("f477b704497487c3"),  # sha256("account:VestingEscrow")
    size=296,
    wallets=(_RECIPIENT_AT,),
)
_ROUTE: Final = "vesting"
_CREATOR_MAY: Final = 1  # a bit of a mode; the other is the recipient's
_OTHER_RECIPIENT: Final = (
    "locks: the creator of the escrow may name another recipient of all that is in it"
)
_CANCELLABLE: Final = "locks: the creator of the escrow may cancel it, and has back what is locked"
_U64: Final = 1 << 64
_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not


class _Vesting(NamedTuple):
    cliff_s: int
    frequency_s: int
    cliff_raw: int
    period_raw: int
    periods: int

    def unlocked_raw(self, now_s: int) -> int:
        """Return what has vested, claimed or not."""
        if now_s < self.cliff_s:
            return 0
        if not self.frequency_s:
            return self.cliff_raw
        passed = min((now_s - self.cliff_s) // self.frequency_s, self.periods)
        return self.cliff_raw + passed * self.period_raw

    @property
    def total_raw(self) -> int:
        return self.cliff_raw + self.periods * self.period_raw

    @property
    def ends_s(self) -> int | None:
        """When all of it has vested; None: never, as periods without length do not pass."""
        if not self.periods or not self.period_raw:
            return self.cliff_s
        return self.cliff_s + self.frequency_s * self.periods if self.frequency_s else None


def read(held: Held, world: World) -> Reading:
    """Return what vests for a wallet and was not claimed; raises Unreadable."""
    yield from ()
    return [
        position
        for account in held.of(ESCROW)
        if account.data[_RECIPIENT_AT : _RECIPIENT_AT + 32] == held.wallet
        if (position := _position(account, world.time_s)) is not None
    ]


def _position(account: Account, now_s: int) -> Position | None:
    """Return an escrow; None where it is cancelled or all of it is claimed."""
    data = account.data
    if len(data) != ESCROW.size:
        raise Unreadable(f"escrow of {len(data)} bytes", account.address)
    if u64(data, 200):  # when it was cancelled
        return None
    vesting = _Vesting(*(u64(data, at) for at in (144, 152, 160, 168, 176)))
    claimed_raw = u64(data, 184)
    unlocked_raw = vesting.unlocked_raw(now_s)
    if vesting.total_raw >= _U64:
        raise Unreadable(f"escrow of {vesting.total_raw}, more than a token has", account.address)
    if claimed_raw > unlocked_raw:
        detail = f"total_claimed_amount {claimed_raw} at 184 of {unlocked_raw} vested"
        raise Unreadable(detail, account.address)
    free_raw, locked_raw = unlocked_raw - claimed_raw, vesting.total_raw - unlocked_raw
    mint = raw_pubkey(data, 40)
    lines = ((Role.SUPPLY, free_raw), (Role.LOCKED, locked_raw))
    assets = [Asset(role, mint, raw) for role, raw in lines if raw]
    if not assets:
        return None
    ends_ms = None if vesting.ends_s is None else min(vesting.ends_s * 1000, _LATEST_MS)
    return Position(
        _ROUTE,
        account,
        market=mint,
        assets=assets,
        locks=[Lock("vesting", locked_raw, free_raw, ends_ms)],
        unsupported_fields=_revocable(data, locked_raw),
    )


def _revocable(data: bytes, locked_raw: int) -> list[str]:
    """Return how another than the recipient may take back what is in an escrow."""
    if data[_CREATOR] == data[_RECIPIENT_AT : _RECIPIENT_AT + 32]:
        return []
    modes = ((137, _OTHER_RECIPIENT, True), (138, _CANCELLABLE, locked_raw > 0))
    return [named for at, named, applies in modes if applies and data[at] & _CREATOR_MAY]


PROTOCOL: Final = Protocol(
    "jupiter_lock",
    (ESCROW,),
    (Route(_ROUTE, Shape.GOVERNANCE, "Tokens that vest for the wallet"),),
    read,
    identified="likely",
    unsupported_fields=(
        "escrows that the wallet created for others: their tokens are the recipients'",
        "escrows claimed by a list of recipients (`VestingEscrow` of a Merkle root)",
    ),
)
