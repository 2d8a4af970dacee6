"""Wallets as they are answered: one or many, each section from one state of the wallet.

However many wallets are asked for, it is one trip for their states, one query for what of them is
in ClickHouse, one trip for the tokens, one for the pools behind the prices of what they hold; a
wallet with more positions than are read at once takes a query and a trip of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

from api.accounts.following import MOST_MINTS, Following, FollowState
from api.accounts.lamports import LamportsOf
from api.accounts.mints import MintReader
from api.accounts.wallets import WalletAccountsReader
from api.positions.answers import AggregatePositions
from api.stores.caches import BoundedCache
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens.backing import Backing
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import SOL_MINT, TokenReader, Tokens
from api.wallets.answers import (
    Batch,
    BatchItem,
    HoldingsAnswer,
    Portfolio,
    PortfolioAnswer,
    Positions,
    TopPositions,
)
from api.wallets.figures import OpenSum, compact_answer, position_answer, trading
from api.wallets.held import (
    HeldAccounts,
    fill_in_decimals,
    from_books,
    held_accounts,
    unknown_mints,
)
from api.wallets.holdings import (
    Beginning,
    Wanted,
    holdings,
    holdings_totals,
)
from api.wallets.known_position import KnownPosition
from api.wallets.position_answers import (
    AllPositions,
    AsOf,
    GapCounts,
    PnlDay,
    PositionAnswer,
    PositionList,
    Summary,
    SummaryAnswer,
    Totals,
)
from api.wallets.positions import (
    BEFORE_ALL,
    PositionPage,
    no_position,
    order,
    read_large,
    read_one,
    read_page,
    with_cold,
)
from api.wallets.state import IDLE, MOST_POSITIONS, Part, WalletReader, WalletState
from schemas.positions import summary as sum_of
from schemas.solana.base58 import decode
from schemas.times import DAY_MS

LISTED: Final = 50  # positions of a wallet in a batch
TOP: Final = 20  # positions in a portfolio
MOST_IN_BATCH: Final = 200  # positions of a wallet that are read at once
REMEMBERED: Final = 4_096  # wallets whose mints are asked for, of 100 at most each
_LARGE_AT_ONCE: Final = 4  # queries
_IDLE_FIGURES: Final = trading(IDLE)


class Section(StrEnum):
    """What a batch may include."""

    POSITIONS = "positions"
    HOLDINGS = "holdings"
    PNL = "pnl"
    PORTFOLIO = "portfolio"
    LENDING = "lending"
    PERPS = "perps"
    STAKING = "staking"
    GOVERNANCE = "governance"
    LP = "lp"
    YIELD = "yield"
    REWARDS = "rewards"


ReadAggregates = Callable[
    [Sequence[str], Sequence[str]], Awaitable[Mapping[str, Mapping[str, AggregatePositions]]]
]
"""From wallets and names of aggregates to what is answered, by wallet and name."""


class View(StrEnum):
    """How much of each position a list shows."""

    FULL = "full"
    COMPACT = "compact"


_PARTS: Final = {
    Section.POSITIONS: Part.POSITIONS,
    Section.HOLDINGS: Part.BALANCES,
    Section.PNL: Part.DAYS,
    Section.PORTFOLIO: Part.POSITIONS | Part.BALANCES | Part.DAYS,
}
OF_BOOKS: Final = (*_PARTS,)
"""Sections that a batch has where none are named."""
OF_PROTOCOLS: Final = {
    section: f"all-{section.value}"
    for section in (
        Section.LENDING,
        Section.PERPS,
        Section.STAKING,
        Section.GOVERNANCE,
        Section.LP,
        Section.YIELD,
        Section.REWARDS,
    )
}
"""Sections that are aggregates of positions, with their names."""


_Unknown = tuple[Sequence[str], Sequence[bytes]]
"""Mints of a wallet's tokens that are not known, and vaults that their prices need."""


@dataclass(slots=True)
class Book:
    """The positions of a wallet that an answer is made of, newest trade first."""

    positions: list[tuple[str, KnownPosition]]
    count: int  # of all there are
    is_complete: bool


