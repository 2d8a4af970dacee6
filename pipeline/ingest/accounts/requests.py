"""What users ask for: read from Redis, tracked there, asked of RPC.

Only requests of the last moments are read after a start: who asked before has been answered.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from redis.asyncio import Redis

from infra.backoff import Backoff
from infra.redis.client import RedisError, ask, connect
from infra.settings import Settings
from pipeline.ingest.accounts import earlier_mints, metrics
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import CONCURRENCY, Asking, Ended
from pipeline.ingest.accounts.tracked import Asked, Tracked
from pipeline.ingest.accounts.traded import LOOK_S as TRADED_LOOK_S
from pipeline.ingest.accounts.traded import LOOKS_TO_FILL, TradedMints
from schemas.accounts import (
    MOST_OF_WALLET,
    TOO_MANY_ACCOUNTS,
    followed_of,
    largest_of,
    mint_account_of,
)
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.programs import NUMBERS
from schemas.redis_keys import (
    ASKED_ACCOUNTS,
    COVERED,
    FOUND_BY,
    TRACKED_ACCOUNTS,
    TRACKED_HOLDERS,
    TRACKED_MINTS,
    TRACKED_WALLETS,
    Key,
    account_tags,
)
from schemas.solana.addresses import text

log = structlog.get_logger(__name__)

WALLETS_AT_ONCE: Final = 500
ACCOUNTS_AT_ONCE: Final = 20_000
BLOCK_MS: Final = 500
MOST_A_READ: Final = 500
LOOK_BACK_MS: Final = 10_000
BACKOFF_S: Final = (0.1, 5.0)
LAMPORTS_AFTER_S: Final = 1.0  # no filter brings a wallet's own lamports: they are asked again
ALL_AFTER_S: Final = 60.0  # without token accounts from a stream
MOST_UNDER_WAY: Final = 2_000
FAILED_PAUSE_S: Final = (5.0, 900.0)  # until what RPC did not answer is asked again; it doubles
AGAIN_AT_ONCE: Final = 2 * CONCURRENCY  # of what is asked again: the rest is for new asks
LOOK_S: Final = 0.5
TOO_LARGE_FOR_S: Final = 3_600.0  # a wallet is not asked again
MOST_TOO_LARGE: Final = 50_000

_KINDS: Final = {
    b"wallet": Covered.WALLET,
    b"mint": Covered.MINT,
    b"holders": Covered.HOLDERS,
    b"account": Covered.ACCOUNT,
}
_KEYS: Final[tuple[tuple[Covered.Kind, Key], ...]] = (
    (Covered.WALLET, TRACKED_WALLETS),
    (Covered.MINT, TRACKED_MINTS),
    (Covered.HOLDERS, TRACKED_HOLDERS),
    (Covered.ACCOUNT, TRACKED_ACCOUNTS),
)


async def read_tracked(settings: Settings) -> Tracked:
    """Return what Redis says is tracked, and the token accounts of it; raises RedisError."""
    client = connect(settings)
    try:
        wallets: Any = await client.zrange(TRACKED_WALLETS.make(), 0, -1, withscores=True)
        mints: Any = await client.zrange(TRACKED_MINTS.make(), 0, -1, withscores=True)
        holders: Any = await client.zrange(TRACKED_HOLDERS.make(), 0, -1, withscores=True)
        accounts: Any = await client.zrange(TRACKED_ACCOUNTS.make(), 0, -1, withscores=True)
        tracked = Tracked(
            settings.account_tracked_max,
            ((address, int(at_ms)) for address, at_ms in wallets),
            ((address, int(at_ms)) for address, at_ms in mints),
            ((address, int(at_ms)) for address, at_ms in holders),
            ((address, int(at_ms)) for address, at_ms in accounts),
        )
        subjects = [largest_of(mint) for mint in tracked.holders]
        listed = await ask(client, [("HGET", _largest(each), "accounts") for each in subjects])
        for subject, packed in zip(subjects, listed, strict=True):
            accounts = packed or b""
            tracked.follow_largest(
                subject, (accounts[at : at + 32] for at in range(0, len(accounts), 32))
            )
        kept = [*tracked.wallets]
        for at in range(0, len(kept), WALLETS_AT_ONCE):
            some = kept[at : at + WALLETS_AT_ONCE]
            names = [
                (FOUND_BY.make(tag=tag, address=text(wallet)), wallet)
                for wallet in some
                for tag in account_tags()
            ]
            counts = await ask(client, [("SCARD", name) for name, _ in names])
            of_wallet: Counter[bytes] = Counter()
            for (_, wallet), count in zip(names, counts, strict=True):
                of_wallet[wallet] += count
            wanted: list[tuple[str, bytes]] = []
            expected = 0
            for (name, wallet), count in zip(names, counts, strict=True):
                if of_wallet[wallet] > MOST_OF_WALLET:
                    tracked.outgrew(wallet)
                    continue
                if expected + count > ACCOUNTS_AT_ONCE:
                    await _follow(client, tracked, wanted)
                    wanted, expected = [], 0
                if count:
                    wanted.append((name, wallet))
                    expected += count
            await _follow(client, tracked, wanted)
        return tracked
    finally:
        await client.aclose()


async def _follow(client: Redis, tracked: Tracked, wanted: list[tuple[str, bytes]]) -> None:
    """Follow the accounts in the sets of wallets: `wanted` are keys and wallets."""
    if not wanted:
        return
    found = await ask(client, [("SMEMBERS", name) for name, _ in wanted])
    for (_, wallet), accounts in zip(wanted, found, strict=True):
        for account in accounts:
            tracked.follow(account, [wallet])


def _subject(kind: Covered.Kind, address: bytes) -> bytes:
    """Return what the coverage of an address is kept under, of each kind something else.

    The same address may be asked for as several kinds, and none of them answers for another.
    """
    match kind:
        case Covered.HOLDERS:
            return largest_of(address)
        case Covered.ACCOUNT:
            return followed_of(address)
        case Covered.MINT:
            return mint_account_of(address)
        case _:
            return address


def _largest(subject: bytes) -> str:
    """Return a key that lists a mint's largest accounts: all partitions have the same list."""
    return COVERED.make(tag=account_tags()[0], address=text(subject))


