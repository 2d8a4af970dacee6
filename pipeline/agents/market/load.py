"""What the market books need of a run of slots: decoded once, then read from Redis in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from redis.asyncio import Redis

from infra.redis.client import ask
from pipeline.agents.market.state import restore
from pipeline.agents.settled.quarantine import UNREADABLE, Quarantine
from pipeline.domain.holders import MOST_IN_MEMORY
from pipeline.domain.market import MintMarket, SolUsd
from schemas.codec import CodecError, creation_from_proto, migration_from_proto, swap_from_proto
from schemas.events import Creation, Migration, Swap
from schemas.markets import SHORT_PREFIX, exact_field, unpack_account, unpack_exact
from schemas.proto.tape_pb2 import SlotBatch, TokenBalance
from schemas.redis_keys import ACCOUNTS, HOLDERS, MARKET, TRADERS
from schemas.solana.addresses import key as raw

MAX_TIME_MS: Final = (1 << 32) * 1000 - 1  # in 2106
MAX_DECIMALS: Final = 255
MAX_SLUG: Final = 255


@dataclass(slots=True)
class MintSlot:
    """What one slot has of one mint, in its order."""

    events: list[Swap | Creation | Migration] = field(default_factory=list)
    balances: list[TokenBalance] = field(default_factory=list)


@dataclass(slots=True)
class Slot:
    """A slot by mint."""

    slot: int
    time_ms: int
    sol_usd: SolUsd | None
    mints: dict[str, MintSlot]


@dataclass(slots=True)
class Need:
    """What has to be known of one mint before its slots are applied."""

    accounts: set[bytes] = field(default_factory=set)
    owners: set[bytes] = field(default_factory=set)
    traders: set[tuple[str, bytes]] = field(default_factory=set)  # pools and raw wallets


def decode(batch: SlotBatch) -> Slot:
    """Return a batch by mint; raises CodecError for a malformed batch."""
    mints: dict[str, MintSlot] = {}
    if not 0 <= batch.block_time_ms <= MAX_TIME_MS:
        raise CodecError(f"SlotBatch of slot {batch.slot}: block_time_ms {batch.block_time_ms}")
    try:
        for envelope in batch.events:
            event: Swap | Creation | Migration
            match envelope.WhichOneof("event"):
                case "swap":
                    event = swap_from_proto(envelope.swap)
                case "creation":
                    event = creation_from_proto(envelope.creation)
                case "migration":
                    event = migration_from_proto(envelope.migration)
                case _:
                    continue
            _of(mints, event.mint).events.append(event)
            for address in _addresses(event):
                raw(address)
            _check(event)
        # An account that changed hands comes once for each owner, the former's zero first.
        for balance in sorted(batch.balances, key=_is_held):
            if len(balance.account) != 32:
                raise CodecError(f"TokenBalance: account of {len(balance.account)} bytes, not 32")
            if balance.decimals > MAX_DECIMALS:
                raise CodecError(f"TokenBalance: {balance.decimals} decimals")
            raw(balance.owner)
            _of(mints, balance.mint).balances.append(balance)
        sol_usd = Decimal(batch.sol_usd) if batch.sol_usd else None
    except (ValueError, InvalidOperation) as error:
        if isinstance(error, CodecError):
            raise
        raise CodecError(f"SlotBatch of slot {batch.slot}: {error}") from None
    ratio = sol_usd.as_integer_ratio() if sol_usd is not None and sol_usd > 0 else None
    return Slot(batch.slot, batch.block_time_ms, ratio, mints)


def _check(event: Swap | Creation | Migration) -> None:
    """Refuse what is impossible on the chain and what no record can hold."""
    if not isinstance(event, Migration) and (event.decimals or 0) > MAX_DECIMALS:
        raise CodecError(f"{type(event).__name__}: {event.decimals} decimals")
    if len(event.dex.encode()) > MAX_SLUG:
        raise CodecError(f"{type(event).__name__}: dex of {len(event.dex)} characters")


def _is_held(balance: TokenBalance) -> bool:
    return balance.amount_raw > 0


def _of(mints: dict[str, MintSlot], mint: str) -> MintSlot:
    found = mints.get(mint)
    if found is None:
        raw(mint)
        found = mints[mint] = MintSlot()
    return found


def _addresses(event: Swap | Creation | Migration) -> Iterable[str]:
    """Yield the addresses that are used as bytes."""
    if isinstance(event, Swap):
        yield event.pool
        yield event.wallet
    elif isinstance(event, Creation):
        yield from filter(None, (event.pool, event.creator))
    elif event.pool:
        yield event.pool


def needs(slots: Iterable[Slot]) -> dict[str, Need]:
    """Return what has to be known of each mint."""
    found: dict[str, Need] = {}
    for slot in slots:
        for mint, work in slot.mints.items():
            need = found.get(mint)
            if need is None:
                need = found[mint] = Need()
            for event in work.events:
                if isinstance(event, Swap):
                    need.traders.add((event.pool, raw(event.wallet)))
                    need.owners.add(raw(event.pool))
                else:
                    need.owners.update(raw(address) for address in _addresses(event))
            for balance in work.balances:
                need.accounts.add(balance.account)
                need.owners.add(raw(balance.owner))
    return found


def _traders(need: Need, market: MintMarket | None) -> set[bytes]:
    """Return the members of the set of traders that are needed; None: a market not read yet.

    Whether its pools are those of an earlier version is then not known: both forms are needed.
    """
    pools = {} if market is None else market.pools
    found: set[bytes] = set()
    for name, wallet in need.traders:
        address = raw(name)
        found |= {wallet, address + wallet}
        pool = pools.get(name)
        if market is None or (pool is not None and not pool.facts.traders_by_address):
            found.add(address[:SHORT_PREFIX] + wallet)
    return found


class Loader:
    """Reads into memory, of one partition, what is needed and not there."""

    def __init__(
        self, redis: Redis, tag: str, markets: dict[str, MintMarket], quarantine: Quarantine
    ) -> None:
        self._redis = redis
        self._quarantine = quarantine
        self._tag = tag
        self._markets = markets

    async def load(self, wanted: dict[str, Need]) -> None:
        """Read; afterwards everything in `wanted` is known. Raises RedisError.

        A mint with a value that cannot be read goes into quarantine, and out of `wanted`.
        """
        self._leave_out(wanted)
        round_ = _Round(self._redis, self._quarantine)
        loaded: dict[str, MintMarket] = {}

        for mint, need in wanted.items():
            market = self._markets.get(mint)
            if market is None:
                self._ask_market(round_, mint, loaded)
                accounts, owners, traders = (
                    list(need.accounts),
                    list(need.owners),
                    list(_traders(need, None)),
                )
            else:
                # Not by `set - keys`, which goes through all of the keys.
                holders, known = market.holders, market.traders.known
                accounts = [each for each in need.accounts if each not in holders.accounts]
                owners = [each for each in need.owners if each not in holders.owners]
                traders = [each for each in _traders(need, market) if each not in known]
            self._ask_details(round_, mint, loaded, accounts, owners, traders)
        await round_.run()
        # Only now: a failed round leaves nothing half known.
        self._leave_out(wanted)
        self._markets.update((mint, loaded[mint]) for mint in loaded if mint in wanted)
        await self._later_rounds(wanted)
        self._leave_out(wanted)

    def _leave_out(self, wanted: dict[str, Need]) -> None:
        for mint in [mint for mint in wanted if mint in self._quarantine]:
            del wanted[mint]

    async def load_whole(self, mints: Iterable[str]) -> None:
        """Read the markets of mints, for what is due by time rather than by an event."""
        await self.load({mint: Need() for mint in mints if mint not in self._markets})

    def _ask_market(self, round_: _Round, mint: str, loaded: dict[str, MintMarket]) -> None:
        def market(fields: dict[bytes, bytes]) -> None:
            loaded[mint] = restore(mint, fields)

        round_.ask(mint, ("HGETALL", MARKET.make(tag=self._tag, mint=mint)), market)
        self._ask_top(round_, mint, loaded, MOST_IN_MEMORY)

    def _ask_top(
        self, round_: _Round, mint: str, markets: dict[str, MintMarket], limit: int
    ) -> None:
        def top(found: list[Any]) -> None:
            stored = [(owner, int(score)) for owner, score in found]
            markets[mint].holders.fill(stored, all_of_them=len(stored) < limit)

        key = HOLDERS.make(tag=self._tag, mint=mint)
        round_.ask(mint, ("ZRANGE", key, 0, limit - 1, "REV", "WITHSCORES"), top)

    def _ask_details(
        self,
        round_: _Round,
        mint: str,
        loaded: dict[str, MintMarket],
        accounts: list[bytes],
        owners: list[bytes],
        traders: list[bytes],
    ) -> None:
        if not (accounts or owners or traders):
            return

        def of(mint: str) -> MintMarket:
            return loaded[mint] if mint in loaded else self._markets[mint]

        if accounts:

            def take_accounts(values: list[bytes | None]) -> None:
                known = of(mint).holders.accounts
                for account, value in zip(accounts, values, strict=True):
                    known[account] = unpack_account(value) if value else None

            round_.ask(
                mint, ("HMGET", ACCOUNTS.make(tag=self._tag, mint=mint), *accounts), take_accounts
            )
        if owners:
            self._ask_owners(round_, mint, owners, of)
        if traders:

            def take_traders(scores: list[Any]) -> None:
                known = of(mint).traders.known
                for trader, score in zip(traders, scores, strict=True):
                    known[trader] = None if score is None else int(score)

            round_.ask(
                mint, ("ZMSCORE", TRADERS.make(tag=self._tag, mint=mint), *traders), take_traders
            )

    def _ask_owners(
        self, round_: _Round, mint: str, owners: list[bytes], of: Callable[[str], MintMarket]
    ) -> None:
        def take(scores: list[Any]) -> None:
            holders = of(mint).holders
            for owner, score in zip(owners, scores, strict=True):
                holders.loaded(owner, 0 if score is None else int(score))

        round_.ask(mint, ("ZMSCORE", HOLDERS.make(tag=self._tag, mint=mint), *owners), take)

    async def _later_rounds(self, wanted: dict[str, Need]) -> None:
        """Read what the first round showed to be needed too; rarely anything."""
        round_ = _Round(self._redis, self._quarantine)
        for mint, need in wanted.items():
            holders = self._markets[mint].holders
            former = [
                record.owner
                for account in need.accounts
                if (record := holders.accounts.get(account)) is not None
                and record.owner not in holders.owners
            ]
            if former:  # an account that another owner had before
                self._ask_owners(round_, mint, former, self._markets.__getitem__)
            if holders.ranking.may_run_short(2 * len(need.accounts) + len(need.owners)):
                limit = MOST_IN_MEMORY + 2 * len(need.accounts) + len(need.owners)
                self._ask_top(round_, mint, self._markets, limit)
        await round_.run()
        self._leave_out(wanted)
        round_ = _Round(self._redis, self._quarantine)
        for mint in wanted:
            self._ask_exact(round_, mint)
        await round_.run()

    def _ask_exact(self, round_: _Round, mint: str) -> None:
        """Ask for the exact balances of the owners whose score is a rounded one."""
        holders = self._markets[mint].holders
        asked = list(holders.rounded)

        def take(values: list[bytes | None]) -> None:
            for owner, value in zip(asked, values, strict=True):
                if value is not None:
                    holders.owners[owner] = unpack_exact(value)
            holders.rounded.clear()

        if asked:
            key = ACCOUNTS.make(tag=self._tag, mint=mint)
            round_.ask(mint, ("HMGET", key, *map(exact_field, asked)), take)


class _Round:
    """Commands of one round trip, and what takes the answer of each."""

    def __init__(self, redis: Redis, quarantine: Quarantine) -> None:
        self._redis = redis
        self._quarantine = quarantine
        self._commands: list[tuple[Any, ...]] = []
        self._takers: list[tuple[str, Callable[[Any], None]]] = []

    def ask(self, mint: str, command: tuple[Any, ...], take: Callable[[Any], None]) -> None:
        self._commands.append(command)
        self._takers.append((mint, take))

    async def run(self) -> None:
        if not self._commands:
            return
        answers = await ask(self._redis, self._commands)
        for (mint, take), command, answer in zip(
            self._takers, self._commands, answers, strict=True
        ):
            if mint in self._quarantine:
                continue
            try:
                take(answer)
            except UNREADABLE as error:
                self._quarantine.put(mint, command[1], error)
