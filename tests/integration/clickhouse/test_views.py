"""Views and worked queries over simulated trades, each checked against plain Python.

Every row is written twice, in blocks cut differently: no view may count it twice.
"""

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from infra.chain.market import Knobs, Market
from infra.chain.source import SlotCompleted, SlotTransactions
from infra.clickhouse.client import connect
from infra.clickhouse.migrations import migrate
from infra.clickhouse.query import queries, query
from infra.clickhouse.reader import as_reader
from infra.settings import Settings
from pipeline.agents.settled.lost import LOG_LACKS, because
from pipeline.agents.store import TapeBooks
from pipeline.decoding.reading import decode_update
from pipeline.domain.value import SolUsd, value_swaps
from pipeline.ingest.finality import NOT_KNOWN, ROLLED_BACK
from schemas.codec import add_event
from schemas.events import Creation, Migration, Side, Swap
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import TABLES
from schemas.times import DAY_MS, HOUR_MS

SLOTS = 200
SOL_USD = SolUsd.of(Decimal("151.5"))


def simulated():
    """The slots of a market as the lane by mint carries them, and their events."""
    batches, events, in_slot = [], [], []
    market = Market(Knobs(seed=21, forks=0, rate=120, start_time_ms=1_785_499_140_000))
    for event in market.generate(SLOTS):
        if isinstance(event, SlotTransactions):
            in_slot += [tx.info for tx in event.transactions if not tx.is_vote]
        elif isinstance(event, SlotCompleted):
            header = event.header
            batch = SlotBatch(slot=header.slot, parent=header.parent_slot, sol_usd="151.5",
                              block_time_ms=header.block_time * 1000, complete=True,
                              transactions=len(in_slot))  # fmt: skip
            batch.outcomes.unknown = 1
            for data in in_slot:
                info = SubscribeUpdateTransactionInfo.FromString(data)
                read = decode_update(info, header.slot, batch.block_time_ms)
                value_swaps([e for e in read.events if isinstance(e, Swap)], SOL_USD, {})
                events += read.events
                for each in read.events:
                    add_event(batch.events, each)
            batches.append(batch)
            in_slot = []
    return batches, events


async def nothing_before(mints, before_slot):
    return {}


def write(client, batches, every):
    """Write batches, so many an insert, however often they have been written before."""
    books = TapeBooks(0, nothing_before)
    for number, batch in enumerate(batches, start=1):
        asyncio.run(books.load([batch]))
        books.apply(batch)
        if number % every == 0 or number == len(batches):
            for table, rows in books.take().rows.items():
                insert(client, table, rows)


def insert(client, table, rows):
    columns = TABLES[table].columns
    client.insert(table, rows, list(columns), column_type_names=list(columns.values()),
                  settings={"insert_deduplicate": 0})  # fmt: skip


@pytest.fixture(scope="module")
def tape(embedded):
    """The events, and settings of the reader of a database that has them."""
    settings = Settings(_env_file=None, clickhouse_url=embedded.url, clickhouse_database="views")
    migrate(settings)
    batches, events = simulated()
    # One slot in part, and one that is not there at all: gaps hold both.
    batches[40].complete = False
    gone = batches.pop(60)
    events = [event for event in events if event.slot != gone.slot]
    with connect(settings) as client:
        client.command("SYSTEM STOP MERGES swaps")
        for every in (7, 50):
            write(client, batches, every)
        for _ in range(2):
            insert(
                client, "gaps", [(s, s, "test", 0, [], "") for s in (batches[40].slot, gone.slot)]
            )
        back, lost = batches[45].slot, batches[50].slot
        insert(client, "gaps", [(back, back, ROLLED_BACK, 0, ["w"], "")])
        # Of an earlier process all that is known is a range; of other slots not if they are final.
        insert(client, "gaps", [(back - 1, back + 1, ROLLED_BACK, 0, [], "")])
        unsure = batches[70].slot, batches[79].slot
        insert(client, "gaps", [(*unsure, NOT_KNOWN, 0, [], "")])
        insert(client, "gaps", [(unsure[1] - 1, unsure[1] + 1, "test", 0, [], "")])
        insert(
            client,
            "gaps",
            [(lost, lost + 1, because([LOG_LACKS]), 0, [], f"pnl {n}") for n in (1, 2)],
        )
        assert client.command("SELECT count() > uniqExact(signature, event_index) FROM swaps")
    return batches, events, as_reader(settings)