@dataclass(slots=True)
class Facts:
    """All that the sections of a wallet are made of."""

    state: WalletState
    book: Book
    tokens: Tokens
    backed: frozenset[str]
    pooled: Tokens  # those that accounts hold, priced by their pool where no market does
    vaults: Sequence[bytes]  # that these prices need followed
    held: HeldAccounts | None  # where balances are asked for
    gaps: GapCounts | None

    def as_of(self) -> AsOf:
        """Return up to where the answer is complete, and what it lacks."""
        state, held = self.state, self.held
        if held is not None and held.as_of_slot < state.as_of_slot:
            return {
                "as_of_slot": held.as_of_slot,
                "as_of_ms": held.as_of_ms,
                "gaps": self.gaps,
            }
        return _as_of(state, self.gaps)

    @property
    def balances(self) -> HeldAccounts:
        """Return what the wallet's accounts hold."""
        return self.held or from_books(self.state, None, FollowState.NOT_FOLLOWED)

    @property
    def unknown(self) -> _Unknown:
        """Return what has to be followed, so that all that the accounts hold has its worth."""
        return unknown_mints(self.balances)[:MOST_MINTS], self.vaults


class Wallets:
    """Answers about wallets. Every method raises Problem."""

    def __init__(
        self,
        stores: Stores,
        tokens: TokenReader,
        gaps: GapReader,
        following: Following,
        pools: PoolPrices,
        backing: Backing,
    ) -> None:
        self._stores = stores
        self._tokens = tokens
        self._gaps = gaps
        self._following = following
        self._reader = WalletReader(stores)
        self._accounts = WalletAccountsReader(stores)
        self._mints = MintReader(stores)
        self._pools = pools
        self._backing = backing
        self._beginning = Beginning(stores)
        self._unknown: BoundedCache[str, _Unknown] = BoundedCache(REMEMBERED)

    async def page(
        self, wallet: str, limit: int, cursor: str | None, view: View = View.FULL
    ) -> PositionList:
        """Return a page of a wallet's positions."""
        (await self._gaps.read()).check_wallet(wallet)
        page = await read_page(self._reader, wallet, limit, cursor)
        facts = await self._facts_of(page)
        listed = page.positions
        return {
            **facts.as_of(),
            "wallet": wallet,
            "totals": totals(facts),
            "positions": _listed(facts, listed, view),
            "page": page.page,
        }

    async def newest(self, wallet: str, limit: int, view: View = View.FULL) -> AllPositions:
        """Return a wallet's positions with the newest trades."""
        (await self._gaps.read()).check_wallet(wallet)
        page = await read_page(self._reader, wallet, limit, None)
        facts = await self._facts_of(page)
        return {
            **facts.as_of(),
            "wallet": wallet,
            "totals": totals(facts),
            "positions": _listed(facts, page.positions, view),
        }

    async def _facts_of(self, page: PositionPage) -> Facts:
        positions = page.positions if page.all is None else [*page.all.items()]
        book = Book(positions, page.count, page.all is not None)
        wanted = {mint for mint, _ in page.positions} | _held(book)
        tokens = await self._tokens.read(wanted)
        gaps = (await self._gaps.read()).of_wallet(page.state.wallet)
        return Facts(page.state, book, tokens, frozenset(), tokens, (), None, gaps)

    async def position(self, wallet: str, mint: str) -> PositionAnswer:
        """Return a wallet's position in a token."""
        (await self._gaps.read()).check_wallet(wallet)
        state, position = await read_one(self._reader, wallet, mint)
        if position is None:
            raise no_position(mint)
        tokens = await self._tokens.read([mint])
        token = tokens.get(mint)
        gaps = (await self._gaps.read()).of_wallet(wallet)
        return {
            **_as_of(state, gaps),
            "wallet": wallet,
            **position_answer(mint, position, token, tokens.now_ms),
        }

    async def summary(self, wallet: str) -> SummaryAnswer:
        """Return what a wallet did on the last seven days."""
        (await self._gaps.read()).check_wallet(wallet)
        (state,) = await self._reader.read([wallet], Part.DAYS)
        gaps = (await self._gaps.read()).of_wallet(wallet)
        return {
            **_as_of(state, gaps),
            "wallet": wallet,
            **summary(state),
        }

    async def follow(self, wallet: str, holder: str, wait_s: float) -> FollowState:
        """Have a wallet followed for a key, and wait until all of its accounts are known."""
        (await self._gaps.read()).check_wallet(wallet)
        return await self._following.follow("wallet", decode(wallet), holder, wait_s)

    async def holdings(self, wallet: str, wanted: Wanted, asked: FollowState) -> HoldingsAnswer:
        """Return what a wallet holds; `asked` is what `follow` returned."""
        (await self._gaps.read()).check_wallet(wallet)
        (facts,) = await self._facts([wallet], [Section.HOLDINGS], MOST_POSITIONS, asked)
        held = facts.balances
        self._unknown.put(wallet, facts.unknown)
        return {
            "as_of_slot": held.as_of_slot,
            "as_of_ms": held.as_of_ms,
            "gaps": facts.gaps,
            "wallet": wallet,
            **holdings(held, facts.pooled, facts.backed, wanted),
        }

    async def facts(self, wallet: str, asked: FollowState) -> Facts:
        """Return what a wallet at a glance is made of; `asked` is what `follow` returned."""
        (await self._gaps.read()).check_wallet(wallet)
        (facts,) = await self._facts([wallet], [Section.PORTFOLIO], MOST_POSITIONS, asked)
        return facts

    async def renew_lamports(self, wallet: str, slot: int, holder: str, wait_s: float) -> bool:
        """Have a followed wallet's own SOL asked for, and wait until it is as of a slot or later.

        Return whether it is.
        """
        wanted = LamportsOf(decode(wallet), slot)
        return await self._following.renew_lamports(wanted, holder, wait_s)

    async def ask_unknown(self, wallet: str, holder: str) -> None:
        """Have followed, for a key, what the last `holdings` needs: mints, vaults of pools."""
        if (unknown := self._unknown.kept.get(wallet)) is not None:
            await self._ask(unknown, holder)

    async def ask_unknown_of(self, facts: Facts, holder: str) -> None:
        """Have followed, for a key, what the holdings of facts need."""
        await self._ask(facts.unknown, holder)

    async def _ask(self, unknown: _Unknown, holder: str) -> None:
        mints, vaults = unknown
        await self._following.ask_mints(map(decode, mints), holder)
        await self._following.ask_accounts(vaults, holder)

    async def portfolio(self, wallet: str) -> PortfolioAnswer:
        """Return a wallet at a glance."""
        (await self._gaps.read()).check_wallet(wallet)
        (facts,) = await self._facts([wallet], [Section.PORTFOLIO], MOST_POSITIONS)
        return {**facts.as_of(), "wallet": wallet, **portfolio(facts)}

    async def batch(
        self, wallets: Sequence[str], include: Collection[Section], positions: ReadAggregates
    ) -> Batch:
        """Return sections of many wallets, in their order; each is one state.

        A wallet in quarantine has no sections. `positions` reads aggregates of wallets, by name.
        """
        sections = [section for section in Section if section in include]
        gaps = await self._gaps.read()
        known = [wallet for wallet in wallets if not gaps.leaves_out_wallet(wallet)]
        if not known:
            gaps.check_wallet(wallets[0])
        many = await self._facts(known, sections, MOST_IN_BATCH)
        names = [name for section, name in OF_PROTOCOLS.items() if section in sections]
        of_protocols = await positions(known, names) if names else {}
        read: dict[str, BatchItem] = {}
        for facts in many:
            wallet = facts.state.wallet
            read[wallet] = _item(facts, sections, of_protocols.get(wallet, {}))
            await asyncio.sleep(0)  # fifty wallets are long enough to let others come in between
        least = min(read.values(), key=lambda each: each["as_of_slot"])
        items: list[BatchItem] = []
        for wallet in wallets:
            if gaps.leaves_out_wallet(wallet):
                items.append(
                    {
                        "as_of_slot": least["as_of_slot"],
                        "as_of_ms": least["as_of_ms"],
                        "gaps": gaps.of_wallet(wallet),
                        "wallet": wallet,
                    }
                )
            else:
                items.append(read[wallet])
        return {
            "as_of_slot": least["as_of_slot"],
            "as_of_ms": least["as_of_ms"],
            "include": [section.value for section in sections],
            "wallets": items,
        }

    async def _facts(
        self,
        wallets: Sequence[str],
        sections: Collection[Section],
        most: int,
        asked: FollowState | None = None,
    ) -> list[Facts]:
        parts = Part.TOTALS
        for section in sections:
            parts |= _PARTS.get(section, Part.TOTALS)
        states = await self._reader.read(wallets, parts, most)
        held: list[HeldAccounts] = []
        if Part.BALANCES in parts:
            beginning = await self._beginning.read()
            accounts = await self._accounts.read(wallets)
            for state, read in zip(states, accounts, strict=True):
                held.append(held_accounts(state, read, beginning, asked))
                await asyncio.sleep(0)
        books = [Book([], 0, is_complete=True) for _ in states]
        if Part.POSITIONS in parts:
            books = await self._books(states, most)
        mints: set[str] = set()
        for book in books:
            mints |= _held(book)
            if Section.POSITIONS in sections:
                mints.update(mint for mint, _ in book.positions[:LISTED])
        owned = {each.mint for wallet in held for each in wallet.tokens}
        tokens = Tokens({}, 0, 0, 0, None)
        backed: frozenset[str] = frozenset()
        pooled = tokens
        vaults: list[bytes] = []
        if mints or held:
            tokens = await self._tokens.read([SOL_MINT, *(mints | owned)])
        if held:
            backed = await self._backing.of_markets(tokens, owned)
            await self._fill_in_decimals(held, states, tokens)
            pooled = replace(tokens, by_mint=tokens.by_mint.copy())
            decimals = {each.mint: each.decimals for wallet in held for each in wallet.tokens}
            vaults = await self._pools.price(pooled, decimals)
            backed |= await self._backing.of_pools(pooled, decimals)
        gaps = await self._gaps.read()
        return [
            Facts(
                state,
                book,
                tokens,
                backed,
                pooled,
                vaults,
                held[at] if held else None,
                gaps.of_wallet(state.wallet),
            )
            for at, (state, book) in enumerate(zip(states, books, strict=True))
        ]

    async def _fill_in_decimals(
        self, held: Sequence[HeldAccounts], states: Sequence[WalletState], tokens: Tokens
    ) -> None:
        """Fill in the decimals of what wallets hold on the chain: a token account has none."""
        complete = [
            (wallet, state)
            for wallet, state in zip(held, states, strict=True)
            if wallet.is_complete
        ]
        wanted = {each.mint for wallet, _ in complete for each in wallet.tokens}
        mints = await self._mints.known(wanted)
        for wallet, state in complete:
            fill_in_decimals(wallet, state, mints, tokens)
            await asyncio.sleep(0)

    async def _books(self, states: list[WalletState], most: int) -> list[Book]:
        """Return the books of wallets; the state of a large one becomes that of its book."""
        gate = asyncio.Semaphore(_LARGE_AT_ONCE)

        async def large(at: int) -> Book:
            async with gate:
                page = await read_large(self._reader, states[at].wallet, most, BEFORE_ALL)
            state = states[at]
            if page.state.as_of_slot < state.as_of_slot:
                state.as_of_slot, state.as_of_ms = page.state.as_of_slot, page.state.as_of_ms
            return Book(page.positions, page.count, is_complete=False)

        wholes = await with_cold(self._reader, states, most)
        places = [at for at, whole in enumerate(wholes) if whole is None]
        read = dict(zip(places, await asyncio.gather(*map(large, places)), strict=True))
        return [
            read[at] if whole is None else Book(sorted(whole.items(), key=order), len(whole), True)
            for at, whole in enumerate(wholes)
        ]


