"""Exponent's second program: PT and SY between two ticks of a market, as a withdrawal pays them.

Each interval between two ticks has PT and SY of its own, and a position has shares of those that
it covers. A tick that is made within an interval splits it: shares that were taken before belong to
its parts, in proportion to their rates. The program and its SDK keep rates, and divide them, in
floating point; so does this file, for the proportion alone.

Source: `withdrawLiquidity.ts` and `tickTree.ts` of `@exponent-labs/market-three-math` 0.9.29; the
layouts of both sizes of the ticks' account are second-hand, from public readers of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from struct import Struct, error
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Reading,
    Role,
    Unreadable,
)
from schemas.protocols.exponent_number import ONE, number
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader, f64, raw_pubkey, u32, u64

PROGRAM: Final = key("XPC1MM4dYACDfykNuXYZ5una2DsMDWL24CrYubCvarC")
ROUTE: Final = "v2/liquidity"
POSITION: Final = Kind(
    "exponent_v2_lp_position", PROGRAM, bytes.fromhex("69f125c8e002fc5a"), wallets=(8,)
)
MARKET: Final = Kind("exponent_v2_market", PROGRAM, bytes.fromhex("f2f01a0f94bab9cd"))
TICKS: Final = Kind("exponent_v2_ticks", PROGRAM, bytes.fromhex("0a66fba1e757abe3"), group="arrays")
KINDS: Final = (POSITION, MARKET, TICKS)

_NODES: Final = 1_000
_NODES_AT: Final = 40
_NODE_SIZES: Final = {344_136: 344, 360_136: 360}  # of a node, by that of the account
_MARKET_AT: Final = 96  # before the end of the ticks' account
_LINKS: Final = Struct("<III").unpack_from  # left, right, parent
_NEVER_SPLIT: Final = 344
_NONE: Final = 0xFFFF_FFFF
_MOST_EMISSIONS: Final = 64  # of a share, and farms of a position
_MOST_STEPS: Final = 4 * _NODES  # as many intervals as there are ticks, and each split once
_UNKNOWN: Final = "assets: a market's ticks, which say what shares are worth, are not known"
_NO_FEES: Final = "fees: the arithmetic of what is owed beside the liquidity is not confirmed"


class _Share(NamedTuple):
    """A position's part of an interval, from the tick `left` to the tick `right`."""

    left: int
    right: int
    epoch: int  # of the splits of `left` that it knows
    raw: int  # a number


class _Tick(NamedTuple):
    rate: float
    pt_raw: int
    sy_raw: int
    shares: int  # a number
    epoch: int  # how often it was split
    parent: tuple[int, int] | None  # the tick that it split, and its epoch then


@dataclass(frozen=True)
class _Ticks:
    """The ticks of a market: a tree, ordered by their rates."""

    account: Account

    @cached_property
    def order(self) -> dict[int, int]:
        """Return the rank of each tick that is in the tree; raises Unreadable."""
        data, size = self.account.data, self._size
        ranks: dict[int, int] = {}
        path: list[int] = []
        at = u32(data, 8)
        seen = 0
        while at or path:
            while at:
                seen += 1
                if at > _NODES or seen > _NODES:
                    raise Unreadable(f"ticks: no tree, at node {at}", self.account.address)
                path.append(at)
                at = _LINKS(data, _NODES_AT + size * (at - 1))[0]
            at = path.pop()
            if at in ranks:
                raise Unreadable(f"ticks: node {at} is in the tree twice", self.account.address)
            ranks[at] = len(ranks)
            at = _LINKS(data, _NODES_AT + size * (at - 1))[1]
        return ranks

    @cached_property
    def _splits(self) -> dict[tuple[int, int], list[int]]:
        """Return by parent and its epoch the ticks that split it, ascending."""
        found: dict[tuple[int, int], list[int]] = {}
        for index in self.order:
            if (parent := self.tick(index).parent) is not None:
                found.setdefault(parent, []).append(index)
        return found

    @property
    def _size(self) -> int:
        size = _NODE_SIZES.get(len(self.account.data))
        if size is None:
            raise Unreadable(f"ticks of {len(self.account.data)} bytes", self.account.address)
        return size

    def tick(self, index: int) -> _Tick:
        """Return a tick of the tree; raises Unreadable."""
        if index not in self.order:
            raise Unreadable(f"ticks: there is no tick {index}", self.account.address)
        data = self.account.data
        at = _NODES_AT + self._size * (index - 1)
        parent = None
        if self._size != _NEVER_SPLIT:
            parent = u32(data, at + 352), u64(data, at + 336)
        return _Tick(
            f64(data, at + 80),
            u64(data, at + 88),
            u64(data, at + 96),
            number(data, at + 104),
            u64(data, at + 328),
            parent,
        )

    def split(self, share: _Share) -> int:
        """Return the tick that split a share's interval first; raises Unreadable."""
        order = self.order
        ends = order.get(share.right, 0)
        for index in self._splits.get((share.left, share.epoch), ()):
            if order[share.left] < order[index] < ends:
                return index
        raise Unreadable(f"ticks: nothing splits tick {share.left}", self.account.address)

    def parts(self, shares: list[_Share]) -> Iterator[_Share]:
        """Yield shares of intervals as they are now; raises Unreadable."""
        stack = shares[::-1]
        for _ in range(_MOST_STEPS):
            if not stack:
                return
            share = stack.pop()
            left = self.tick(share.left)
            if share.epoch >= left.epoch:
                yield share
                continue
            middle = self.split(share)
            kept, moved = _parted(share.raw, self._part(share, middle))
            stack.append(_Share(middle, share.right, share.epoch, moved))
            stack.append(_Share(share.left, middle, share.epoch + 1, kept))
        raise Unreadable("ticks: more parts of shares than there are ticks", self.account.address)

    def _part(self, share: _Share, middle: int) -> int:
        """Return which number of an interval is left of a tick."""
        low, high, at = (self.tick(each).rate for each in (share.left, share.right, middle))
        whole = high - low
        if not whole > 0:  # as the program does; a rate may be no number
            return 0
        part = (at - low) / whole
        if part != part:
            raise Unreadable("ticks: a rate is no number", self.account.address)
        scaled = max(0.0, min(1.0, part)) * ONE
        down = int(scaled)
        return down + (scaled - down >= 0.5)


