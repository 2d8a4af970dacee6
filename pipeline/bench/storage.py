"""`soltape bench storage`: what a swap takes in ClickHouse, and how fast it is found again."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import click
from clickhouse_connect.driver.client import Client

from infra.bench import median, progress, report
from infra.bench.roles import BenchFailed, role, wait_ready
from infra.bench.stores import embedded_stores
from infra.chain.market import Knobs, Market
from infra.chain.source import SlotCompleted, SlotTransactions
from infra.clickhouse import embedded
from infra.clickhouse.client import connect
from infra.clickhouse.migrations import migrate
from infra.local.process import free_port
from infra.settings import Settings, load_own
from pipeline.agents.store import TapeBooks
from pipeline.bench import (
    storage_accounts,
    storage_dictionaries,
    storage_tokens,
    storage_wallets,
)
from pipeline.decoding.reading import decode_update
from pipeline.domain.launchpad import Launchpad
from pipeline.domain.quote_book import QuoteBook
from pipeline.domain.value import SolUsd, value_swaps
from pipeline.ingest.reference import sol_usd
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.codec import add_event
from schemas.events import Event, Swap
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import SlotBatch

# Many more wallets than `soltape up` simulates: few trades a wallet are the hard case for the order
# by wallet, and what a day of the chain is like.
SWAPS_PER_WALLET: Final = 20
RATE: Final = 1_000.0
INSERT_ROWS: Final = 20_000
REPEATS: Final = 7

# What is asked for in each order; the answers are read whole.
_QUERIES: Final = {
    "by_mint_last_100": "SELECT * FROM trades WHERE mint = {mint:String}"
    " ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC LIMIT 100",
    "by_mint_hourly": "SELECT toStartOfHour(block_time) AS hour, count(), sum(usd_value)"
    " FROM trades WHERE mint = {mint:String} GROUP BY hour",
    "by_wallet": "SELECT * FROM wallet_trades(wallet = {wallet:String})",
    "by_time_10_s": "SELECT * FROM trades_between(start = {start:DateTime64(3)},"
    " end = {end:DateTime64(3)})",
    "all_by_venue": "SELECT dex, count(), sum(usd_value) FROM trades GROUP BY dex",
}


def slots(wallets: int) -> Iterator[SlotBatch]:
    """Yield slots of a simulated market, decoded and valued as ingest does it; never ends."""
    market = Market(Knobs(seed=1, forks=0, wallets=wallets, rate=RATE))
    price: Decimal | None = None
    book = QuoteBook()
    transactions: list[list[Event]] = []
    found: list[tuple[bytes, int]] = []
    for _, event in market.stream():
        if isinstance(event, SlotTransactions):
            found += [(tx.info, event.slot) for tx in event.transactions if not tx.is_vote]
        elif isinstance(event, SlotCompleted):
            time_ms = (event.header.block_time or 0) * 1_000
            transactions = [
                decode_update(SubscribeUpdateTransactionInfo.FromString(info), slot, time_ms).events
                for info, slot in found
            ]
            found = []
            price = sol_usd(price, (each for events in transactions for each in events))
            batch = SlotBatch(slot=event.header.slot, block_time_ms=time_ms, complete=True)
            ratio = SolUsd.of(price)
            for events in transactions:
                value_swaps([each for each in events if isinstance(each, Swap)], ratio, book.prices)
                for each in events:
                    add_event(batch.events, each)
            book.apply(each for events in transactions for each in events if isinstance(each, Swap))
            yield batch


async def nothing_before(mints: list[str], before_slot: int) -> dict[str, Launchpad]:
    """Return what the slots before the first name of the mints: the tables are new."""
    return {}


async def fill(settings: Settings, swaps: int) -> tuple[int, Counter[str], Counter[str]]:
    """Insert that many swaps or a few more; return how many, by mint and by wallet."""
    sink = ClickHouseSink(settings)
    books = TapeBooks(0, nothing_before)
    mints: Counter[str] = Counter()
    wallets: Counter[str] = Counter()
    written = 0
    waiting = 0
    for batch in slots(max(swaps // SWAPS_PER_WALLET, 10)):
        await books.load([batch])
        books.apply(batch)
        for event in batch.events:
            if event.HasField("swap"):
                waiting += 1
                mints[event.swap.mint] += 1
                wallets[event.swap.wallet] += 1
        if waiting >= INSERT_ROWS or written + waiting >= swaps:
            for table, rows in books.take().rows.items():
                await sink.insert(table, rows, f"bench/{batch.slot}")
            written += waiting
            waiting = 0
            progress(f"{written:,} of {swaps:,} swaps")
        if written >= swaps:
            break
    await sink.close()
    return written, mints, wallets


def sizes(client: Client, swaps: int) -> dict[str, Any]:
    """Merge the parts, and return the bytes a swap of the table, its orders and its columns."""
    client.command("OPTIMIZE TABLE swaps FINAL")
    rows, whole = client.query(
        "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts "
        "WHERE database = currentDatabase() AND table = 'swaps' AND active"
    ).result_rows[0]
    assert rows == swaps, f"{rows} rows after merging, {swaps} swaps written"
    projections = client.query(
        "SELECT name, sum(bytes_on_disk) FROM system.projection_parts "
        "WHERE database = currentDatabase() AND table = 'swaps' AND active GROUP BY name"
    ).result_rows
    orders: dict[str, int] = {str(name): size for name, size in projections}
    columns = client.query(
        "SELECT column, sum(column_data_compressed_bytes), sum(column_data_uncompressed_bytes) "
        "FROM system.parts_columns "
        "WHERE database = currentDatabase() AND table = 'swaps' AND active GROUP BY column"
    ).result_rows
    return {
        "all": round(whole / rows, 1),
        "table": round((whole - sum(orders.values())) / rows, 1),
        **{name: round(size / rows, 1) for name, size in sorted(orders.items())},
        "columns": {
            name: [round(packed / rows, 2), round(plain / rows, 2)]
            for name, packed, plain in sorted(columns, key=lambda column: -column[1])
        },
    }


def times_ms(client: Client, mint: str, wallet: str) -> dict[str, float]:
    """Return the median time of each query, from asking to the last row."""
    first, last = client.query("SELECT min(block_time), max(block_time) FROM swaps").result_rows[0]
    start = first + (last - first) / 2
    end = start + timedelta(seconds=10)
    parameters = {"mint": mint, "wallet": wallet, "start": start, "end": end}
    figures = {}
    for name, sql in _QUERIES.items():
        taken = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            client.query(sql, parameters=parameters)
            taken.append((time.perf_counter() - begun) * 1_000)
        figures[name] = round(median(taken), 1)
    return figures


def _wallets(wallets: int, days: int) -> None:
    """Measure what wallets leave in Redis."""
    with embedded_stores() as settings:
        held, families = storage_wallets.measure(settings, wallets, days)
    if held.is_flat is None:
        progress(f"{days} days are too few to say whether Redis stays flat")
    report(
        "storage",
        round(held.bytes_a_wallet, 1),
        "Redis bytes/wallet at rest",
        **held.figures(),
        families={
            pattern: {"keys": family.keys, "entries": family.entries, "bytes": family.bytes}
            for pattern, family in sorted(families.items(), key=lambda item: -item[1].bytes)
        },
    )
    if broken := held.broken():
        raise BenchFailed("; ".join(broken))


def _tokens(tokens: int, days: int) -> None:
    """Measure what tokens leave in Redis."""
    with embedded_stores() as settings:
        figures = storage_tokens.measure(settings, tokens, days)
    value = figures.pop("bytes_per_token_at_rest")
    report("storage", value, "Redis bytes/token at rest", **figures)


def _accounts(accounts: int, *, dictionary: bool, dumps: Path | None) -> None:
    """Measure what accounts of the chain take in Redis."""
    with embedded_stores() as settings:
        figures = storage_accounts.measure(settings, accounts)
    if dictionary or dumps is not None:
        figures["frames"] = storage_dictionaries.measure(dumps)
    report("storage", figures.pop("gb_a_million"), "Redis GB/million accounts", **figures)


@click.command()
@click.option("--quick", is_flag=True, help="100,000 swaps: rougher figures within a minute.")
@click.option("--swaps", type=click.IntRange(1_000), help="How many.  [default: 1000000]")
@click.option(
    "--wallets",
    "seen",
    type=click.IntRange(1_000),
    help="Instead of swaps in ClickHouse: what so many wallets leave in Redis.",
)
@click.option(
    "--tokens",
    "launched",
    type=click.IntRange(1_000),
    help="Instead of swaps in ClickHouse: what so many tokens leave in Redis.",
)
@click.option(
    "--accounts",
    type=click.IntRange(1_000),
    help="Instead of swaps in ClickHouse: what so many accounts take in Redis, by kind.",
)
@click.option(
    "--dictionary",
    is_flag=True,
    help="With --accounts: also what a zstd dictionary of each kind would save.",
)
@click.option(
    "--dumps",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="With --dictionary: of these accounts as well, JSON files as getAccountInfo answers.",
)
@click.option("--days", type=click.IntRange(1), default=30, help="Of chain time.  [default: 30]")
def storage(
    quick: bool,
    swaps: int | None,
    seen: int | None,
    launched: int | None,
    accounts: int | None,
    dictionary: bool,
    dumps: Path | None,
    days: int,
) -> None:
    """Measure storage: bytes a swap takes in ClickHouse, merged, and queries in every order.

    With `--wallets` or `--tokens` it measures Redis instead: what those that were seen leave there,
    day by day, when all of them are at rest. `--wallets` fails where Redis keeps growing after the
    hot window, or where a wallet at rest leaves more than 60 bytes; the line has `flat` and
    `bytes_a_wallet`. With `--accounts`: what each kind of account takes, and with `--dictionary`
    what its frames would take with a dictionary trained on others of it.

    Swaps of a simulated market, some twenty a wallet, are written to an embedded ClickHouse as the
    agents do it. `columns` has the bytes a swap of each column, compressed and plain.
    """
    if seen is not None:
        _wallets(seen, days)
        return
    if launched is not None:
        _tokens(launched, days)
        return
    if accounts is None and (dictionary or dumps is not None):
        raise click.UsageError("--dictionary and --dumps go with --accounts")
    if accounts is not None:
        _accounts(accounts, dictionary=dictionary, dumps=dumps)
        return
    wanted = swaps or (100_000 if quick else 1_000_000)
    with tempfile.TemporaryDirectory(prefix="soltape-") as name:
        folder = Path(name)
        port = free_port()
        server = embedded.server(folder / "data", port)
        arguments = ["clickhouse", "--port", str(port), "--data", str(folder / "data")]
        url = f"http://{embedded.HOST}:{port}"
        with role("clickhouse", folder, arguments, CLICKHOUSE_PASSWORD="") as running:
            wait_ready(running, server.ready)
            settings = load_own(clickhouse_url=url)
            migrate(settings)
            begun = time.perf_counter()
            written, mints, wallets = asyncio.run(fill(settings, wanted))
            filled_s = time.perf_counter() - begun
            progress("merging ...")
            with connect(settings) as client:
                figures = sizes(client, written)
                progress("asking ...")
                # The busiest mint, and a wallet that trades now and then.
                mint = mints.most_common(1)[0][0]
                wallet = wallets.most_common(len(wallets) // 10)[-1][0]
                times = times_ms(client, mint, wallet)
    report(
        "storage",
        figures.pop("all"),
        "bytes/swap",
        bytes_per_swap=figures,
        queries_ms=times,
        counts={
            "swaps": written,
            "mints": len(mints),
            "wallets": len(wallets),
            "swaps_of_mint": mints[mint],
            "swaps_of_wallet": wallets[wallet],
        },
        filled_s=round(filled_s, 1),
        runs=REPEATS,
    )