@pytest.fixture
def reader(tape):
    with connect(tape[2]) as client:
        yield client


def swaps_of(tape):
    return [event for event in tape[1] if isinstance(event, Swap)]


def identities(rows):
    return sorted((signature, index) for signature, index, *_ in rows)


def ask(reader, name, **values):
    found = queries()[name]
    answer = reader.query(found.sql, found.values([f"{n}={v}" for n, v in values.items()]))
    return [dict(zip(answer.column_names, row, strict=True)) for row in answer.result_rows]


def usd(swap):
    return (swap.usd_value_micros or 0) / 1e6


def hour_of(time_ms):
    return datetime.fromtimestamp(time_ms // 3_600_000 * 3600, UTC)


def test_trades_are_the_swaps_in_human_units(tape, reader):
    swaps = {(s.signature, s.event_index): s for s in swaps_of(tape)}
    rows = reader.query("SELECT * FROM trades").named_results()
    found = {(row["signature"], row["event_index"]): row for row in rows}
    assert len(found) == len(swaps) > 5_000
    assert found.keys() == swaps.keys()
    assert reader.command("SELECT count() FROM trades") == len(swaps)
    created = {e.mint: e.platform for e in tape[1] if isinstance(e, Creation) and e.platform}
    in_pools = 0
    for identity, swap in swaps.items():
        row = found[identity]
        for name in ("slot", "tx_index", "wallet", "mint", "quote_mint", "dex", "pool", "router",
                     "fee_payer", "keeper"):  # fmt: skip
            assert row[name] == getattr(swap, name), name
        launchpad = created.get(swap.mint, swap.platform)
        assert row["platform"] == launchpad
        in_pools += bool(launchpad) and not swap.platform
        assert row["side"] == swap.side.name.lower()
        assert row["block_time"] == datetime.fromtimestamp(swap.block_time_ms / 1000, UTC)
        human = 10**swap.decimals, 10**swap.quote_decimals
        for name, value in {
            "amount": swap.amount_raw / human[0],
            "quote_amount": swap.quote_amount_raw / human[1],
            "wallet_amount": swap.wallet_amount_raw / human[0],
            "wallet_quote_amount": swap.wallet_quote_amount_raw / human[1],
            "price": swap.price if swap.amount_raw else None,
            "sol_value": None if swap.sol_value_lamports is None else swap.sol_value_lamports / 1e9,
            "usd_value": None if swap.usd_value_micros is None else swap.usd_value_micros / 1e6,
            "fee_sol": swap.fee_lamports / 1e9,
            "priority_fee_sol": swap.priority_fee_lamports / 1e9,
            "tip_sol": swap.tip_lamports / 1e9,
        }.items():
            assert row[name] == (None if value is None else pytest.approx(value)), name
    assert in_pools > 30, "a token keeps its launch platform behind its curve"


def test_the_raw_columns_turn_back_into_what_was_traded(tape, reader):
    names = ("amount_raw", "quote_amount_raw", "wallet_amount_raw", "wallet_quote_amount_raw",
             "sol_value_lamports", "usd_value_micros", "pool_fee_raw", "fee_lamports", "fee_payer",
             "reserve_raw", "quote_reserve_raw", "liquidity", "sqrt_price_x64")  # fmt: skip
    rows = reader.query(f"SELECT signature, event_index, {', '.join(names)} FROM swaps FINAL")
    swaps = {(s.signature, s.event_index): s for s in swaps_of(tape)}
    for signature, index, *values in rows.result_rows:
        swap = swaps[signature, index]
        assert values == [getattr(swap, name) for name in names]


def test_by_wallet_and_by_time_the_trades_are_the_same(tape, reader):
    swaps = swaps_of(tape)
    wallets = Counter(swap.wallet for swap in swaps)
    for wallet, count in (wallets.most_common(1)[0], wallets.most_common()[-1]):
        rows = reader.query(
            "SELECT signature, event_index FROM wallet_trades(wallet = {wallet:String})",
            parameters={"wallet": wallet},
        ).result_rows
        assert len(rows) == count
        assert identities(rows) == identities(
            (s.signature, s.event_index) for s in swaps if s.wallet == wallet
        )
    times = sorted({swap.block_time_ms for swap in swaps})
    start, end = times[10], times[14]
    rows = reader.query(
        "SELECT signature, event_index FROM trades_between("
        f"start = '{datetime.fromtimestamp(start / 1000, UTC):%F %T}', "
        f"end = '{datetime.fromtimestamp(end / 1000, UTC):%F %T}')"
    ).result_rows
    assert identities(rows) == identities(
        (s.signature, s.event_index) for s in swaps if start <= s.block_time_ms < end
    )


def test_days_of_tokens(tape, reader):
    days = defaultdict(list)
    for swap in swaps_of(tape):
        days[swap.mint, datetime.fromtimestamp(swap.block_time_ms / 1000, UTC).date()].append(swap)
    rows = list(reader.query("SELECT * FROM token_daily").named_results())
    assert {(row["mint"], row["day"]) for row in rows} == days.keys()
    for row in rows:
        swaps = days[row["mint"], row["day"]]
        assert row["trades"] == len(swaps)
        assert row["buys"] == sum(swap.side is Side.BUY for swap in swaps)
        assert row["traders"] == len({swap.wallet for swap in swaps})
        assert row["volume_usd"] == pytest.approx(sum(map(usd, swaps)))
        assert row["volume_sol"] == pytest.approx(
            sum(s.sol_value_lamports or 0 for s in swaps) / 1e9
        )


def test_launches(tape, reader):
    creations = [event for event in tape[1] if isinstance(event, Creation)]
    moved = {event.mint: event for event in tape[1] if isinstance(event, Migration)}
    rows = {row["mint"]: row for row in reader.query("SELECT * FROM launches").named_results()}
    assert len(creations) == len(rows) == reader.command("SELECT count() FROM launches") > 10
    assert any(creation.mint in moved for creation in creations)
    for creation in creations:
        row = rows[creation.mint]
        assert (row["symbol"], row["creator"], row["platform"]) == (
            *(creation.symbol, creation.creator, creation.platform),
        )
        if migration := moved.get(creation.mint):
            assert row["migrated_dex"] == migration.dex
            waited_ms = migration.block_time_ms - creation.block_time_ms
            assert row["seconds_to_migration"] == pytest.approx(waited_ms / 1000)
        else:
            assert row["migrated_at"] is None
            assert row["seconds_to_migration"] is None


def test_tokens_known_are_the_chains_then_what_rpc_said(empty):
    writer, reader = empty
    seen = {"mint": "seen", "name": "Seen", "symbol": "SEEN", "decimals": 6, "supply_raw": 10,
            "creator": "c", "platform": "pump", "dex": "pump-fun", "token_program": "spl",
            "created_at": datetime(2026, 1, 2, tzinfo=UTC), "slot": 7}  # fmt: skip
    half = {"mint": "half", "migrated_at": datetime(2026, 1, 3, tzinfo=UTC),
            "migrated_dex": "pump-swap", "slot": 8}  # fmt: skip
    asked = {"name": "Asked", "symbol": "ASKED", "decimals": 9, "supply_raw": 20,
             "token_program": "2022"}  # fmt: skip
    for token in (seen, half):
        writer.insert("tokens", [list(token.values())], list(token))
    for mint in ("seen", "half", "asked"):
        writer.insert("token_metadata", [[mint, *asked.values()]], ["mint", *asked])
    answer = reader.query("SELECT * FROM tokens_known").named_results()
    found = {row["mint"]: row for row in answer}
    nothing = {"uri": "", "creator": "", "platform": "", "dex": "", "created_at": None,
               "migrated_at": None, "migrated_dex": ""}  # fmt: skip
    del seen["slot"], half["slot"]
    assert found == {
        "seen": nothing | seen,
        "half": nothing | asked | half,
        "asked": nothing | asked | {"mint": "asked"},
    }


def test_query_hourly_volume(tape, reader):
    wanted: Any = defaultdict(lambda: [0, 0.0, set()])
    for swap in swaps_of(tape):
        entry = wanted[hour_of(swap.block_time_ms), swap.dex]
        entry[0] += 1
        entry[1] += usd(swap)
        entry[2].add(swap.wallet)
    rows = ask(reader, "hourly-volume")
    assert len({row["hour"] for row in rows}) == 2  # the market runs over a full hour
    found = {(row["hour"].replace(tzinfo=UTC), row["dex"]): row for row in rows}
    assert found.keys() == wanted.keys()
    for key, (trades, volume, wallets) in wanted.items():
        assert found[key]["trades"] == trades
        assert found[key]["volume_usd"] == pytest.approx(volume, abs=0.01)
        assert found[key]["wallets"] == pytest.approx(len(wallets), rel=0.05)
        total = sum(v for (hour, _), (_, v, _) in wanted.items() if hour == key[0])
        assert found[key]["share_pct"] == pytest.approx(100 * volume / total, abs=0.01)
    latest = max(row["hour"] for row in rows)
    assert {row["hour"] for row in ask(reader, "hourly-volume", hours=0)} == {latest}


def test_nothing_is_a_share_of_an_hour_without_volume(empty):
    writer, reader = empty
    insert(writer, "swaps", [
        leg(1, "w", "buy", 1, 1, 0, dex="dust"),
        leg(2, "w", "buy", 1, 1, None, dex="unknown"),
    ])  # fmt: skip
    insert(writer, "slots", [(100, None, "", 1_785_500_000_000, 0, 0, 0, 0, True, None)])
    rows = ask(reader, "hourly-volume")
    assert {row["dex"]: (row["volume_usd"], row["share_pct"]) for row in rows} == {
        "dust": (0, None), "unknown": (None, None),
    }  # fmt: skip


def test_query_launchpad_survival(tape, reader):
    batches, events, _ = tape
    now_ms = max(batch.block_time_ms for batch in batches)
    last_trade = {}
    for swap in swaps_of(tape):
        last_trade[swap.mint] = max(last_trade.get(swap.mint, 0), swap.block_time_ms)
    moved = {event.mint for event in events if isinstance(event, Migration)}
    wanted = defaultdict(lambda: [0, 0, 0, 0])
    for event in events:
        if isinstance(event, Creation) and event.platform:
            entry = wanted[event.platform]
            entry[0] += 1
            entry[1] += event.mint in moved
            if event.block_time_ms <= now_ms - 30_000:
                entry[2] += 1
                entry[3] += last_trade.get(event.mint, 0) >= event.block_time_ms + 30_000
    rows = ask(reader, "launchpad-survival", alive_s=30)
    assert {
        row["platform"]: [row["launches"], row["migrated"], row["old_enough"], row["alive"]]
        for row in rows
    } == dict(wanted)
    assert sum(row["alive"] for row in rows) > 0
    assert sum(row["alive"] for row in rows) < sum(row["old_enough"] for row in rows)


def test_what_retention_deleted_is_not_counted_as_not_traded(empty):
    writer, reader = empty
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    kept_ms, cut_ms = now_ms - 2 * DAY_MS, now_ms - 95 * DAY_MS

    def slot(number, time_ms):
        insert(writer, "slots", [(number, None, "", time_ms, 0, 0, 0, 0, True, None)])

    assert kept_from(reader) is None
    slot(1, now_ms - 100 * DAY_MS)
    slot(9, now_ms)
    assert kept_from(reader) == now_ms - 100 * DAY_MS
    for mint, time_ms in (("old", cut_ms), ("new", kept_ms)):
        words = dict.fromkeys(TABLES["creations"].columns, "") | {
            "slot": 2, "tx_index": 1, "event_index": 1, "block_time": time_ms, "mint": mint,
            "platform": "pump-fun", "decimals": None, "supply_raw": None,
        }  # fmt: skip
        insert(writer, "creations", [tuple(words.values())])
    # Both were traded after an hour; of the old one that alone is gone.
    insert(writer, "swaps", [
        leg(1, "w", "buy", 1, 1, 1, slot=2, mint="old", block_time=cut_ms),
        leg(1, "w", "buy", 1, 1, 1, slot=3, mint="new", block_time=kept_ms + HOUR_MS),
    ])  # fmt: skip
    by = {"days": 100, "alive_s": 60}
    (row,) = ask(reader, "launchpad-survival", **by)
    assert (row["launches"], row["old_enough"], row["alive"]) == (2, 2, 1)  # the database is new
    made = now_ms / 1000 - 91 * 86_400
    writer.command(f"INSERT INTO schema_migrations (number, applied_at) VALUES (1, {made})")
    assert kept_from(reader) == pytest.approx(now_ms - 90 * DAY_MS, abs=DAY_MS / 2)
    (row,) = ask(reader, "launchpad-survival", **by)
    assert (row["launches"], row["old_enough"], row["alive"]) == (2, 1, 1)
    hours = ask(reader, "hourly-volume", hours=100 * 24)
    assert [row["all_kept"] for row in hours] == [True, False]
    # A shorter setting removed what the present one would keep.
    writer.command("ALTER TABLE swaps DELETE WHERE mint = 'old' SETTINGS mutations_sync = 1")
    writer.command("ALTER TABLE swaps REMOVE TTL")
    assert kept_from(reader) == kept_ms + HOUR_MS


def kept_from(reader):
    """What swaps_kept says, in milliseconds."""
    (row,) = reader.query("SELECT * FROM swaps_kept").named_results()
    at = row["kept_from"]
    return at and round(at.timestamp() * 1000)


def test_query_slot_completeness(tape, reader):
    batches = tape[0]
    by_hour = defaultdict(list)
    for batch in batches:
        by_hour[hour_of(batch.block_time_ms)].append(batch)
    rows = {row["hour"].replace(tzinfo=UTC): row for row in ask(reader, "slot-completeness")}
    assert rows.keys() == by_hour.keys()
    first, last = sorted(by_hour)
    assert rows[first]["first_slot"] == batches[0].slot
    assert rows[first]["last_slot"] == by_hour[last][0].slot - 1
    assert rows[last]["last_slot"] == batches[-1].slot
    with connect(tape[2]) as client:
        gaps = client.query("SELECT first_slot, last_slot, reason, lost_by FROM gaps").result_rows
    gone: dict[bool, set[int]] = {True: set(), False: set()}  # by whether they were rolled back
    for first_slot, last_slot, reason, lost_by in gaps:
        if not lost_by:
            gone[reason == ROLLED_BACK].update(range(first_slot, last_slot + 1))
    for hour, there in by_hour.items():
        row = rows[hour]
        slots = {*range(row["first_slot"], row["last_slot"] + 1)}
        with_block = {batch.slot for batch in there}
        is_first = hour == first  # where the broken slots are
        missing = (gone[False] & slots) - with_block
        assert bool(missing) == bool(gone[False] & with_block) == is_first
        assert row["blocks"] == len(with_block)
        assert (row["incomplete"], row["missing"]) == (is_first, len(missing))
        assert row["without_block"] == len(slots - with_block - missing)
        assert (row["rolled_back"], row["lost"]) == (3 * is_first, 4 * is_first)
        doubtful = (gone[True] | gone[False]) & slots
        assert row["complete_pct"] == pytest.approx(100 - 100 * len(doubtful) / len(slots))
        assert row["transactions"] == sum(batch.transactions for batch in there)
        assert row["unknown"] == len(there)


# Sandwiches and gains are written by hand: the market's wallets are honest.

SWAP = dict.fromkeys(TABLES["swaps"].columns, 0) | {
    **dict.fromkeys(("dex", "program_id", "other_fee_payer", "pool_fee_mint"), ""),
    **dict.fromkeys(("router", "platform", "keeper"), ""),
    **dict.fromkeys(("pool_fee_raw", "reserve_raw", "quote_reserve_raw", "liquidity"), None),
    "sqrt_price_x64": None, "sol_value_unlike_quote_lamports": None, "pool": "P", "mint": "M",
    "quote_mint": "Q", "decimals": 6, "quote_decimals": 9, "block_time": 1_785_500_000_000,
}  # fmt: skip


@pytest.fixture
def empty(embedded, request):
    """A database of the test's own: clients of writer and reader."""
    settings = Settings(_env_file=None, clickhouse_url=embedded.url,
                        clickhouse_database=request.node.name[:40])  # fmt: skip
    migrate(settings)
    with connect(settings) as writer, connect(as_reader(settings)) as reader:
        yield writer, reader


def leg(tx_index, wallet, side, amount, quote, micros, slot=100, **more):
    return tuple((SWAP | {
        "signature": f"{slot}-{tx_index}", "slot": slot, "tx_index": tx_index, "wallet": wallet,
        "side": side, "amount_raw": amount, "quote_amount_raw": quote, "usd_value_micros": micros,
        **more,
    }).values())  # fmt: skip


def test_query_sandwich_victims(empty):
    writer, reader = empty
    rows = [
        # A buyer is sandwiched: 1.0 quote a token before it, 1.25 for the victim.
        leg(1, "bot", "buy", 1000, 1000, 10_000_000),
        leg(2, "victim", "buy", 800, 1000, 10_000_000),
        leg(3, "bot", "sell", 1000, 1200, 12_000_000),
        leg(4, "later", "buy", 1000, 1000, 10_000_000),
        # A seller is: 2.0 a token before it, 1.5 for the victim.
        leg(1, "bot", "sell", 1000, 2000, 20_000_000, slot=101),
        leg(2, "victim", "sell", 1000, 1500, 15_000_000, slot=101),
        leg(3, "bot", "buy", 1050, 1500, 15_000_000, slot=101),
        # None of these is one: other pool, other slot, other way, other amount, own trade.
        leg(1, "a", "buy", 1000, 1000, 1, slot=102),
        leg(2, "b", "buy", 1000, 1100, 1, slot=102, pool="P2"),
        leg(3, "a", "sell", 1000, 1200, 1, slot=102),
        leg(1, "a", "buy", 1000, 1000, 1, slot=103),
        leg(2, "b", "sell", 1000, 1100, 1, slot=103),
        leg(3, "a", "sell", 1000, 1200, 1, slot=103),
        leg(1, "a", "buy", 1000, 1000, 1, slot=104),
        leg(2, "b", "buy", 1000, 1100, 1, slot=104),
        leg(3, "a", "sell", 500, 600, 1, slot=104),
        leg(1, "a", "buy", 1000, 1000, 1, slot=105),
        leg(2, "a", "buy", 1000, 1100, 1, slot=105),
        leg(3, "a", "sell", 1000, 1200, 1, slot=105),
    ]
    for _ in range(2):
        insert(writer, "swaps", rows)
    slot = (100, None, "", 1_785_500_000_000, 0, 0, 0, 0, True, None)
    insert(writer, "slots", [slot])
    found = list(reader.query("SELECT * FROM sandwiches ORDER BY slot").named_results())
    assert [(row["victim"], row["attacker"], row["side"]) for row in found] == [
        ("victim", "bot", "buy"), ("victim", "bot", "sell"),
    ]  # fmt: skip
    assert [row["attacker_gain_usd"] for row in found] == [2.0, 5.0]
    assert found[0]["victim_loss_usd"] == pytest.approx(10 * (1 - 1 / 1.25))
    assert found[1]["victim_loss_usd"] == pytest.approx(15 * (2 / 1.5 - 1))
    assert [row["back_signature"] for row in found] == ["100-3", "101-3"]
    assert ask(reader, "sandwich-victims") == [
        {"victim": "victim", "times": 2, "attackers": 1, "tokens": 1, "traded_usd": 25.0,
         "lost_usd_at_least": 7.0},
    ]  # fmt: skip


def test_sandwiches_in_a_pool_of_many_trades(empty):
    writer, reader = empty
    chance = Random(7)
    rows = [
        leg(
            tx_index // 2, f"wallet {chance.randrange(60)}", chance.choice(("buy", "sell")),
            chance.randrange(1000, 1300), 1000, 1, event_index=tx_index % 2,
        )
        for tx_index in range(400)
    ]  # fmt: skip
    insert(writer, "swaps", rows)
    legs = [dict(zip(TABLES["swaps"].columns, row, strict=True)) for row in rows]
    assert sorted(
        (row["victim_signature"], row["front_signature"], row["back_signature"])
        for row in reader.query("SELECT * FROM sandwiches").named_results()
    ) == sorted(filter(None, map(partial(sandwich, legs), range(len(legs)))))


def sandwich(legs, at):
    """The signatures of a trade and of those nearest around it, if it was sandwiched."""
    victim = legs[at]
    for front in reversed(legs[:at]):
        if front["side"] != victim["side"] or front["wallet"] == victim["wallet"]:
            continue
        for back in legs[at + 1 :]:
            if (
                (front["wallet"], front["side"]) == (back["wallet"], OTHER_SIDE[back["side"]])
                and len({each["signature"] for each in (front, victim, back)}) == 3
                and abs(back["amount_raw"] - front["amount_raw"]) <= 0.1 * front["amount_raw"]
            ):
                return victim["signature"], front["signature"], back["signature"]
    return None


OTHER_SIDE = {"buy": "sell", "sell": "buy"}


def position(wallet, day, realized_micros, sells, mint="M", slot=1):
    zeros = {
        name: [] if kind.startswith("Array") else 0
        for name, kind in TABLES["positions"].columns.items()
    }
    gain = "matched_proceeds" if realized_micros > 0 else "matched_cost"
    return tuple((zeros | {
        "wallet": wallet, "mint": mint, "day": day, "sells": sells, "slot": slot,
        f"{gain}_usd_micros_low": abs(realized_micros),
        f"{gain}_lamports_low": abs(realized_micros) * 6, "last_trade_slot": slot,
        "last_trade_time": 1_785_500_000_000,
    }).values())  # fmt: skip


def test_query_top_wallets(empty):
    writer, reader = empty
    today, old = datetime(2026, 7, 31).date(), datetime(2026, 7, 20).date()
    for _ in range(2):
        insert(writer, "positions", [
            position("steady", old, 5_000_000, 3, slot=1),
            position("steady", today, 7_500_000, 4, slot=2),
            position("was-rich", old, 900_000_000, 9, slot=1),
            position("loser", today, -1_000_000, 1, slot=3),
            position("first", today, 4_000_000, 1, slot=3),
            position("other-token", today, 99_000_000, 1, mint="N", slot=3),
        ])  # fmt: skip
        insert(writer, "slots", [(100, None, "", 1_785_500_000_000, 0, 0, 0, 0, True, None)])
    rows = ask(reader, "top-wallets", mint="M")
    assert [(row["wallet"], row["realized_usd"], row["sold_times"]) for row in rows] == [
        ("first", 4.0, 1), ("steady", 2.5, 1), ("loser", -1.0, 1),
    ]  # fmt: skip
    assert rows[0]["realized_sol"] == pytest.approx(0.024)
    ever = ask(reader, "top-wallets", mint="M", days=36_500)  # more than there are since 1970
    assert [(row["wallet"], row["realized_usd"]) for row in ever][:2] == [
        ("was-rich", 900.0), ("steady", 7.5),
    ]  # fmt: skip
    board = reader.query("SELECT rank, wallet, realized_usd FROM leaderboard WHERE mint = 'M'")
    assert sorted(board.result_rows) == [
        (1, "was-rich", 900.0), (2, "steady", 7.5), (3, "first", 4.0), (4, "loser", -1.0),
    ]  # fmt: skip
    now = reader.query("SELECT mint, realized_usd FROM wallet_positions WHERE wallet = 'steady'")
    assert now.result_rows == [("M", 7.5)]


def test_all_worked_queries_are_tested_here():
    here = Path(__file__).read_text()
    assert all(f'ask(reader, "{name}"' in here for name in queries())
    assert len(queries()) == 5


def test_the_command_asks_as_the_reader(tape, monkeypatch):
    settings = tape[2]
    monkeypatch.setenv("CLICKHOUSE_URL", settings.clickhouse_url)
    monkeypatch.setenv("CLICKHOUSE_DATABASE", settings.clickhouse_database)

    def run(*arguments):
        return CliRunner().invoke(query, arguments)

    asked = run("slot-completeness", "hours=0", "--format", "JSONEachRow")
    assert asked.exit_code == 0
    assert '"complete_pct":' in asked.stdout
    assert run("hourly-volume").stdout.startswith("hour\tdex\t")
    assert run("top-wallets", "--sql").stdout.startswith("-- Who made most")
    listed = run().stdout
    assert all(name in listed for name in queries())
    for arguments, text in {
        ("nothing",): "no query is called 'nothing'; there are: hourly-volume",
        ("top-wallets",): "top-wallets needs mint=...",
        ("hourly-volume", "days=1"): "hourly-volume takes hours=...",
        ("hourly-volume", "hours=many"): "Error: ",
        ("hourly-volume", "--format", "Nonsense"): "Error: ",
    }.items():
        refused = run(*arguments)
        assert refused.exit_code != 0
        assert text in refused.output
        assert "Traceback" not in refused.output