def _parted(raw: int, part: int) -> tuple[int, int]:
    return raw * part // ONE, raw * (ONE - part) // ONE


class _Placed(NamedTuple):
    account: Account
    market: bytes
    liquidity: int
    shares: list[_Share]


def read(held: Held) -> Reading:
    """Return a wallet's liquidity as PT and SY; raises Unreadable."""
    placed = [_placed(each) for each in held.of(POSITION) if each.data[8:40] == held.wallet]
    placed = [each for each in placed if each.liquidity]
    if not placed:
        return []
    markets = yield tuple(dict.fromkeys(each.market for each in placed))
    wanted = {
        each.market: _ticks_of(markets[each.market], each.account)
        for each in placed
        if each.market in markets
    }
    found = (yield tuple(dict.fromkeys(wanted.values()))) if wanted else {}
    ticks = {address: _Ticks(account) for address, account in found.items()}
    return [_position(each, markets.get(each.market), wanted, ticks) for each in placed]


def _ticks_of(market: Account, position: Account) -> bytes:
    if market.kind is not MARKET or len(market.data) < 424:
        raise Unreadable(f"market of {len(market.data)} bytes", position.address)
    return raw_pubkey(market.data, 392)


def _placed(account: Account) -> _Placed:
    reader = Reader(account.data, 40)
    try:
        market = reader.raw_pubkey()
        reader.skip(32)  # fees inside, as last seen
        liquidity = reader.u64()
        reader.skip(24)  # what is owed, and its ticks
        reader.skip(40 * _count(reader, _MOST_EMISSIONS, account))
        shares = []
        for _ in range(_count(reader, _NODES, account)):
            left, right, epoch = reader.u32(), reader.u32(), reader.u64()
            raw = number(account.data, reader.offset)
            reader.skip(32)
            reader.skip(40 * _count(reader, _MOST_EMISSIONS, account))
            shares.append(_Share(left, right, epoch, raw))
    except error:
        raise Unreadable(f"position of {len(account.data)} bytes", account.address) from None
    return _Placed(account, market, liquidity, shares)


def _count(reader: Reader, most: int, account: Account) -> int:
    count = reader.u32()
    if count > most:
        raise Unreadable(f"{count} elements at {reader.offset - 4}", account.address)
    return count


def _position(
    placed: _Placed,
    market: Account | None,
    wanted: Mapping[bytes, bytes],
    found: Mapping[bytes, _Ticks],
) -> Position:
    position = Position(ROUTE, placed.account, market=placed.market)
    position.unsupported_fields.append(_NO_FEES)
    if market is None:
        position.missing.append(placed.market)
        position.unsupported_fields.append(_UNKNOWN)
        return position
    mints = raw_pubkey(market.data, 72), raw_pubkey(market.data, 104)
    ticks = found.get(wanted[placed.market])
    amounts: tuple[int | None, int | None] = (None, None)
    if ticks is None:
        position.missing.append(wanted[placed.market])
        position.unsupported_fields.append(_UNKNOWN)
        position.reference_slot = market.slot
    else:
        position.reference_slot = min(market.slot, ticks.account.slot)
        amounts = _withdrawn(placed, ticks)
    for role, lines in ((Role.SUPPLY, amounts), (Role.REWARD, (None, None))):
        position.assets += [
            Asset(role, mint, raw) for mint, raw in zip(mints, lines, strict=True) if raw != 0
        ]
    return position


def _withdrawn(placed: _Placed, ticks: _Ticks) -> tuple[int, int]:
    """Return the raw PT and SY that all shares are worth, each rounded down; raises Unreadable."""
    account = placed.account
    try:
        if ticks.account.kind is not TICKS or _market_of(ticks.account) != placed.market:
            raise Unreadable("its market's ticks are of another", account.address)
        pt_raw = sy_raw = 0
        for share in ticks.parts(placed.shares):
            tick = ticks.tick(share.left)
            if share.raw > tick.shares:
                raise Unreadable(f"more than all shares of tick {share.left}")
            if share.raw:
                pt_raw += tick.pt_raw * share.raw // tick.shares
                sy_raw += tick.sy_raw * share.raw // tick.shares
    except Unreadable as bad:
        raise Unreadable(str(bad), account.address) from None
    return pt_raw, sy_raw


def _market_of(ticks: Account) -> bytes:
    return ticks.data[-_MARKET_AT : 32 - _MARKET_AT]
