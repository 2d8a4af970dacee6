"""Jupiter v6: one instruction that calls several venues and reports each hop.

`route` swaps from the user's own accounts, `shared_accounts_route` from accounts of Jupiter's
authority; both emit one SwapEvent a hop. The v2 forms emit one SwapsEvent for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, Mask, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import JUPITER, TOKEN, anchor_tag, event_tag
from infra.chain.market.venues.venue import Call, Pool, Trader, pack_u64
from schemas.solana.addresses import key

SHARED_AUTHORITY: Final = key("HFqp6ErWHY6Uzhj8rFyjYuDya2mXUpYEk8VW75K9PSiY")
SLIPPAGE_ERROR: Final = 6_001
NOT_ENOUGH_KEYS: Final = 3_005  # of Anchor: the price has left the accounts that were signed

_ROUTE: Final = anchor_tag("route")
_SHARED: Final = anchor_tag("shared_accounts_route")
_ROUTE_V2: Final = anchor_tag("route_v2")
_SHARED_V2: Final = anchor_tag("shared_accounts_route_v2")
_SWAP: Final = event_tag("SwapEvent")
_SWAPS: Final = event_tag("SwapsEvent")
_TAIL: Final = Struct("<QQHB").pack
_HEAD_V2: Final = Struct("<QQHHH").pack

KINDS: Final = ("route", "shared", "route_v2", "shared_v2")


class Hop(NamedTuple):
    """One pool of a route, entered with a mint."""

    pool: Pool
    mint_in: Mint

    @property
    def mint_out(self) -> Mint:
        """The mint that comes out."""
        return self.pool.other(self.mint_in)


def quote(hops: Sequence[Hop], amount_in_raw: int) -> int:
    """Return what the whole route gives."""
    amount = amount_in_raw
    for hop in hops:
        amount = hop.pool.quote(hop.mint_in, amount)
        if amount <= 0:
            return 0
    return amount


class Route:
    """A signed route: accounts and data are fixed, amounts between the hops are not."""

    def __init__(
        self,
        ledger: Ledger,
        kind: str,
        user: bytes,
        hops: Sequence[Hop],
        amount_in_raw: int,
        quoted_out_raw: int,
        slippage_bps: int,
    ) -> None:
        self.kind = kind
        self.user = user
        self.hops = hops
        self.amount_in_raw = amount_in_raw
        self.quoted_out_raw = quoted_out_raw
        self.slippage_bps = slippage_bps
        self.shared = kind.startswith("shared")
        authority = SHARED_AUTHORITY if self.shared else user
        first, last = hops[0].mint_in, hops[-1].mint_out
        self.user_source = ledger.associated(user, first)
        self.user_destination = ledger.associated(user, last)
        self.traders = [
            Trader(
                authority,
                ledger.associated(authority, hop.mint_in),
                ledger.associated(authority, hop.mint_out),
                user,
            )
            for hop in hops
        ]
        self.call = self._call(first, last)

    @property
    def minimum_out_raw(self) -> int:
        """The least that the user accepts."""
        return self.quoted_out_raw * (10_000 - self.slippage_bps) // 10_000

    def _call(self, first: Mint, last: Mint) -> Call:
        head, head_mask = self._head(first, last)
        accounts: list[bytes] = list(head)
        writable: list[bool] = list(head_mask)
        for hop, trader in zip(self.hops, self.traders, strict=True):
            leg = hop.pool.call(trader, hop.mint_in, self.amount_in_raw, 0)
            accounts += (hop.pool.PROGRAM.address, *leg.accounts)
            writable += (False, *leg.writable)
        return Call(tuple(accounts), tuple(writable), self._data())

    def _head(self, first: Mint, last: Mint) -> tuple[tuple[bytes, ...], Mask]:
        none, own = JUPITER.address, (JUPITER.event_authority, JUPITER.address)
        user, source, destination = self.user, self.user_source, self.user_destination
        inner = (self.traders[0].source, self.traders[-1].destination)
        mints = (first.address, last.address)
        programs = (first.program.address, last.program.address)
        head: tuple[bytes, ...]
        match self.kind:
            case "route":
                head = (TOKEN.address, user, source, destination, none, last.address, none, *own)
                return head, mask("--ww-----")
            case "shared":
                head = (
                    TOKEN.address,
                    SHARED_AUTHORITY,
                    user,
                    source,
                    *inner,
                    destination,
                    *mints,
                    none,
                    none,
                    *own,
                )
                return head, mask("---wwww------")
            case "route_v2":
                head = (user, source, destination, *mints, *programs, none, *own)
                return head, mask("-ww-------")
            case _:
                head = (
                    SHARED_AUTHORITY,
                    user,
                    source,
                    *inner,
                    destination,
                    *mints,
                    *programs,
                    *own,
                    inner[0],
                )
                return head, mask("--wwww------w")

    def _data(self) -> bytes:
        count = len(self.hops).to_bytes(4, "little")
        if not self.kind.endswith("v2"):
            plan = count + b"".join(
                hop.pool.ROUTE_STEP + bytes((100, number, number + 1))
                for number, hop in enumerate(self.hops)
            )
            tail = _TAIL(self.amount_in_raw, self.quoted_out_raw, self.slippage_bps, 0)
            return _SHARED + b"\x01" + plan + tail if self.shared else _ROUTE + plan + tail
        plan = count + b"".join(
            hop.pool.ROUTE_STEP + (10_000).to_bytes(2, "little") + bytes((number, number + 1))
            for number, hop in enumerate(self.hops)
        )
        head = _HEAD_V2(self.amount_in_raw, self.quoted_out_raw, self.slippage_bps, 0, 0)
        return _SHARED_V2 + b"\x08" + head + plan if self.shared else _ROUTE_V2 + head + plan

    def execute(self, tx: Execution) -> None:
        """Run the instruction."""
        tx.enter(JUPITER, self.call.accounts, self.call.data, self.call.writable)
        name = {
            "route": "Route",
            "shared": "SharedAccountsRoute",
            "route_v2": "RouteV2",
            "shared_v2": "SharedAccountsRouteV2",
        }[self.kind]
        tx.log(f"Program log: Instruction: {name}")
        amount = self.amount_in_raw
        first, last = self.hops[0].mint_in, self.hops[-1].mint_out
        if self.shared:
            source = self.traders[0].source
            amount -= _pull(tx, first, self.user_source, source, self.user, amount)
        reports: list[bytes] = []
        received = 0
        for hop, trader in zip(self.hops, self.traders, strict=True):
            if any(each not in self.call.accounts for each in hop.pool.moving_accounts()):
                raise InstructionError(NOT_ENOUGH_KEYS, "AnchorError: AccountNotEnoughKeys.")
            before = tx.ledger.balance(trader.destination)
            hop.pool.swap(tx, trader, hop.mint_in, amount, 0)
            received = tx.ledger.balance(trader.destination) - before
            sides = hop.mint_in.address + pack_u64(amount)
            report = sides + hop.mint_out.address + pack_u64(received)
            if self.kind.endswith("v2"):
                reports.append(report)
            else:
                tx.emit_cpi(JUPITER, _SWAP + hop.pool.PROGRAM.address + report, 184)
            amount = received
        if reports:
            count = len(reports).to_bytes(4, "little")
            tx.emit_cpi(JUPITER, _SWAPS + count + b"".join(reports), 184)
        if received < self.minimum_out_raw:
            raise InstructionError(SLIPPAGE_ERROR, "AnchorError: SlippageToleranceExceeded.")
        if self.shared:
            own = self.traders[-1].destination
            received -= _pull(tx, last, own, self.user_destination, SHARED_AUTHORITY, received)
        tx.returns(JUPITER, pack_u64(received))
        tx.leave(16_000)


def _pull(
    tx: Execution, mint: Mint, source: bytes, destination: bytes, authority: bytes, amount: int
) -> int:
    if mint.program is TOKEN:
        spl.transfer(tx, source, destination, authority, amount)
        return 0
    return spl.transfer_checked(tx, source, mint, destination, authority, amount)
