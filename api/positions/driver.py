"""Runs the readings of all protocols of a request in step: one trip a round for all of them.

A reading yields the addresses it needs next, and is sent those that exist. Each is run by itself:
one that fails becomes errors, and the others are answered. An account that is unreadable is left
out and its protocol read again, from what was fetched already; one that it was sent, as a pool that
a stranger made, is then not sent: the positions that need it lack it, and the others do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter, thread_time
from typing import Final, Literal, NamedTuple

import structlog
from prometheus_client import Counter, Histogram

from api.positions.within import OverTime, within
from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Position,
    Protocol,
    Reading,
    Unreadable,
    World,
    is_issuer,
)

log = structlog.get_logger(__name__)

MOST_ROUNDS: Final = 8  # of one reading
MOST_WANTED: Final = 5_000  # accounts of one reading, over all rounds
MOST_POSITIONS: Final = 5_000  # of one reading
MOST_LEFT_OUT: Final = 20  # unreadable accounts of one reading; with more it fails

MOST_S: Final = 0.5  # of computing, of one reading
MOST_OF_ALL_S: Final = 1.0  # of all readings of a request
_PAUSE_AFTER_S: Final = 0.005  # of computing at a time; then other requests come in between
_LONG_S: Final = 0.005  # of one step
_ADDRESS_BYTES: Final = 32
_PROTOCOLS: Final = 256
_MOST_DECIMALS: Final = 255  # a mint has a byte for them

READINGS: Final = Counter(
    "soltape_api_readings_total", "Readings of a protocol's accounts.", ["protocol", "outcome"]
)
READING_MS: Final = Histogram(
    "soltape_api_reading_ms",
    "Time that a reading computes; what it waits for is not in it.",
    ["protocol"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250),
)

Code = Literal["not_covered", "unreadable", "reference_missing", "not_supported"]
Fetch = Callable[[Sequence[bytes]], Awaitable[Mapping[bytes, Account]]]


class Failure(NamedTuple):
    """What could not be read of a protocol."""

    account: bytes | None  # or program
    code: Code
    detail: str


@dataclass(slots=True)
class Outcome:
    """What a reading found, and what it could not."""

    positions: list[Position] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    absent: set[bytes] = field(default_factory=set)  # what the reading wanted, and is not known
    uncounted: set[bytes] = field(default_factory=set)
    """What positions lack that count in no sum: it is asked for, and is no error."""
    sent: set[bytes] = field(default_factory=set)  # what it wanted, and got


async def run(
    asked: Iterable[tuple[Protocol, Held]],
    world: World,
    fetch: Fetch,
    markets: frozenset[bytes] = frozenset(),
) -> list[Outcome]:
    """Return what each protocol's reading found, in their order; raises what `fetch` raises.

    `markets`: those that are verified, of those that anybody can open.
    """
    budget = _Budget()
    runs = [_Run(protocol, held, world, budget) for protocol, held in asked]
    known: dict[bytes, Account | None] = {}
    for each in runs:
        each.begin()
        await budget.pause()
    while waiting := [each for each in runs if each.wanted]:
        wanted = {address for each in waiting for address in each.wanted if address not in known}
        if wanted:
            found = await fetch(sorted(wanted))
            budget.go_on()
            known.update(zip(wanted, map(found.get, wanted), strict=True))
        for each in waiting:
            each.go_on(known)
            await budget.pause()
    return [each.close(markets) for each in runs]


class _Budget:
    """What the readings of a request have left to compute, in seconds.

    A short step counts by the clock on the wall, which costs a tenth of the thread's; of a long one
    what the thread computed counts: others may have had the core.
    """

    def __init__(self) -> None:
        self.left_s = MOST_OF_ALL_S
        self._since_pause_s = 0.0
        self.go_on()

    def go_on(self) -> None:
        """Count from now on: what was computed by now was for others."""
        self._at_s = perf_counter()
        self._computed_s = thread_time()

    def spend(self) -> float:
        """Return what was computed since this was last called, and take it off."""
        now_s = perf_counter()
        took_s, self._at_s = now_s - self._at_s, now_s
        if took_s > _LONG_S:
            computed_s = thread_time()
            took_s = min(took_s, computed_s - self._computed_s)
            self._computed_s = computed_s
        self.left_s -= took_s
        self._since_pause_s += took_s
        return took_s

    async def pause(self) -> None:
        """Let others come in between, where something has been computed."""
        if self._since_pause_s > _PAUSE_AFTER_S:
            self._since_pause_s = 0.0
            await asyncio.sleep(0)
            self.go_on()


class _Run:
    """One reading on its way."""

    def __init__(self, protocol: Protocol, held: Held, world: World, budget: _Budget) -> None:
        self._protocol = protocol
        self._held = held
        self._world = world
        self._budget = budget
        self._reading: Reading | None = None
        self._outcome = Outcome()
        self._rounds = 0
        self._wanted_count = 0
        self._is_again = False  # read it again, without an account
        self._took_s = 0.0
        self._unusable: set[bytes] = set()  # of what was sent, what could not be read
        self.wanted: Sequence[bytes] = ()  # nothing: the reading is over

    def begin(self) -> None:
        """Start the reading, until it wants accounts."""
        if self._protocol.read is None:
            self._fail(None, "not_supported", f"{self._protocol.name} has no reading")
            return
        self._is_again = True
        while self._is_again:
            self._is_again = False
            self._rounds = 0
            self._wanted_count = 0
            self._reading = self._protocol.read(self._held, self._world)
            self._advance(None)

    def go_on(self, known: Mapping[bytes, Account | None]) -> None:
        """Send the reading those of its wanted accounts that exist."""
        sent = {}
        for each in self.wanted:
            if (found := known.get(each)) is None:
                self._outcome.absent.add(each)
            elif each not in self._unusable:
                sent[each] = found
        self._outcome.sent |= sent.keys()
        self._advance(sent)
        if self._is_again:
            self.begin()

    def close(self, markets: frozenset[bytes]) -> Outcome:
        """Return what was found, with an error for each account that was missing.

        What positions lack that count nowhere is no error: anybody can open a market, and have a
        wallet lack an account of it for ever.
        """
        missing: dict[bytes, bool] = {}  # whether a position that counts lacks it
        for position in self._outcome.positions:
            if position.missing:
                counts = position.counts_in(markets)
                for address in position.missing:
                    missing[address] = counts or missing.get(address, False)
        for address, is_error in missing.items():
            if address in self._unusable:  # it was said why
                continue
            if is_error:
                self._fail(address, "reference_missing", "the account is not known")
            else:
                self._outcome.uncounted.add(address)
        outcome = "partial" if self._outcome.failures else "whole"
        took_ms, count = _measured(self._protocol.name, outcome)
        took_ms.observe(self._took_s * 1000)
        count.inc()
        return self._outcome

    def _advance(self, sent: Mapping[bytes, Account] | None) -> None:
        """Go on to where accounts are wanted, or to the end."""
        self.wanted = ()
        try:
            self._go(sent)
        except Unreadable as error:
            self._fail(error.account, "unreadable", str(error))
            self._is_again = self._leaves_out(error.account)
        except OverTime:
            log.error("reading took too long", protocol=self._protocol.name)
            own = f"its reading computed for more than {MOST_S} s"
            of_all = f"the readings of the request computed for more than {MOST_OF_ALL_S} s"
            is_own = MOST_S - self._took_s <= self._budget.left_s
            self._fail(None, "unreadable", own if is_own else of_all)
        except Exception as error:
            log.exception("reading failed", protocol=self._protocol.name)
            self._fail(None, "unreadable", f"its reading failed ({type(error).__name__})")
        self._took_s += self._budget.spend()

    def _go(self, sent: Mapping[bytes, Account] | None) -> None:
        try:
            with within(min(MOST_S - self._took_s, self._budget.left_s)):
                self.wanted = self._next(sent)
        except StopIteration as end:
            found = end.value
        else:
            return
        self._take(found)

    def _next(self, sent: Mapping[bytes, Account] | None) -> Sequence[bytes]:
        assert self._reading is not None
        wanted = next(self._reading) if sent is None else self._reading.send(sent)
        self._rounds += 1
        while not wanted and self._rounds <= MOST_ROUNDS:  # nothing to fetch for it
            wanted = self._reading.send({})
            self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise Unreadable(f"its reading wanted more than {MOST_ROUNDS} rounds")
        self._wanted_count += len(wanted)
        if self._wanted_count > MOST_WANTED:
            raise Unreadable(f"its reading wanted more than {MOST_WANTED} accounts")
        is_bytes = {*map(type, wanted)} <= {bytes}
        if not is_bytes or ({*map(len, wanted)} - {_ADDRESS_BYTES} and not _are_wanted(wanted)):
            raise TypeError("what it wants is no address")
        return wanted

    def _take(self, positions: list[Position]) -> None:
        """Take what the reading found; what is no list of positions is a failure."""
        routes = {route.path for route in self._protocol.routes}
        if len(positions) > MOST_POSITIONS:
            self._fail(None, "unreadable", f"its reading found more than {MOST_POSITIONS}")
        elif not all(_is_sound(each) for each in positions):
            self._fail(None, "unreadable", "its reading found what is no position")
        elif routes and (wrong := {each.route for each in positions} - routes):
            detail = f"its reading found positions of another route: {min(wrong)}"
            self._fail(None, "unreadable", detail)
        else:
            self._outcome.positions = positions

    def _leaves_out(self, address: bytes | None) -> bool:
        """Take an account out of what the reading has or is sent; return whether it was there."""
        if address is None or len(self._outcome.failures) > MOST_LEFT_OUT:
            return False
        kept = [each for each in self._held.accounts if each.address != address]
        if len(kept) < len(self._held.accounts):
            self._held = replace(self._held, accounts=kept)
            return True
        if address not in self._outcome.sent or address in self._unusable:
            return False
        self._unusable.add(address)
        return True

    def _fail(self, account: bytes | None, code: Code, detail: str) -> None:
        self._outcome.failures.append(Failure(account, code, detail))


def _are_wanted(wanted: Iterable[bytes]) -> bool:
    """Return whether all that is wanted is an address or the issuer of a mint."""
    return all(len(each) == _ADDRESS_BYTES or is_issuer(each) for each in wanted)


def _is_sound(position: object) -> bool:
    if (
        not isinstance(position, Position)
        or len(position.id or position.account.address) != _ADDRESS_BYTES
    ):
        return False
    for asset in position.assets:
        if not isinstance(asset, Asset) or len(asset.mint) != _ADDRESS_BYTES:
            return False
        raw, decimals = asset.amount_raw, asset.decimals
        if raw is not None and raw < 0:
            return False
        if decimals is not None and not 0 <= decimals <= _MOST_DECIMALS:
            return False
    return True


@lru_cache(_PROTOCOLS)
def _measured(protocol: str, outcome: str) -> tuple[Histogram, Counter]:
    """Return the metrics of a protocol's readings that ended in a way."""
    return READING_MS.labels(protocol), READINGS.labels(protocol, outcome)
