"""What a page of swaps costs: as much of a million as of a thousand.

Rows are read by granules of 8,192, at least one of each part that has some of what was asked for:
so the bounds count parts and granules, and not swaps.
"""

from __future__ import annotations

from random import Random

import pytest

from infra.clickhouse.client import connect
from infra.clickhouse.reader import as_reader
from infra.clickhouse.sql import load
from schemas.solana.base58 import encode

DAY_MS = 86_400_000
NOW_MS = 1_785_499_140_000
MIDDLE_MS = NOW_MS - DAY_MS // 6
NOW_SLOT = 400_000_000
GRANULE = 8_192
SWAPS = 1_500_000
PARTS = 5

_random = Random("rows read")
BUSY, QUIET, SEEN = (encode(_random.randbytes(32)) for _ in range(3))  # tokens
QUOTE = encode(_random.randbytes(32))  # of every swap here, and of no other test's
BOT, PERSON = (encode(_random.randbytes(32)) for _ in range(2))  # wallets

# Two thirds of the swaps are of one token, a fifth of one wallet; a thousand of another token and
# of another wallet; the rest of many, whose names begin with every letter.
FILL = """
INSERT INTO swaps (signature, slot, tx_index, event_index, block_time, wallet, mint, quote_mint,
                   side, amount_raw, decimals, quote_amount_raw, quote_decimals)
SELECT * EXCEPT ago_ms FROM (SELECT
    toString(number) AS signature,
    {slot:UInt64} - {swaps:UInt64} + number AS slot,
    1 AS tx_index,
    2 AS event_index,
    intDiv(({swaps:UInt64} - number) * {length_ms:UInt64}, {swaps:UInt64}) AS ago_ms,
    fromUnixTimestamp64Milli(toInt64({now_ms:UInt64} - ago_ms), 'UTC') AS block_time,
    multiIf(number % 1500 = 7, {person:String}, number % 5 = 0, {bot:String},
            concat(char(49 + number % 70), toString(sipHash64(number) % 50000))) AS wallet,
    multiIf(number % 1500 = 3, {quiet:String}, number % 3 > 0, {busy:String},
            concat(char(49 + number % 73), toString(sipHash64(number, 1) % 10000))) AS mint,
    {quote:String} AS quote_mint,
    'buy' AS side, 1000 AS amount_raw, 6 AS decimals, 2000 AS quote_amount_raw, 9 AS quote_decimals
FROM numbers({first:UInt64}, {count:UInt64}))
"""


