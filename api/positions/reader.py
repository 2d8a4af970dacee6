"""What a wallet has of protocols: accounts, readings, prices, one answer.

A wallet is asked for in few trips to Redis: how many accounts it has; what finds them; the accounts
and the clock; what its tokens lead to, two, or three where one leads to many; what these need,
round by round; prices. The accounts and all rounds but the first are read along with what is asked
before them, where they were needed the last time. However many protocols are asked for, the
wallet's accounts are read once, and each protocol's reading runs once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import structlog

from api.accounts.following import Following, FollowState
from api.accounts.wallets import LaneReading
from api.positions import driver
from api.positions.accounts_reader import AccountsReader, WalletAccounts
from api.positions.aggregates import Aggregate
from api.positions.answers import (
    AggregatePositions,
    PositionError,
    PositionRecord,
    ProtocolPositions,
    ProtocolSum,
)
from api.positions.by_mint import ByMint, Found
from api.positions.covering import covered_since, not_covered, once, programs_of
from api.positions.driver import Failure, Outcome
from api.positions.prices import PriceReader
from api.positions.records import has_unknown, record
from api.positions.rewards import Rewards, RewardsReader
from api.positions.rounds import LaterRounds
from schemas.amounts import text as number_text
from schemas.amounts import usd
from schemas.protocols.clock import clock_of
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Position,
    Protocol,
    Unreadable,
    World,
    is_issuer,
)
from schemas.protocols.token import held_tokens
from schemas.solana.addresses import CLOCK, key, text

_ROUTES: Final = 1 << 7  # sets of protocols that are asked for together
WAIT_S: Final = 1.5  # until all of a wallet's tokens are known, where they lead to positions

_ADDRESS_BYTES: Final = 32
_NO_DECIMALS: Final = (
    "range.lower, range.upper, range.current: the decimals of a token are not known yet"
)
_AFTER_A_WAIT: Final = frozenset({FollowState.COMPLETE, FollowState.PENDING, FollowState.WITHDRAWN})

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Read:
    """What was read of a wallet, and found by the readings."""

    held: WalletAccounts
    outcomes: dict[str, Outcome]  # by slug
    epoch: int | None  # None: the chain's clock is not known


class Everything(NamedTuple):
    """What a wallet has of all routes, and which of its tokens that is the meaning of."""

    answer: AggregatePositions
    stands_for: Mapping[str, int]  # mint -> raw amount: it counts in positions, not in holdings
    tokens: Mapping[str, int]  # mint -> raw amount that the wallet had when it was read
    own: Set[str]  # ids of positions that no token of the wallet is the title to


class Positions:
    """Answers about positions. Every method raises Problem."""

    def __init__(
        self,
        accounts: AccountsReader,
        by_mint: ByMint,
        prices: PriceReader,
        rewards: RewardsReader,
        following: Following,
    ) -> None:
        self._accounts = accounts
        self._rounds = LaterRounds(accounts)
        self._by_mint = by_mint
        self._prices = prices
        self._rewards = rewards
        self._following = following

    async def of_route(
        self, wallet: str, slug: str, protocol: Protocol, route: str, holder: str
    ) -> ProtocolPositions:
        """Return a wallet's positions of one route of a protocol, for a key's fingerprint."""
        read = await self._read(wallet, {slug: protocol}, holder)
        positions = [each for each in read.outcomes[slug].positions if each.route == route]
        records = await self._records([(slug, each) for each in positions], read, holder)
        for each in protocol.routes:
            if each.path == route and each.unsupported is not None:
                read.outcomes[slug].failures.append(
                    Failure(None, "not_supported", each.unsupported)
                )
        errors = [*_of_nobody(read.held), *_errors(slug, protocol, read)]
        is_complete = read.held.is_whole and not errors
        value = _sum(records) if is_complete else None
        return {
            "as_of_slot": read.held.as_of_slot,
            "as_of_ms": read.held.as_of_ms,
            "wallet": wallet,
            "protocol": slug,
            "name": protocol.name,
            "identified": protocol.identified,
            "positions": records,
            "value_usd": usd(value),
            "value_usd_micros": number_text(value),
            "unpriced": _unpriced(records),
            "is_complete": is_complete,
            "coverage": {
                "since_slot": covered_since(read.held.coverage, [protocol]),
                "known_accounts": read.held.known,
                "read_accounts": read.held.read,
            },
            "errors": errors,
            "unsupported_fields": [*protocol.unsupported_fields],
        }

    async def of_aggregates(
        self,
        wallet: str,
        asked: Sequence[Aggregate],
        slugs: Mapping[str, Protocol],
        holder: str | None,
    ) -> list[AggregatePositions]:
        """Return what a wallet has of aggregates, in their order, from one reading.

        For a key's fingerprint; with None the wallet is not asked for where it is not followed.
        """
        read, records, _ = await self._of_routes(wallet, asked, slugs, holder)
        return [_aggregate(wallet, each, slugs, read, records) for each in asked]

    async def everything(
        self,
        wallet: str,
        of: Aggregate,
        slugs: Mapping[str, Protocol],
        holder: str,
        *,
        renews: bool = True,
        reading: LaneReading | None = None,
    ) -> Everything:
        """Return what a wallet has of an aggregate, with the tokens that its positions mean.

        `renews`: the wallet is followed on account of this, not only what its positions need.
        `reading`: its accounts, where they were read already.
        """
        read, records, positions = await self._of_routes(
            wallet, [of], slugs, holder, renews=renews, reading=reading
        )
        stands_for: Counter[str] = Counter()
        for position in positions:
            for mint, amount_raw in position.stands_for.items():
                stands_for[text(mint)] += amount_raw
        tokens = {text(mint): raw for mint, raw in held_tokens(read.held.accounts).items() if raw}
        own = {text(each.id or each.account.address) for each in positions if not each.stands_for}
        return Everything(_aggregate(wallet, of, slugs, read, records), stands_for, tokens, own)

    async def _of_routes(
        self,
        wallet: str,
        asked: Sequence[Aggregate],
        slugs: Mapping[str, Protocol],
        holder: str | None,
        *,
        renews: bool = True,
        reading: LaneReading | None = None,
    ) -> tuple[_Read, list[PositionRecord], list[Position]]:
        """Return what was read, and the positions of all routes asked for, each once."""
        served = {slug: slugs[slug] for each in asked for slug, _ in each.routes}
        read = await self._read(wallet, served, holder, renews=renews, reading=reading)
        routes = {route for each in asked for route in each.routes}
        found = {
            # A position is in one route, and counts once.
            (slug, each.route, each.id or each.account.address): (slug, each)
            for slug in served
            for each in read.outcomes[slug].positions
            if (slug, each.route) in routes
        }
        records = await self._records([*found.values()], read, holder, renews=renews)
        return read, records, [position for _, position in found.values()]

    async def _read(
        self,
        wallet: str,
        served: Mapping[str, Protocol],
        holder: str | None,
        *,
        renews: bool = True,
        reading: LaneReading | None = None,
    ) -> _Read:
        by_tokens = [protocol for protocol in served.values() if protocol.reads_tokens]
        asks = holder if by_tokens and renews else None
        held, known = await self._held(wallet, served.values(), asks, reading)
        try:
            clock = clock_of(known[CLOCK])
        except (KeyError, Unreadable):
            failure = Failure(CLOCK, "reference_missing", "the chain's clock is not known")
            return _Read(held, {slug: Outcome([], [failure]) for slug in served}, None)
        tokens = held_tokens(held.accounts)
        kinds = _represented(tuple(by_tokens))
        found = await self._by_mint.find(held, tokens, kinds) if kinds else Found()
        own = _by_protocol(served.values(), [*held.accounts, *found.accounts])
        asked = {
            slug: (protocol, Held(key(wallet), own[protocol], tokens))
            for slug, protocol in served.items()
            if own[protocol] or protocol.reads_tokens or protocol.reads_derived or not protocol.read
        }

        followed: set[bytes] = set()
        rounds = self._rounds.of((wallet, *asked))

        async def fetch(addresses: Sequence[bytes]) -> Mapping[bytes, Account]:
            missing = [address for address in addresses if address not in known]
            if max(map(len, missing), default=0) > _ADDRESS_BYTES:
                issuers = [each for each in missing if is_issuer(each)]
                missing = [each for each in missing if not is_issuer(each)]
                known.update(await self._by_mint.issuers(held, issuers, kinds))
            sent = await rounds.at(missing)
            followed.update(each for each in sent if sent[each].kind.group == "tokens")
            return {**known, **sent}

        world = World(clock.slot, clock.time_s, clock.epoch)
        outcomes = await driver.run(asked.values(), world, fetch, self._prices.markets)
        rounds.close()
        unknown = _without_decimals(outcomes) | _lacking(outcomes)
        if holder is not None:
            await self._follow(outcomes, followed, unknown, holder)
        of_slugs = dict(zip(asked, outcomes, strict=True))
        for slug, protocol in served.items():
            outcome = of_slugs.setdefault(slug, Outcome())  # of a protocol that it has nothing of
            if protocol.reads_tokens:
                outcome.failures += _of_tokens(key(wallet), held, found)
        return _Read(held, of_slugs, clock.epoch)

    async def _held(
        self,
        wallet: str,
        protocols: Collection[Protocol],
        holder: str | None,
        of: LaneReading | None,
    ) -> tuple[WalletAccounts, dict[bytes, Account]]:
        """Return a wallet's accounts, and the clock; with a holder the wallet is followed.

        Most wallets that are asked for are followed already, as the reading itself says. Where it
        says that the wallet's tokens are not all known, they are waited for and all is read again.
        """
        programs = programs_of(protocols)
        reading = self._accounts.of_wallet(wallet, programs, of), self._accounts.at([CLOCK])
        if holder is None:
            return await asyncio.gather(*reading)
        follow = self._following.want("wallet", key(wallet), holder)
        _, held, known = await asyncio.gather(follow, *reading)
        if held.coverage[key(wallet)].slot is None:
            standing = await self._following.follow("wallet", key(wallet), holder, WAIT_S)
            if standing in _AFTER_A_WAIT:
                held, known = await asyncio.gather(
                    self._accounts.of_wallet(wallet, programs), self._accounts.at([CLOCK])
                )
        return held, known

    async def _follow(
        self,
        outcomes: Sequence[Outcome],
        used: Collection[bytes],
        others: Collection[bytes],
        holder: str,
    ) -> None:
        """Have the token accounts and mints followed that readings used or lack.

        Those that are errors say so then; of `others` each position says what it lacks.
        """
        lacking = {
            each.account
            for outcome in outcomes
            for each in outcome.failures
            if each.code == "reference_missing" and each.account is not None
        }
        asked = [*sorted(lacking), *sorted(others), *used]
        refused = await self._following.ask_accounts(asked, holder)
        detail = (
            "the account is not known yet; it is asked for: ask again in a second"
            if refused is None
            else f"the account is not known, and not all could be asked for: {refused}"
        )
        for outcome in outcomes:
            outcome.failures = [
                each._replace(detail=detail) if each.code == "reference_missing" else each
                for each in outcome.failures
            ]

    async def _records(
        self,
        found: Sequence[tuple[str, Position]],
        read: _Read,
        holder: str | None,
        *,
        renews: bool = True,
    ) -> list[PositionRecord]:
        """Return positions as they are answered; one that cannot be is a failure of its protocol.

        The failure is noted in `read`.
        """
        prices = await self._prices.of([position for _, position in found])
        if holder is not None:
            await self._following.ask_accounts(prices.vaults, holder)
        if not renews:  # what no sum needs, and what epochs paid, is for those who look
            holder = None
        if holder is not None:
            await self._following.ask_mints(map(key, prices.unknown), holder)
        stakes = [each.account.address for _, each in found if each.stake is not None]
        rewards: Mapping[bytes, Rewards] = {}
        if stakes and read.epoch is not None and holder is not None:
            rewards = await self._rewards.read(stakes, read.epoch, holder)
        records = []
        for slug, position in found:
            address = position.account.address
            try:
                paid = rewards.get(address, (None, "not_asked"))
                records.append(record(slug, position, prices, paid))
            except Exception as error:
                log.exception("a position cannot be answered", protocol=slug)
                detail = f"the position cannot be answered ({type(error).__name__})"
                read.outcomes[slug].failures.append(Failure(address, "unreadable", detail))
        return sorted(records, key=_order)


@lru_cache(_ROUTES)
def _represented(protocols: tuple[Protocol, ...]) -> frozenset[Kind]:
    """Return the kinds of protocols whose accounts a mint represents."""
    return frozenset(kind for each in protocols for kind in each.kinds if kind.has_mints)


def _by_protocol(
    protocols: Collection[Protocol], accounts: Iterable[Account]
) -> dict[Protocol, list[Account]]:
    """Return which of some accounts are of the kinds of each protocol, in their order."""
    found: dict[Protocol, list[Account]] = {protocol: [] for protocol in protocols}
    of_kinds = _of_kinds((*found,))
    for account in accounts:
        for protocol in of_kinds.get(account.kind, ()):
            found[protocol].append(account)
    return found


@lru_cache(_ROUTES)
def _of_kinds(protocols: tuple[Protocol, ...]) -> dict[Kind, list[Protocol]]:
    """Return which of some protocols have a kind."""
    found: dict[Kind, list[Protocol]] = {}
    for protocol in protocols:
        for kind in protocol.kinds:
            found.setdefault(kind, []).append(protocol)
    return found


def _aggregate(
    wallet: str,
    aggregate: Aggregate,
    served: Mapping[str, Protocol],
    read: _Read,
    records: Sequence[PositionRecord],
) -> AggregatePositions:
    routes: dict[str, list[str]] = {}
    for slug, route in aggregate.routes:
        routes.setdefault(slug, []).append(route)
    slugs = [*routes]
    own: list[PositionRecord] = []
    by_slug: dict[str, list[PositionRecord]] = {slug: [] for slug in slugs}
    for each in records:
        if each["route"] in routes.get(each["protocol"], ()):
            own.append(each)
            by_slug[each["protocol"]].append(each)
    unowned = [*_of_nobody(read.held)]
    of_protocol = {slug: [*_errors(slug, served[slug], read)] for slug in slugs}
    errors = [*unowned, *once(each for slug in slugs for each in of_protocol[slug])]
    is_whole = read.held.is_whole and not errors
    value = _sum(own) if is_whole else None
    sums: list[ProtocolSum] = []
    for slug in slugs:
        protocol = served[slug]
        of_slug = by_slug[slug]
        is_complete = read.held.is_whole and not unowned and not of_protocol[slug]
        worth = _sum(of_slug) if is_complete else None
        sums.append(
            {
                "protocol": slug,
                "routes": routes[slug],
                "name": protocol.name,
                "identified": protocol.identified,
                "value_usd": usd(worth),
                "value_usd_micros": number_text(worth),
                "unpriced": _unpriced(of_slug),
                "is_complete": is_complete,
                "unsupported_fields": [*protocol.unsupported_fields],
            }
        )
    return {
        "as_of_slot": read.held.as_of_slot,
        "as_of_ms": read.held.as_of_ms,
        "wallet": wallet,
        "aggregate": aggregate.name,
        "positions": own,
        "value_usd": usd(value),
        "value_usd_micros": number_text(value),
        "unpriced": sum(each["unpriced"] for each in sums),
        "is_complete": is_whole and not aggregate.pending,
        "protocols": sums,
        "pending": [
            {"protocol": each.slug, "route": each.route, "reason": each.reason}
            for each in aggregate.pending
        ],
        "coverage": {
            "since_slot": covered_since(read.held.coverage, [served[slug] for slug in slugs]),
            "known_accounts": read.held.known,
            "read_accounts": read.held.read,
        },
        "errors": errors,
    }


def _sum(records: Collection[PositionRecord]) -> int | None:
    """Return what positions are worth; None where none has a price, or a part is not known."""
    if any(map(has_unknown, records)):
        return None
    values = [int(each["value_usd_micros"]) for each in records if each["value_usd_micros"]]
    return sum(values) if values else None


def _unpriced(records: Iterable[PositionRecord]) -> int:
    return sum(asset["value_usd_micros"] is None for each in records for asset in each["assets"])


def _without_decimals(outcomes: Iterable[Outcome]) -> set[bytes]:
    """Return mints whose decimals the prices of ranges lack; each position says so."""
    found: set[bytes] = set()
    for outcome in outcomes:
        for position in outcome.positions:
            of = position.range
            if of is None or of.current is not None:
                continue
            if lacking := {of.base, of.quote} & outcome.absent:
                position.unsupported_fields.append(_NO_DECIMALS)
                found |= lacking
    return found


def _of_tokens(wallet: bytes, held: WalletAccounts, found: Found) -> Iterator[Failure]:
    """Yield what is not known of what a wallet's tokens lead to."""
    covered = held.coverage[wallet]
    if covered.slot is None:
        detail = covered.reason or "not all tokens of the wallet are known: it is not followed yet"
        yield Failure(wallet, "not_covered", detail)
    for detail in found.left_out:
        yield Failure(None, "not_covered", detail)
    for address, detail in found.unreadable.items():
        yield Failure(address, "unreadable", detail)


def _of_nobody(held: WalletAccounts) -> Iterator[PositionError]:
    """Yield what is wrong with accounts of which nobody can say whose they are."""
    for address, detail in held.unreadable.items():
        yield {
            "protocol": None,
            "account": text(address),
            "code": "unreadable",
            "detail": detail,
            "programs": None,
        }


def _errors(slug: str, protocol: Protocol, read: _Read) -> Iterator[PositionError]:
    yield from not_covered(slug, protocol, read.held.coverage)
    for failure in read.outcomes[slug].failures:
        yield {
            "protocol": slug,
            "account": None if failure.account is None else text(failure.account),
            "code": failure.code,
            "detail": failure.detail,
            "programs": None,
        }


def _order(position: PositionRecord) -> tuple[int, str]:
    micros = position["value_usd_micros"]
    return 1 if micros is None else -int(micros), position["position_id"]


def _lacking(outcomes: Iterable[Outcome]) -> set[bytes]:
    """Return what is asked for and is no error; each position says so, or counts nowhere.

    That is the token accounts that pay rewards, and what positions in markets lack that are not
    verified.
    """
    found = {each for outcome in outcomes for one in outcome.positions for each in one.lacking}
    return found.union(*(outcome.uncounted for outcome in outcomes))
