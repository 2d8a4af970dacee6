"""Still accounts on the market: what Node wrote is what every protocol's reading finds.

`STILL_WORLDS=write pytest -m node` with this file writes the shipped accounts anew.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market.invariants import Invariants
from infra.chain.market.knobs import Knobs
from infra.chain.market.market import Market
from infra.chain.market.runtime import accounts
from infra.chain.market.world.still import FILE, still_world
from schemas.protocols.contract import Account, Held, Position, World
from schemas.protocols.registry import ALL, SLUGS, kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor, npm

SCRIPT = Path(__file__).parent / "still_worlds"
KNOBS = Knobs(wallets=20, rate=20)
GENESIS = World(KNOBS.start_slot, KNOBS.start_time_ms // 1_000, 0)
PROTOCOLS = sorted({each["protocol"] for each in still_world().positions})
BY_NAME = {each.name: each for each in ALL}
HEALTH_WITHIN = 1e-9


@lru_cache(maxsize=1)
def market() -> Market:
    return Market(KNOBS)


def chain_of(market: Market) -> Mapping[bytes, Account]:
    """All accounts of a kind, as the chain's own genesis has them."""
    return {
        write.address: Account(write.address, kind, write.lamports, write.data, 1)
        for write in market.genesis_accounts()
        if (kind := kind_of(write.address, write.owner, write.data)) is not None
    }


@lru_cache(maxsize=1)
def chain() -> Mapping[bytes, Account]:
    return chain_of(market())


def held(wallet: bytes, there: Mapping[bytes, Account]) -> Held:
    """What the wallet has, found as the store finds it: by wallets and mints in the bytes."""
    tokens = {
        account.mint.address: account.amount_raw
        for account in market().world.ledger.tokens.values()
        if account.owner == wallet and account.amount_raw
    }
    by = {wallet, *tokens}
    own = [each for each in there.values() if by & set(each.kind.found_by(each.data))]
    return Held(wallet, own, tokens)


def positions(
    protocol: str,
    wallet: bytes,
    world: World = GENESIS,
    there: Mapping[bytes, Account] | None = None,
) -> list[Position]:
    there = chain() if there is None else there
    read = BY_NAME[protocol].read
    assert read is not None
    reading = read(held(wallet, there), world)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(found: Position) -> list[tuple[str, str, int | None]]:
    return [(each.role.value, text(each.mint), each.amount_raw) for each in found.assets]


def is_expected(found: Position, wanted: Mapping[str, Any]) -> bool:
    """Whether a position is as noted; of amounts with a `~` up to 2 raw units away."""
    if found.route != wanted["route"] or len(found.assets) != len(wanted["assets"]):
        return False
    for (role, mint, amount), (to_be, of, raw) in zip(lines(found), wanted["assets"], strict=True):
        if (role, mint, amount is None) != (to_be, of, raw is None):
            return False
        if amount is not None and raw is not None:
            away = abs(amount - int(raw.removeprefix("~")))
            if away > (2 if raw.startswith("~") else 0):
                return False
    return True


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_readings_of_demo_wallets_are_what_node_noted(protocol: str) -> None:
    noted = [each for each in still_world().positions if each["protocol"] == protocol]
    assert noted
    for wallet in sorted({each["wallet"] for each in noted}):
        wanted = [each for each in noted if each["wallet"] == wallet]
        routes = {each["route"] for each in wanted}
        found = [each for each in positions(protocol, key(wallet)) if each.route in routes]
        assert not [each.missing for each in found if each.missing]
        assert len(found) == len(wanted), protocol
        for each in wanted:
            matching = [position for position in found if is_expected(position, each)]
            alike = [other for other in wanted if other == each]
            assert len(matching) == len(alike), (each, [lines(position) for position in found])
            position = matching[0]
            if "health" in each:
                assert position.health is not None
                assert position.health.health_factor is not None
                assert abs(position.health.health_factor / each["health"] - 1) < HEALTH_WITHIN
            if "in_range" in each:
                assert position.range is not None
                assert position.range.is_in_range is each["in_range"]


def test_no_route_that_can_be_served_is_empty_for_all_demo_wallets() -> None:
    for protocol in SLUGS.values():
        served = {each.path for each in protocol.routes if each.unsupported is None}
        found = (each for wallet in ADDRESSES.values() for each in positions(protocol.name, wallet))
        assert served - {each.route for each in found} == set(), protocol.name


def test_a_day_later_all_can_still_be_read_and_nothing_is_lost() -> None:
    later = World(GENESIS.slot + 200_000, GENESIS.time_s + 86_400, 2_000)
    for protocol in PROTOCOLS:
        for wallet in ADDRESSES.values():
            before, after = positions(protocol, wallet), positions(protocol, wallet, later)
            assert [each.account.address for each in before] == [
                each.account.address for each in after
            ]


def test_supplies_of_share_tokens_are_what_wallets_hold() -> None:
    Invariants(market()).check_supply()
    ledger = market().world.ledger
    for token in still_world().tokens:
        assert ledger.mints[token.mint].supply_raw == token.supply_raw
        for wallet, amount_raw in token.held_raw.items():
            assert ledger.held(wallet, ledger.mints[token.mint]) == amount_raw


def test_the_chain_has_them_whatever_its_seed() -> None:
    other = Market(Knobs(wallets=20, rate=20, seed=7))
    for address, (still, _, _) in still_world().accounts.items():
        found = accounts.account(other.world.ledger, address)
        assert found is not None
        assert (found.owner, found.data) == (still.owner, still.content)
        assert found.lamports == (128 + len(still.content)) * 6_960


@pytest.mark.parametrize("days", [-100, 0, 365, 3_650])
def test_a_chain_that_starts_at_another_time_has_the_same_positions(days: int) -> None:
    moved = World(GENESIS.slot + days * 200_000, GENESIS.time_s + days * 86_400, 0)
    knobs = Knobs(wallets=20, rate=20, start_slot=moved.slot, start_time_ms=1_000 * moved.time_s)
    there = chain_of(Market(knobs))
    for protocol in PROTOCOLS:
        for wallet in ADDRESSES.values():
            before = positions(protocol, wallet)
            after = positions(protocol, wallet, moved, there)
            assert [lines(each) for each in before] == [lines(each) for each in after]
            for old, new in zip(before, after, strict=True):
                ends = [lock.ends_ms + days * 86_400_000 for lock in old.locks if lock.ends_ms]
                assert ends == [lock.ends_ms for lock in new.locks if lock.ends_ms]


def written(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the lines of the script, run now."""
    idls = anchor.IDLS
    if not idls.exists():
        pytest.skip("the IDLs of the facts are not here")
    folder = npm.installed(request, "still-worlds", SCRIPT, "@coral-xyz/anchor")
    wallets = {name: text(address) for name, address in ADDRESSES.items()}
    done = subprocess.run(
        ["node", "still.cjs"],
        cwd=folder,
        input=json.dumps({"idls": str(idls), "wallets": wallets}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield from done.stdout.splitlines()


@pytest.mark.node
def test_the_shipped_accounts_are_those_that_the_script_writes(
    request: pytest.FixtureRequest,
) -> None:
    content = "".join(f"{line}\n" for line in written(request)).encode()
    if os.environ.get("STILL_WORLDS") == "write":
        FILE.write_bytes(gzip.compress(content, 9, mtime=0))
    assert gzip.decompress(FILE.read_bytes()) == content
    assert FILE.stat().st_size < 100_000