def _as_of(state: WalletState, gaps: GapCounts | None) -> AsOf:
    return {"as_of_slot": state.as_of_slot, "as_of_ms": state.as_of_ms, "gaps": gaps}


def _held(book: Book) -> set[str]:
    return {mint for mint, position in book.positions if position.held_raw}


def _listed(facts: Facts, positions: Sequence[tuple[str, KnownPosition]], view: View) -> list[Any]:
    """Return positions as a list shows them, each a `PositionOf` or a `CompactPosition`."""
    if view is View.FULL:
        return _answers(facts, positions)
    tokens, now_ms = facts.tokens.by_mint, facts.tokens.now_ms
    found = []
    for mint, position in positions:
        token = tokens.get(mint)
        found.append(compact_answer(mint, position, token, now_ms, position.valued(token)))
    return found


def _answers(facts: Facts, positions: Sequence[tuple[str, KnownPosition]]) -> list[Any]:
    """Return positions as JSON, each a `PositionOf`."""
    tokens, now_ms = facts.tokens.by_mint, facts.tokens.now_ms
    return [position.answer(mint, tokens.get(mint), now_ms) for mint, position in positions]


def _open(facts: Facts) -> OpenSum:
    total, tokens = OpenSum(), facts.tokens
    for mint, position in facts.book.positions:
        if position.held_raw:
            token = tokens.get(mint)
            is_stale = token is not None and token.is_stale(tokens.now_ms)
            total.add(position, position.valued(token), is_stale=is_stale)
    return total