@dataclass(slots=True)
class _Failed:
    """When a subject that RPC did not answer for is asked again."""

    due_s: float
    pause_s: float  # before that
    is_queued: bool = False

    def is_due(self, now: float) -> bool:
        """Return whether it is due and nobody has asked again; once."""
        is_due = not self.is_queued and now >= self.due_s
        self.is_queued |= is_due
        return is_due


class Requests:
    """Reads requests until cancelled.

    A wallet is asked in whole the first time in this process's life, and its lamports from then on.
    """

    def __init__(
        self,
        settings: Settings,
        tracked: Tracked,
        answers: AnswerQueue,
        asking: Asking,
        bootstrap: Callable[[bytes], bool],
        load: Callable[[str], None],
        rewards: Callable[[bytes], None],
    ) -> None:
        self._rewards = rewards
        self._bootstrap = bootstrap
        self._load = load
        self._reader = connect(settings)  # of its own: it blocks
        self._writer = connect(settings)
        self._tracked = tracked
        self._answers = answers
        self._asking = asking
        self._is_streamed = "tokens" in settings.account_groups.split(",")
        self._new_traded = max(1, settings.account_tracked_max // LOOKS_TO_FILL)
        # By subject: when all of it was asked, of what is tracked.
        self._asked_s: dict[bytes, float] = {}
        self._lamports_s: dict[bytes, float] = {}
        self._lamports_wait: set[bytes] = set()  # wallets that were asked for too soon
        # Mints whose holders left, and accounts, by subject, until the lane says so.
        self._let_go: dict[bytes, bytes] = {}
        self._under_way: dict[bytes, asyncio.Task[None]] = {}
        self._finished = asyncio.Event()
        self._failed: dict[bytes, _Failed] = {}
        self._too_large: dict[bytes, float] = {}  # wallets, until when; the first ends first
        # In order, each once: a slot that is lost adds all that is tracked.
        self._again: OrderedDict[bytes, None] = OrderedDict()
        self._has_again = asyncio.Event()
        self._began = (0, 0)  # the newest entry as this process began to read
        self._again_under_way: set[bytes] = set()

    async def run(self) -> None:
        """Read and ask."""
        works = (
            self._read(),
            self._ask_again(),
            self._watch(),
            self._follow_traded(),
            self._ask_unknown_mints(),
        )
        parts = [asyncio.create_task(work) for work in works]
        try:
            await asyncio.gather(*parts)  # one that fails ends all
        finally:
            tasks = [*parts, *self._under_way.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._reader.aclose()
            await self._writer.aclose()

    def again(self, subjects: Iterable[bytes]) -> None:
        """Ask for all of some tracked subjects again; for those that failed, when they are due."""
        for subject in subjects:
            self._asked_s.pop(subject, None)
            self._again[subject] = None
        self._has_again.set()

    @property
    def under_way(self) -> frozenset[bytes]:
        """Return the subjects that are asked for now."""
        return frozenset(self._under_way)

    async def withdrawn(self, covered: Iterable[Covered]) -> None:
        """Forget in Redis what left, once the lane says so."""
        for kind, key in _KEYS:
            gone = [
                address
                for each in covered
                if each.kind == kind and not each.HasField("slot")
                if (address := self._left(each)) is not None
            ]
            if gone:
                await self._until_done(self._writer.zrem, key.make(), *gone)

    def _of(self, kind: Covered.Kind) -> Asked:
        if kind == Covered.HOLDERS:
            return self._tracked.holders
        if kind == Covered.ACCOUNT:
            return self._tracked.accounts
        return self._tracked.wallets if kind == Covered.WALLET else self._tracked.mints

    def _left(self, covered: Covered) -> bytes | None:
        """Return the address that something withdrawn was kept for, None while it is."""
        address: bytes | None = covered.address
        if covered.kind in (Covered.HOLDERS, Covered.ACCOUNT):
            address = self._let_go.pop(covered.address, None)
        return None if address is None or address in self._of(covered.kind) else address

    async def _read(self) -> None:
        name = ASKED_ACCOUNTS.make()
        last = await self._until_done(self._reader.xrevrange, name, count=1)
        self._began = _place(last[0][0]) if last else (0, 0)
        at: Any = f"{max(0, self._began[0] - LOOK_BACK_MS)}-0"
        while True:
            found = await self._until_done(
                self._reader.xread, {name: at}, count=MOST_A_READ, block=BLOCK_MS
            )
            for _, entries in found or ():
                await self._take(entries)
                at = entries[-1][0]
            while len(self._under_way) > MOST_UNDER_WAY:
                await self._one_finished()

    def _take_file(self, number: bytes, name: bytes) -> None:
        """Have a recording loaded, unless an earlier process has been asked for it already."""
        if _place(number) > self._began:
            self._load(name.decode(errors="replace"))

    async def _take(self, entries: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> None:
        asked: dict[tuple[Covered.Kind, bytes], int] = {}
        for number, fields in entries:
            for field, address in fields.items():
                if field == b"program" and len(address) == 32:
                    if not self._bootstrap(address):
                        log.warning("not bootstrapped: not subscribed", program=text(address))
                    continue
                if field == b"rewards" and len(address) == 32:
                    self._rewards(address)
                    continue
                if field == b"lamports" and len(address) == 32:
                    self._ask_lamports(address)
                    continue
                if field == b"file":
                    self._take_file(number, address)
                    continue
                of = _KINDS.get(field)
                if of is None or len(address) != 32:
                    log.warning("a request is no address", field=field, bytes=len(address))
                    continue
                if of == Covered.WALLET and (address in self._too_large or address in NUMBERS):
                    continue  # under a program's address is the coverage of its accounts
                asked[of, address] = int(number.split(b"-")[0])
        for kind, key in _KEYS:
            scores = {address: ms for (each, address), ms in asked.items() if each == kind}
            if scores:
                await self._keep(kind, key, scores)
        for subject in asked:
            self._start(*subject)

    async def _keep(self, kind: Covered.Kind, key: Key, scores: dict[bytes, int]) -> None:
        # Before anything is covered: a process that takes over must know what is kept.
        await self._until_done(self._writer.zadd, key.make(), scores)
        self._track(kind, scores)
        metrics.TRACKED.labels("wallet").set(len(self._tracked.wallets))
        metrics.TRACKED.labels("mint").set(len(self._tracked.mints))
        metrics.TRACKED.labels("holders").set(len(self._tracked.holders))
        metrics.TRACKED.labels("account").set(len(self._tracked.accounts))

    async def _follow_traded(self) -> None:
        """Keep the mints that trade; of those that are not kept yet, some with each look."""
        if not self._is_streamed:
            return  # nothing would follow them
        traded = TradedMints(self._writer)
        while True:
            seen = await self._until_done(traded.look)
            mints = self._tracked.mints
            known = {mint: ms for mint, ms in seen.items() if mint in mints}
            new = [
                mint
                for mint in reversed(seen)
                if (subject := mint_account_of(mint)) not in self._asked_s
                and subject not in self._failed
            ][: self._new_traded]
            scores = known | {mint: seen[mint] for mint in new}
            if scores:
                await self._keep(Covered.MINT, TRACKED_MINTS, scores)
            for mint in new:
                self._start(Covered.MINT, mint)
            await asyncio.sleep(TRADED_LOOK_S)

    async def _ask_unknown_mints(self) -> None:
        """Ask for the tracked mints of which nothing is known, as after an upgrade; once."""
        mints = [*self._tracked.mints]
        for at in range(0, len(mints), earlier_mints.AT_ONCE):
            some = mints[at : at + earlier_mints.AT_ONCE]
            unknown = await self._until_done(earlier_mints.look, self._writer, some)
            for mint in unknown.misplaced:
                # What was stored for the mint as a wallet goes, unless it is tracked as one.
                is_wallet = mint in self._tracked.wallets
                reason = "it is asked for again" if is_wallet else ""
                self._answers.withdraw(Covered(kind=Covered.WALLET, address=mint, reason=reason))
                if is_wallet:
                    self.again([mint])
            self.again(
                subject
                for each in unknown.mints
                if (subject := mint_account_of(each)) not in self._asked_s
            )
            if unknown.misplaced:
                await self._answers.all_withdrawn()

    def _track(self, kind: Covered.Kind, scores: dict[bytes, int]) -> None:
        ask: Callable[[bytes, int], list[bytes]] = self._of(kind).ask
        if kind == Covered.HOLDERS:
            ask = self._tracked.ask_holders
        elif kind == Covered.MINT:
            ask = self._tracked.ask_mint
        elif kind == Covered.ACCOUNT:
            ask = self._tracked.ask_account
        for address, at_ms in scores.items():
            for left in ask(address, at_ms):
                self._leave(kind, left)

    def _leave(self, kind: Covered.Kind, address: bytes) -> None:
        raw, subject = address, _subject(kind, address)
        if kind == Covered.WALLET:
            self._tracked.forget_wallet(address)
            self._let_go_account(address)
        elif kind == Covered.MINT:
            self._tracked.forget_mint(address)
            self._let_go_account(address)
        elif kind == Covered.HOLDERS:
            for account in self._tracked.forget_holders(address):
                self._answers.withdraw(Covered(kind=kind, address=account))
            self._let_go[subject] = address
        elif kind == Covered.ACCOUNT:
            self._tracked.forget_account(address)
            self._let_go_account(address)
            self._let_go[subject] = address
        self._asked_s.pop(subject, None)
        self._lamports_s.pop(subject, None)
        self._lamports_wait.discard(subject)
        self._failed.pop(subject, None)
        if (task := self._under_way.pop(subject, None)) is not None:
            task.cancel()
        # No reason: it is let go, and what is kept for it alone goes. The lane names a mint by its
        # own address.
        self._answers.withdraw(Covered(kind=kind, address=raw if kind == Covered.MINT else subject))

    def _let_go_account(self, address: bytes) -> None:
        """Let go what is stored at an address that left, unless it is kept as something else."""
        if not self._tracked.keeps(address):
            self._answers.withdraw(Covered(kind=Covered.HOLDERS, address=address))

    def _start(self, kind: Covered.Kind, address: bytes) -> None:
        """Ask for a wallet or mint, if it is due.

        A mint's holders and what is followed by its address are, every ALL_AFTER_S: what is stored
        of them goes with a wallet that has it and is let go.
        """
        raw, address = address, _subject(kind, address)
        if address in self._under_way:
            return
        now = time.monotonic()
        if address in self._failed and now < self._failed[address].due_s:
            return
        asked_s = self._asked_s.get(address)
        is_kept = self._is_streamed and kind in (Covered.WALLET, Covered.MINT)
        is_due = asked_s is None or (not is_kept and now - asked_s > ALL_AFTER_S)
        if kind == Covered.HOLDERS:
            if not is_due:
                return
            work = self._all(address, self._asking.holders(raw))
        elif kind == Covered.ACCOUNT:
            if not is_due:
                return
            work = self._all(address, self._asking.account(raw))
        elif kind == Covered.MINT:
            if not is_due:
                return
            work = self._all(address, self._asking.mint(raw))
        elif is_due:
            work = self._all(address, self._asking.wallet(address))
        else:
            self._ask_lamports(address)
            return
        self._run(address, work)

    def _ask_lamports(self, wallet: bytes) -> None:
        """Ask for the lamports of a tracked wallet alone; it stays tracked no longer for that.

        One that comes too soon waits for its second, or until the call that is under way has ended:
        who asked may have seen what that answers without.
        """
        self._lamports_wait.discard(wallet)
        if wallet not in self._tracked.wallets:
            return
        now = time.monotonic()
        asked_s = self._lamports_s.get(wallet, float("-inf"))
        if wallet in self._under_way or now - asked_s < LAMPORTS_AFTER_S:
            self._lamports_wait.add(wallet)
            return
        self._lamports_s[wallet] = now
        self._run(wallet, self._only(self._asking.lamports(wallet)))

    def _run(self, address: bytes, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way[address] = task
        task.add_done_callback(lambda task: self._done(address, task))

    async def _all(self, address: bytes, asking: Awaitable[Ended]) -> None:
        ended = await asking
        now = time.monotonic()
        if ended is Ended.TOO_LARGE:
            self._under_way.pop(address, None)
            self._let_go_of(address)
            return
        if ended is Ended.NOT_KEPT:
            self._under_way.pop(address, None)
            if (account := self._tracked.account_of(address)) is not None:
                log.warning("not followed: it is no token account", account=text(account))
                self._leave(Covered.ACCOUNT, account)
            return
        if ended is Ended.FAILED:
            before = self._failed.get(address)
            first_s, most_s = FAILED_PAUSE_S
            pause_s = first_s if before is None else min(2 * before.pause_s, most_s)
            self._failed[address] = _Failed(now + pause_s, pause_s)
            return
        self._failed.pop(address, None)
        self._asked_s[address] = self._lamports_s[address] = now

    async def _watch(self) -> None:
        """Ask again for what failed or came too soon; let go of wallets that grow too large."""
        while True:
            for wallet in self._tracked.take_overgrown():
                self._let_go_of(wallet)
            now = time.monotonic()
            self._forget_too_large(now)
            self.again([each for each, failed in self._failed.items() if failed.is_due(now)])
            for wallet in [*self._lamports_wait]:
                self._ask_lamports(wallet)
            await asyncio.sleep(LOOK_S)

    def _let_go_of(self, wallet: bytes) -> None:
        """Follow a wallet with too many accounts no more; the lane says why for an hour."""
        log.warning("a wallet has too many accounts: it is not followed", wallet=text(wallet))
        metrics.TOO_LARGE.inc()
        self._tracked.wallets.discard(wallet)
        self._leave(Covered.WALLET, wallet)  # what is stored of it goes
        reason = TOO_MANY_ACCOUNTS
        self._answers.withdraw(Covered(kind=Covered.WALLET, address=wallet, reason=reason))
        self._too_large.pop(wallet, None)
        self._too_large[wallet] = time.monotonic() + TOO_LARGE_FOR_S

    def _forget_too_large(self, now: float) -> None:
        """Withdraw the reason too, where a wallet may be asked for again."""
        for wallet, until_s in [*self._too_large.items()]:
            if until_s > now and len(self._too_large) <= MOST_TOO_LARGE:
                break
            del self._too_large[wallet]
            self._answers.withdraw(Covered(kind=Covered.WALLET, address=wallet))

    @staticmethod
    async def _only(asking: Any) -> None:
        await asking

    def _done(self, address: bytes, task: asyncio.Task[None]) -> None:
        self._finished.set()
        self._again_under_way.discard(address)
        if self._under_way.get(address) is task:
            del self._under_way[address]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request failed", of=text(self._named(address)), error=repr(error))

    def _named(self, subject: bytes) -> bytes:
        """Return the address that a subject is of, the subject itself where it is not tracked."""
        tracked = self._tracked
        return (
            tracked.mint_with_account(subject)
            or tracked.mint_of(subject)
            or tracked.account_of(subject)
            or subject
        )

    async def _one_finished(self) -> None:
        self._finished.clear()
        await self._finished.wait()

    async def _ask_again(self) -> None:
        while True:
            while not self._again:
                self._has_again.clear()
                await self._has_again.wait()
            address = next(iter(self._again))
            while len(self._again_under_way) >= AGAIN_AT_ONCE or address in self._under_way:
                await self._one_finished()
            del self._again[address]  # from now on it may be queued again
            if address in self._asked_s:
                continue  # answered since: an answer from before a loss comes back here
            if address in self._tracked.wallets:
                self._start(Covered.WALLET, address)
            elif (mint := self._tracked.mint_with_account(address)) is not None:
                self._start(Covered.MINT, mint)
            elif (mint := self._tracked.mint_of(address)) is not None:
                self._start(Covered.HOLDERS, mint)
            elif (account := self._tracked.account_of(address)) is not None:
                self._start(Covered.ACCOUNT, account)
            if address in self._under_way:
                self._again_under_way.add(address)

    async def _until_done(self, command: Any, *args: Any, **options: Any) -> Any:
        backoff = Backoff(*BACKOFF_S)
        while True:
            try:
                return await command(*args, **options)
            except RedisError as error:
                log.warning("Redis does not answer: requests wait", detail=str(error))
                await backoff.wait()


def _place(entry_id: bytes) -> tuple[int, int]:
    ms, _, number = entry_id.partition(b"-")
    return int(ms), int(number)