@pytest.fixture(scope="module")
def filled(store):
    """A million and a half of swaps within eight hours, in some parts, all of them settled."""
    for mint in (BUSY, QUOTE):
        store.token(mint)
    store.settle(NOW_SLOT, NOW_MS)
    for part in range(PARTS):
        fill(store, part * (SWAPS // PARTS), SWAPS // PARTS)
    with connect(as_reader(store.settings)) as client:
        yield client


def fill(store, first, count, now_ms=NOW_MS):
    """Insert swaps by their numbers: of the eight hours before `now_ms`."""
    store.clickhouse.command(
        FILL,
        {
            "slot": NOW_SLOT,
            "swaps": SWAPS,
            "now_ms": now_ms,
            "length_ms": DAY_MS // 3,
            "person": PERSON,
            "bot": BOT,
            "quiet": QUIET,
            "busy": BUSY,
            "quote": QUOTE,
            "first": first,
            "count": count,
        },
    )


def read(client, name, days=30, limit=101, before_ms=NOW_MS, **keys):
    """The rows of a page's query, and how many it read for them."""
    answer = client.query(
        load("api.history", name),
        {
            "from_ms": NOW_MS - days * DAY_MS,
            **keys,
            "before_ms": before_ms,
            "before_slot": NOW_SLOT + 1,
            "before_tx_index": 0,
            "before_event_index": 0,
            "as_of_slot": NOW_SLOT,
            "limit": limit,
        },
    )
    return len(answer.result_rows), int(answer.summary["read_rows"])


@pytest.mark.slow
def test_a_page_of_a_busy_token_reads_what_one_of_a_quiet_token_reads(filled):
    of = {
        mint: filled.command("SELECT count() FROM swaps WHERE mint = {mint:String}", {"mint": mint})
        for mint in (BUSY, QUIET)
    }
    assert of[BUSY] > 950_000
    assert of[QUIET] == 1_000
    rows, busy = read(filled, "token_swaps", mint=BUSY, wallet="")
    assert rows == 101
    rows, quiet = read(filled, "token_swaps", mint=QUIET, wallet="")
    assert rows == 101
    # One granule of each part, another where a page lies across two, and those of the page itself.
    for rows_read in (busy, quiet):
        assert rows_read <= (2 * PARTS + 4) * GRANULE
    # And so in the middle of the history as at its end.
    rows, middle = read(filled, "token_swaps", mint=BUSY, wallet="", before_ms=MIDDLE_MS)
    assert rows == 101
    assert middle <= (2 * PARTS + 4) * GRANULE


@pytest.mark.slow
def test_a_page_of_the_quote_of_all_swaps_reads_what_its_swaps_lie_in(filled):
    """One mint is the quote of them all: a granule for each swap returned, not every granule."""
    rows, rows_read = read(filled, "token_swaps", mint=QUOTE, wallet="", limit=21)
    assert rows == 21
    assert rows_read <= (2 * PARTS + 21 + 4) * GRANULE
    of = {"mint": QUOTE, "wallet": ""}
    rows, middle = read(filled, "token_swaps", limit=21, before_ms=MIDDLE_MS, **of)
    assert rows == 21
    assert middle <= (2 * PARTS + 21 + 4) * GRANULE


@pytest.mark.slow
async def test_pages_of_a_quote_have_each_swap_once(filled, ask):
    """Over HTTP, whatever their `mint`: each once, newest first, none left out."""
    query = {"limit": 200}
    seen = []
    for _ in range(5):
        answer = await ask.get(f"/api/tokens/{QUOTE}/swaps", **query)
        assert (answer["as_of_slot"], answer["as_of_ms"]) == (NOW_SLOT, NOW_MS)
        assert {swap["quote_mint"] for swap in answer["swaps"]} == {QUOTE}
        seen += [swap["slot"] - NOW_SLOT + SWAPS for swap in answer["swaps"]]
        query["cursor"] = answer["page"]["next_cursor"]
    assert seen == list(range(SWAPS - 1, SWAPS - 1_001, -1))


@pytest.mark.slow
def test_a_page_of_a_bot_reads_what_its_swaps_lie_in(filled):
    """At most a granule for each swap answered, however many the wallet has."""
    for wallet in (BOT, PERSON):
        rows, rows_read = read(filled, "wallet_swaps", wallet=wallet, limit=21)
        assert rows == 21
        # Their moments in the projection of each part, and the granules of the swaps themselves.
        assert rows_read <= (2 * PARTS + 21 + 4) * GRANULE
    rows, few = read(filled, "wallet_swaps", wallet=PERSON, limit=2)
    assert rows == 2
    assert few < rows_read


@pytest.mark.slow
def test_a_day_with_few_swaps_is_not_read_whole_either(store, filled):
    """ClickHouse by itself searches a part by its projections from a million rows on."""
    then_ms = NOW_MS - 60 * DAY_MS  # of no other test's days
    fill(store, 0, 400_000, then_ms)
    window = {"days": 61, "before_ms": then_ms}
    rows, rows_read = read(filled, "wallet_swaps", wallet=PERSON, limit=5, **window)
    assert rows == 5
    assert rows_read <= (2 * 2 + 5 + 4) * GRANULE


@pytest.mark.slow
def test_trades_of_a_wallet_in_a_busy_token_are_found_among_the_others(filled):
    rows, bot = read(filled, "token_swaps", wallet=BOT, mint=BUSY)
    assert rows == 101
    assert bot <= (2 * PARTS + 4) * GRANULE
    # A wallet that is rarely among them costs no more than the token's swaps in that time.
    rows, person = read(filled, "token_swaps", wallet=PERSON, mint=BUSY)
    assert rows == 101
    assert person <= 1_100_000


@pytest.mark.slow
def test_trades_of_a_wallet_in_a_quote_are_found_by_the_wallet(filled):
    """The page's range of time, then its swaps: a granule for each, of the wallet's own."""
    for wallet in (BOT, PERSON):
        answer = filled.query(
            load("api.history", "wallet_page_begin"),
            {
                "wallet": wallet,
                "from_ms": NOW_MS - 30 * DAY_MS,
                "before_ms": NOW_MS,
                "limit": 21,
            },
        )
        [[begin_ms]] = answer.result_rows
        assert int(answer.summary["read_rows"]) <= 2 * PARTS * GRANULE
        of = {"wallet": wallet, "mint": QUOTE, "from_ms": begin_ms}
        rows, rows_read = read(filled, "token_swaps", limit=21, **of)
        assert rows == 21
        # Where they end is looked for in the wallet's swaps, and then they are read.
        assert rows_read <= 2 * (2 * PARTS + 21 + 4) * GRANULE


@pytest.mark.slow
async def test_pages_of_a_busy_token_do_not_get_longer(filled, ask):
    """Over HTTP: thirty pages of a hundred are three thousand swaps, none twice, newest first."""
    query = {"limit": 100}
    seen = []
    for _ in range(30):
        answer = await ask.get(f"/api/tokens/{BUSY}/swaps", **query)
        assert (answer["as_of_slot"], answer["as_of_ms"]) == (NOW_SLOT, NOW_MS)
        assert len(answer["swaps"]) == 100
        seen += [swap["slot"] for swap in answer["swaps"]]
        query["cursor"] = answer["page"]["next_cursor"]
    numbers = [slot - NOW_SLOT + SWAPS for slot in seen]
    expected = [n for n in range(SWAPS - 1, SWAPS - 6_000, -1) if n % 3 and n % 1500 != 3]
    assert numbers == expected[:3_000]