def totals(facts: Facts) -> Totals:
    """Return the totals over a wallet's tokens; what it holds only if all is known."""
    return {
        **trading(facts.state.total),
        "position_count": facts.book.count,
        "open": _open(facts).answer() if facts.book.is_complete else None,
    }


def summary(state: WalletState) -> Summary:
    """Return a wallet's last seven days: days are UTC, the last is that of the books' clock."""
    days: list[PnlDay] = [
        {
            "day": datetime.fromtimestamp(day * DAY_MS // 1000, UTC).date().isoformat(),
            "from_ms": day * DAY_MS,
            **(trading(figures) if figures.changed_slot else _IDLE_FIGURES),
        }
        for day, figures in (state.days if state.clock_ms else [])
    ]
    return {
        "from_ms": days[0]["from_ms"] if days else None,
        "to_ms": days[-1]["from_ms"] + DAY_MS if days else None,
        "days": days,
        **trading(sum_of(figures for _, figures in state.days)),
    }


def portfolio(facts: Facts) -> Portfolio:
    """Return a wallet at a glance."""
    state, book = facts.state, facts.book

    def value(item: tuple[str, KnownPosition]) -> tuple[int, str]:
        mint, position = item
        return -(position.valued(facts.tokens.get(mint)).value_lamports or 0), mint

    top = sorted((item for item in book.positions if item[1].held_raw), key=value)[:TOP]
    positions: TopPositions = {
        **_open(facts).answer(),
        "position_count": book.count,
        "is_complete": book.is_complete,
        "top": _answers(facts, top),
    }
    return {
        "holdings": holdings_totals(facts.balances, facts.pooled, facts.backed),
        "positions": positions,
        "pnl": {"days_7": summary(state), "all_time": trading(state.total)},
    }


def _item(
    facts: Facts, sections: Collection[Section], of_protocols: Mapping[str, AggregatePositions]
) -> BatchItem:
    state = facts.state
    own = {
        section: of_protocols[OF_PROTOCOLS[section]]
        for section in sections
        if section in OF_PROTOCOLS
    }
    as_of = min((facts.as_of(), *own.values()), key=lambda each: each["as_of_slot"])
    item: BatchItem = {
        "as_of_slot": as_of["as_of_slot"],
        "as_of_ms": as_of["as_of_ms"],
        "gaps": facts.gaps,
        "wallet": state.wallet,
    }
    for section in sections:
        match section:
            case Section.POSITIONS:
                listed = _answers(facts, facts.book.positions[:LISTED])
                item["positions"] = Positions(totals=totals(facts), positions=listed)
            case Section.HOLDINGS:
                item["holdings"] = holdings(facts.balances, facts.pooled, facts.backed, Wanted())
            case Section.PNL:
                item["pnl"] = summary(state)
            case Section.PORTFOLIO:
                item["portfolio"] = portfolio(facts)
    for section, found in own.items():
        item.update(cast("BatchItem", {section.value: found}))
    return item
