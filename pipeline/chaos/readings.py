"""What demo wallets have by the accounts that the chain itself has, asked of its RPC.

Here alone the proof takes the readings of protocols, over bytes that never were in the pipeline: so
what the API answers is compared field by field, also of protocols whose programs the chain does not
run. That the readings are right is judged elsewhere: of programs that run by the ledger's figures
(`figures`), of the others by what Node noted of their accounts.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import aiohttp

from infra.solana_rpc.client import call, session
from schemas.protocols.clock import clock_of
from schemas.protocols.contract import (
    Account,
    Held,
    Position,
    Protocol,
    World,
    is_issuer,
    issuer_among,
)
from schemas.protocols.registry import KINDS, SLUGS, kind_of
from schemas.solana.addresses import (
    CLOCK,
    STAKE_HISTORY,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    key,
    text,
)

Row = dict[str, Any]  # what is answered of a position, blocks flattened: `health.ltv`

ROUTES: Final = tuple(
    (slug, route.path)
    for slug, protocol in SLUGS.items()
    for route in protocol.routes
    if route.unsupported is None
)
"""Slug and path of every route that is supported."""
BLOCKS: Final = ("health", "range", "perp", "margin", "voting", "stake")
"""What a position has one of, or none."""
_TOKENS: Final = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
_AT_ONCE: Final = 100  # accounts of a call
_ROUNDS: Final = 8
_OF_SUMS: Final = "sums: "
_MOST_INTEGER: Final = (1 << 53) - 1
_FORM: Final = {"encoding": "base64", "commitment": "confirmed"}


@dataclass(slots=True)
class ChainAccounts:
    """The accounts of a chain whose market rests: the clock alone changes."""

    slots_in_epoch: int
    accounts: dict[bytes, Account | None] = field(default_factory=dict)  # None: there is none
    tokens: dict[bytes, Counter[bytes]] = field(default_factory=dict)  # wallet -> mint -> raw

    def world(self, slot: int, time_s: int) -> World:
        """Return when a question is asked, and set the clock to it."""
        world = World(slot, time_s, slot // self.slots_in_epoch)
        clock = self.accounts[CLOCK]
        assert clock is not None
        data = bytearray(clock.data)
        for at, value in ((0, world.slot), (16, world.epoch), (32, world.time_s)):
            data[at : at + 8] = value.to_bytes(8, "little")
        self.accounts[CLOCK] = clock._replace(data=bytes(data))
        return world

    def add(self, address: bytes, owner: bytes, lamports: int, data: bytes, slot: int) -> None:
        """Add an account, where a protocol knows its kind."""
        kind = kind_of(address, owner, data)
        self.accounts[address] = Account(address, kind, lamports, data, slot) if kind else None

    def held(self, wallet: bytes) -> Held:
        """Return what finds a wallet's positions: accounts that name it or a token of its own."""
        tokens = {mint: raw for mint, raw in self.tokens[wallet].items() if raw}
        by = {wallet, *tokens}
        own = [
            each
            for each in self.accounts.values()
            if each is not None and not by.isdisjoint(each.kind.found_by(each.data))
        ]
        return Held(wallet, own, tokens)

    def positions(
        self, protocol: Protocol, wallet: bytes, world: World
    ) -> tuple[list[Position], set[bytes]]:
        """Return a wallet's positions, and which addresses they want that nobody asked for."""
        lacking: set[bytes] = set()
        if protocol.read is None:
            return [], lacking
        held = self.held(wallet)
        own = [each for each in held.accounts if each.kind in protocol.kinds]
        reading = protocol.read(Held(wallet, own, held.tokens), world)
        try:
            wanted = next(reading)
            for _ in range(_ROUNDS):
                addresses = {each for each in wanted if not is_issuer(each)}
                lacking |= addresses - self.accounts.keys()
                known = {each: self._of(each) for each in wanted}
                wanted = reading.send({at: each for at, each in known.items() if each is not None})
        except StopIteration as end:
            found: list[Position] = end.value
            return found, lacking
        raise AssertionError(f"{protocol.name} wants more than {_ROUNDS} rounds")

    def _of(self, wanted: bytes) -> Account | None:
        """Return what a reading wants, by address or by a mint."""
        if not is_issuer(wanted):
            return self.accounts.get(wanted)
        return issuer_among((each for each in self.accounts.values() if each), wanted)

    def rows(self, wallet: str, world: World) -> dict[tuple[str, str], dict[str, Row]]:
        """Return what must be answered of a wallet: slug and route -> position -> fields."""
        found: dict[tuple[str, str], dict[str, Row]] = {route: {} for route in ROUTES}
        for slug, protocol in SLUGS.items():
            for position in self.positions(protocol, key(wallet), world)[0]:
                of = found.setdefault((slug, position.route), {})
                of[text(position.id or position.account.address)] = expected(position)
        return found


