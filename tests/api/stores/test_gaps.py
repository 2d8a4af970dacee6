"""Gaps are read beside requests, and an answer names those that it rests on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from api.http.errors import STORE_UNAVAILABLE, Problem
from api.stores import gaps as gaps_module
from api.stores.gaps import GapReader, Gaps
from schemas.redis_keys import QUARANTINE, tag_of_mints, tag_of_wallets
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET

WALLET, OTHER, MINT = "wallet", "other", "mint"
UNKNOWN = {
    "missing_slots": None,
    "lost_slots": None,
    "rolled_back_slots": None,
    "quarantined": None,
}


def counts(
    missing: int, lost: int, rolled_back: int | None, quarantined: int = 0
) -> Mapping[str, int | None]:
    return {
        "missing_slots": missing,
        "lost_slots": lost,
        "rolled_back_slots": rolled_back,
        "quarantined": quarantined,
    }


def row(kind: str, slots: int, lost_by: str = "", gaps: int = 1) -> dict[str, Any]:
    return {"kind": kind, "lost_by": lost_by, "slots": slots, "gaps": gaps, "detected_ms": 1}


class Stores:
    """A ClickHouse with gaps; its queries are counted."""

    def __init__(self, *rows: dict[str, Any], wallets: Mapping[str, int] | None = None) -> None:
        self.rows = [*rows]
        self.wallets = wallets or {}
        self.queries = 0
        self.quarantines: dict[str, list[bytes]] = {}  # key -> names
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, commands: list[tuple[str, str]]) -> list[list[bytes]]:
        assert {name for name, _ in commands} == {"HKEYS"}
        return [self.quarantines.get(key, []) for _, key in commands]

    async def query(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.queries += 1
        await self.gate.wait()
        if self.is_away:
            raise Problem(STORE_UNAVAILABLE, "away")
        if "most" not in parameters:
            return self.rows
        found = [{"wallet": wallet, "slots": slots} for wallet, slots in self.wallets.items()]
        return found[: parameters["most"]]


def reader_of(stores: Stores, first_wait_s: float = 60.0) -> GapReader:
    return GapReader(stores, first_wait_s)  # type: ignore[arg-type]


async def reading(reader: GapReader) -> None:
    """Wait for the reading that is under way."""
    # private `_reading`: a reading goes on after its caller has its answer; only its task says when
    # it ends.
    assert reader._reading is not None
    await reader._reading


async def test_no_gap_is_null() -> None:
    found = await reader_of(Stores()).read()
    assert found.of_wallet(WALLET) is found.of_tokens([MINT]) is found.of_markets() is None
    assert found.of_traders() is found.of_swaps() is found.of_swaps(WALLET) is None


async def test_an_answer_names_the_gaps_of_its_partitions_alone() -> None:
    by_wallet, by_mint = SETTLED_BY_WALLET.partition(WALLET), SETTLED_BY_MINT.partition(MINT)
    found = Gaps(
        lost={
            f"pnl {by_wallet}": 1, f"pnl {(by_wallet + 1) % 8}": 10,
            f"market {by_mint}": 100, f"market {(by_mint + 1) % 8}": 1_000, "store 0": 10_000,
        },
        wallets={},
    )  # fmt: skip
    assert found.of_wallet(WALLET) == counts(0, 1, 0)
    assert found.of_traders() == counts(0, 11, 0)
    assert found.of_tokens([MINT]) == found.of_tokens([MINT, MINT]) == counts(0, 100, 0)
    assert found.of_markets() == counts(0, 1_100, 0)
    assert found.of_swaps() == found.of_swaps(WALLET) == counts(0, 10_000, 0)


async def test_perps_rest_on_what_may_be_anybodys_too() -> None:
    own, nobody = SETTLED_BY_WALLET.partition(WALLET), SETTLED_BY_WALLET.partition("")
    assert own != nobody
    other = next(place for place in range(8) if place not in (own, nobody))
    found = Gaps(lost={f"pnl {own}": 1, f"pnl {nobody}": 10, f"pnl {other}": 100}, wallets={})
    assert found.of_perps(WALLET) == counts(0, 11, 0)


async def test_all_answers_rest_on_what_the_tape_could_not_have() -> None:
    found = await reader_of(Stores(row("missing", 7))).read()
    for answer_gaps in (
        found.of_wallet(WALLET), found.of_tokens([MINT]), found.of_markets(),
        found.of_traders(), found.of_swaps(), found.of_swaps(WALLET),
    ):  # fmt: skip
        assert answer_gaps == counts(7, 0, 0)


async def test_a_rolled_back_slot_is_named_to_the_wallets_it_touched_and_to_all_tokens() -> None:
    found = await reader_of(Stores(row("rolled back", 3), wallets={WALLET: 2})).read()
    assert found.of_wallet(WALLET) == found.of_swaps(WALLET) == counts(0, 0, 2)
    assert found.of_wallet(OTHER) is found.of_swaps(OTHER) is None
    assert found.of_tokens([MINT]) == found.of_traders() == found.of_swaps() == counts(0, 0, 3)


async def test_a_rolled_back_slot_whose_wallets_are_unknown_is_named_to_all() -> None:
    unknown = row("rolled back, wallets unknown", 2)
    found = await reader_of(Stores(row("rolled back", 5), unknown, wallets={WALLET: 1})).read()
    assert found.of_wallet(WALLET) == counts(0, 0, 3)
    assert found.of_wallet(OTHER) == counts(0, 0, 2)


async def test_more_wallets_than_are_held_make_the_count_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps_module, "MOST_WALLETS", 1)
    both = {WALLET: 1, OTHER: 1}
    found = await reader_of(Stores(row("rolled back", 1), wallets=both)).read()
    assert found.of_wallet(WALLET) == counts(0, 0, None)
    assert found.of_tokens([MINT]) == counts(0, 0, 1)


async def test_the_wallets_are_read_again_only_after_another_roll_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps_module, "FRESH_FOR_S", -1.0)
    monkeypatch.setattr(gaps_module, "OLD_AFTER_S", -1.0)  # every request waits
    stores = Stores(row("rolled back", 1), wallets={WALLET: 1})
    reader = reader_of(stores)
    assert (await reader.read()).of_wallet(WALLET) == counts(0, 0, 1)
    await reader.read()
    assert stores.queries == 3
    stores.rows, stores.wallets = [row("rolled back", 2, gaps=2)], {WALLET: 2}
    assert (await reader.read()).of_wallet(WALLET) == counts(0, 0, 2)
    assert stores.queries == 5


async def test_a_request_does_not_wait_for_a_newer_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores(row("missing", 1))
    reader = reader_of(stores)
    assert (await reader.read()).missing == 1
    assert (await reader.read()).missing == 1
    assert stores.queries == 1
    monkeypatch.setattr(gaps_module, "FRESH_FOR_S", -1.0)
    stores.gate.clear()
    stores.rows = [row("missing", 2)]
    found = await asyncio.gather(*(reader.read() for _ in range(9)))
    assert {each.missing for each in found} == {1}
    stores.gate.set()
    await reading(reader)
    assert stores.queries == 2
    assert (await reader.read()).missing == 2


async def test_unknown_gaps_are_null_counts_until_clickhouse_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps_module, "FRESH_FOR_S", -1.0)
    stores = Stores(row("missing", 4))
    stores.is_away = True
    reader = reader_of(stores)
    found = await reader.read()
    assert found.of_wallet(WALLET) == found.of_tokens([MINT]) == found.of_swaps() == UNKNOWN
    stores.is_away = False
    assert (await reader.read()).of_wallet(WALLET) == UNKNOWN  # no waiting: just asked
    await reading(reader)
    assert (await reader.read()).of_wallet(WALLET) == counts(4, 0, 0)
    await reading(reader)
    stores.is_away = True  # then what was read last holds: the books stop as well
    await reader.read()
    await reading(reader)
    assert (await reader.read()).of_wallet(WALLET) == counts(4, 0, 0)
    await reading(reader)


async def test_a_minute_without_clickhouse_makes_counts_unknown_and_quarantine_is_read_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps_module, "FRESH_FOR_S", -1.0)
    stores = Stores(row("missing", 4))
    reader = reader_of(stores)
    assert (await reader.read()).of_wallet(WALLET) == counts(4, 0, 0)
    stores.is_away = True
    key = QUARANTINE.make(tag=tag_of_wallets(SETTLED_BY_WALLET.partition(WALLET)), group="pnl")
    stores.quarantines[key] = [WALLET.encode()]
    await reader.read()
    await reading(reader)
    found = await reader.read()
    assert found.of_wallet(WALLET) == counts(4, 0, 0, 1)
    assert found.leaves_out_wallet(WALLET)
    monkeypatch.setattr(gaps_module, "UNKNOWN_AFTER_S", -1.0)
    await reading(reader)
    found = await reader.read()
    assert found.of_wallet(WALLET) == UNKNOWN
    assert found.leaves_out_wallet(WALLET)
    await reading(reader)


async def test_a_clickhouse_that_hangs_delays_one_round_of_requests() -> None:
    stores = Stores(row("missing", 4))
    stores.gate.clear()
    reader = reader_of(stores, first_wait_s=0.01)
    assert (await reader.read()).of_wallet(WALLET) == UNKNOWN
    # private `_first_wait_s`: only the first wait is short here: a long second one would show as a
    # timeout.
    reader._first_wait_s = 1_000_000.0
    assert (await reader.read()).of_wallet(WALLET) == UNKNOWN
    assert stores.queries == 1
    stores.gate.set()
    await reading(reader)
    assert (await reader.read()).of_wallet(WALLET) == counts(4, 0, 0)


async def test_a_request_that_leaves_does_not_end_the_reading() -> None:
    stores = Stores(row("missing", 4))
    stores.gate.clear()
    reader = reader_of(stores)
    leaving = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    stores.gate.set()
    assert (await reader.read()).missing == 4
    assert stores.queries == 1


async def test_answers_name_what_is_in_quarantine_or_are_refused() -> None:
    stores = Stores()
    wallets = tag_of_wallets(SETTLED_BY_WALLET.partition(WALLET))
    mints = tag_of_mints(SETTLED_BY_MINT.partition(MINT))
    stores.quarantines = {
        QUARANTINE.make(tag=wallets, group="pnl"): [WALLET.encode()],
        QUARANTINE.make(tag=mints, group="market"): [MINT.encode(), b"another"],
    }
    found = await reader_of(stores).read()
    assert found.of_wallet(WALLET) == found.of_traders() == counts(0, 0, 0, 1)
    assert found.of_wallet(OTHER) is None
    assert found.of_tokens([MINT, OTHER]) == counts(0, 0, 0, 1)
    assert found.of_tokens([OTHER]) is None
    assert found.of_markets() == counts(0, 0, 0, 2)
    assert found.of_swaps(WALLET) is None
    found.check_wallet(OTHER)
    found.check_mint(OTHER)
    for check, name in ((found.check_wallet, WALLET), (found.check_mint, MINT)):
        with pytest.raises(Problem, match=f"quarantined: .*{name}"):
            check(name)