async def taken(endpoint: str, wallets: Collection[str]) -> ChainAccounts:
    """Return all accounts that wallets' positions need; raises what RPC does."""
    async with session() as http:
        return await _taken(http, endpoint, wallets)


async def _taken(
    http: aiohttp.ClientSession, endpoint: str, wallets: Collection[str]
) -> ChainAccounts:
    now = await call(http, endpoint, "getEpochInfo", [{"commitment": "confirmed"}])
    chain = ChainAccounts(now["slotsInEpoch"])

    async def keyed(method: str, *params: Any) -> None:
        answer = await call(http, endpoint, method, [*params, {**_FORM, "withContext": True}])
        slot = answer["context"]["slot"]
        for each in answer["value"]:
            chain.add(key(each["pubkey"]), *_account(each["account"]), slot)
            if method == "getTokenAccountsByOwner":
                data = _account(each["account"])[2]
                chain.tokens[key(params[0])][data[:32]] += int.from_bytes(data[64:72], "little")

    for program in KINDS:
        if program not in _TOKENS:
            await keyed("getProgramAccounts", text(program))
    for wallet in wallets:
        chain.tokens[key(wallet)] = Counter()
        for program in _TOKENS:
            await keyed("getTokenAccountsByOwner", wallet, {"programId": text(program)})
    lacking: Sequence[bytes] = (CLOCK, STAKE_HISTORY)
    while lacking:
        for at in range(0, len(lacking), _AT_ONCE):
            some = lacking[at : at + _AT_ONCE]
            asked = [[*map(text, some)], _FORM]
            answer = await call(http, endpoint, "getMultipleAccounts", asked)
            slot = answer["context"]["slot"]
            for address, each in zip(some, answer["value"], strict=True):
                chain.accounts[address] = None
                if each is not None:
                    chain.add(address, *_account(each), slot)
        lacking = _lacking(chain, wallets)
    return chain


def _lacking(chain: ChainAccounts, wallets: Collection[str]) -> list[bytes]:
    clock = chain.accounts[CLOCK]
    assert clock is not None
    now = clock_of(clock)
    world = World(now.slot, now.time_s, now.epoch)
    found: set[bytes] = set()
    for wallet in wallets:
        for protocol in SLUGS.values():
            found |= chain.positions(protocol, key(wallet), world)[1]
    return sorted(found)


def _account(answer: Mapping[str, Any]) -> tuple[bytes, int, bytes]:
    return key(answer["owner"]), answer["lamports"], b64decode(answer["data"][0])


def expected(position: Position) -> Row:
    """Return what must be answered of a position, but for prices, worths and slots."""
    row: Row = {"market": _shown("market", position.market)}
    row["assets"] = [
        [each.role.value, text(each.mint), _shown("amount_raw", each.amount_raw)]
        for each in position.assets
    ]
    for name in BLOCKS:
        block = getattr(position, name)
        row[name] = block is not None
        row |= {f"{name}.{field}": value for field, value in _fields(block).items()}
    row["locks"] = [_fields(each) for each in position.locks]
    row["points"] = [[each.name, str(each.amount)] for each in position.points]
    row["unsupported_fields"] = [*position.unsupported_fields]
    return row


def answered(position: Mapping[str, Any]) -> Row:
    """Return the same of a position as it was answered.

    What its sums leave out is said beside, by prices and verified markets: no reading says that.
    """
    row: Row = {"market": position["market"]}
    row["assets"] = [
        [each["role"], each["mint"], each["amount_raw"]] for each in position["assets"]
    ]
    for name in BLOCKS:
        block = position[name]
        row[name] = block is not None
        row |= {f"{name}.{field}": value for field, value in (block or {}).items()}
    row["locks"] = position["locks"]
    row["points"] = [[each["name"], each["amount"]] for each in position["points"]]
    row["unsupported_fields"] = [
        each for each in position["unsupported_fields"] if not each.startswith(_OF_SUMS)
    ]
    return row


def _fields(block: Any) -> Row:
    if block is None:
        return {}
    return {name: _shown(name, value) for name, value in block._asdict().items()}


def _shown(name: str, value: Any) -> Any:
    """Return a figure as JSON has it: raw amounts and addresses as text, ratios as numbers."""
    match value:
        case bytes():
            return text(value)
        case StrEnum():
            return value.value
        case Fraction():
            return float(value)
        case bool():
            return value
        case int() if name.endswith(("_raw", "_lamports")):
            return str(value)
        case int():
            return max(-_MOST_INTEGER, min(value, _MOST_INTEGER))
        case _:
            return value
