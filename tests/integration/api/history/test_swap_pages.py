"""Pages of swaps against the swaps written: each once, in order, as in the live streams."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.history.swaps import of_token, of_wallet, of_wallet_and_token
from api.http.cursors import Place
from pipeline.agents.live.agent import set_values
from schemas.channels import swap_event
from schemas.money import WSOL
from schemas.proto.tape_pb2 import Swap
from schemas.redis_keys import mint_tag

DAY_MS = 86_400_000
NOW_MS = 1_785_499_140_000
NOW_SLOT = 400_000_000
ON_LIVE_STREAMS_ONLY = {
    *("virtual_reserve_raw", "virtual_quote_reserve_raw"),
    *("for_sale_raw", "migration_quote_raw", "symbol"),
}


def place(swap):
    return swap.block_time_ms, swap.slot, swap.tx_index, swap.event_index


def place_of(swap):
    return swap["block_time_ms"], swap["slot"], swap["tx_index"], swap["event_index"]


def newest_first(swaps):
    return sorted(map(place, swaps), reverse=True)


def places(pages):
    return [place_of(swap) for page in pages for swap in page["swaps"]]


def paths_of(wallet, mint):
    return f"wallets/{wallet}/swaps", f"wallets/{wallet}/trades/{mint}", f"tokens/{mint}/swaps"


async def test_a_swap_is_answered_as_the_live_streams_have_it(store, ask, new_swap, new_address):
    random = Random("answered")
    mint = new_address(random)
    written = {}
    for tx_index in range(300):
        swap = new_swap(random, mint=mint, tx_index=tx_index)
        written[swap.signature] = swap
    store.swaps([*written.values()])
    answer = await ask.get(f"/api/tokens/{mint}/swaps", limit=1000)
    assert answer["mint"] == mint
    assert (answer["as_of_slot"], answer["as_of_ms"]) == (NOW_SLOT, NOW_MS)
    assert (answer["from_ms"], answer["to_ms"]) == (NOW_MS + 1 - DAY_MS, NOW_MS + 1)
    assert len(answer["swaps"]) == len(written)
    for got in answer["swaps"]:
        swap = Swap.FromString(written[got["signature"]].SerializeToString())
        set_values(swap)
        live = orjson.loads(swap_event(swap).frame)["data"]
        for name, value in live.items():
            if name not in ON_LIVE_STREAMS_ONLY:
                assert got[name] == value, name
        assert got.keys() <= live.keys()
        assert got["fee_sol"] == 0.000105


@st.composite
def histories(draw):
    """Moments with many ties; of two wallets and two tokens; one quoted in the other; repeats."""
    count = draw(st.integers(0, 20))
    slots = st.integers(0, draw(st.sampled_from([1, 3, 40])))
    yes = st.booleans()
    swaps = st.tuples(slots, st.integers(0, 2), st.integers(0, 1), yes, yes, yes)
    found = draw(st.lists(swaps, min_size=count, max_size=count, unique_by=lambda each: each[:3]))
    again = draw(st.lists(st.sampled_from(found), max_size=20)) if found else []
    step_ms = draw(st.sampled_from([0, 1000, 3_600_000, DAY_MS // 2, 2 * DAY_MS]))
    return found, again, step_ms, draw(st.sampled_from([3, 10, 100]))


@pytest.mark.slow
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=histories())
async def test_no_swap_is_lost_or_comes_twice(store, ask, new_swap, new_address, history):
    found, again, step_ms, limit = history
    random = Random(uuid4().hex)  # wallets and tokens that no other history has
    wallets, mints = [[new_address(random), new_address(random)] for _ in range(2)]
    swaps = {
        each: new_swap(
            random,
            slot=NOW_SLOT - 100 + each[0],
            block_time_ms=NOW_MS - 1000 - (40 - each[0]) * step_ms,
            tx_index=each[1],
            event_index=each[2],
            wallet=wallets[each[3]],
            mint=mints[each[4]],
            **({"quote_mint": mints[not each[4]]} if each[5] else {}),
        )
        for each in found
    }
    for part in ([*swaps.values()], [swaps[each] for each in again]):
        if part:
            store.swaps(part)
    for mint in mints:
        store.token(mint)
    span = {"from": NOW_MS - 85 * DAY_MS, "limit": limit}
    for wallet in wallets:
        own = [swap for swap in swaps.values() if swap.wallet == wallet]
        pages = await ask.pages(f"/api/wallets/{wallet}/swaps", **span)
        assert places(pages) == newest_first(own)
        assert all(len(page["swaps"]) == limit for page in pages[:-1])
        for mint in mints:
            pages = await ask.pages(f"/api/wallets/{wallet}/trades/{mint}", **span)
            either = [s for s in own if mint in (s.mint, s.quote_mint)]
            assert places(pages) == newest_first(either)
    for mint in mints:
        pages = await ask.pages(f"/api/tokens/{mint}/swaps", **span)
        either = [s for s in swaps.values() if mint in (s.mint, s.quote_mint)]
        assert places(pages) == newest_first(either)
        assert all(len(page["swaps"]) == limit for page in pages[:-1])


async def test_more_swaps_in_one_second_than_a_page_has(store, ask, new_swap, new_address):
    random = Random("ties")
    wallet, mint = new_address(random), new_address(random)
    swaps = [
        new_swap(random, wallet=wallet, mint=mint, tx_index=n // 5, event_index=n % 5)
        for n in range(500)
    ]
    older = [
        new_swap(random, wallet=wallet, mint=mint, block_time_ms=NOW_MS - 5000, slot=9 + n)
        for n in range(30)
    ]
    for _ in range(3):  # every one three times
        store.swaps([*swaps, *older])
    for path in (f"wallets/{wallet}/swaps", f"tokens/{mint}/swaps"):
        pages = await ask.pages(f"/api/{path}", limit=60)
        assert places(pages) == newest_first([*swaps, *older])
        assert len(pages) == 9


async def test_a_range_of_time_is_half_open_and_stays_while_pages_turn(
    store, ask, new_swap, new_address
):
    random = Random("range")
    wallet, mint = new_address(random), new_address(random)
    swaps = [
        new_swap(random, wallet=wallet, mint=mint, slot=n, block_time_ms=NOW_MS - n * 3_600_000)
        for n in range(24 * 80)
    ]
    store.swaps(swaps)
    for path in paths_of(wallet, mint):
        first, last = swaps[700].block_time_ms, swaps[10].block_time_ms
        pages = await ask.pages(f"/api/{path}", **{"from": first, "to": last}, limit=100)
        assert places(pages) == newest_first(swaps[11:701])
        assert {(page["from_ms"], page["to_ms"]) for page in pages} == {(first, last)}
        # A cursor brings its range along.
        page = await ask.get(f"/api/{path}", **{"from": first, "to": last}, limit=100)
        again = await ask.pages(f"/api/{path}", cursor=page["page"]["next_cursor"], limit=1000)
        assert places([page, *again]) == newest_first(swaps[11:701])
        # The same range in other words: a date has its whole day, `to` an exclusive time.
        day = "2026-07-20"
        spans = (
            {"from": day, "to": day},
            {"from": f"{day}T00:00:00Z", "to": "2026-07-21T02:00:00+02:00"},
            {"from": 1_784_505_600_000, "to": 1_784_592_000_000},
        )
        for span in spans:
            pages = await ask.pages(f"/api/{path}", **span, limit=100)
            assert places(pages) == newest_first(
                swap
                for swap in swaps
                if 1_784_505_600_000 <= swap.block_time_ms < 1_784_592_000_000
            )
        whole = await ask.pages(f"/api/{path}", **{"from": NOW_MS + 1 - 90 * DAY_MS}, limit=1000)
        assert places(whole) == newest_first(swaps)
    for path, days in zip(paths_of(wallet, mint), (30, 30, 1), strict=True):
        pages = await ask.pages(f"/api/{path}", limit=1000)
        assert places(pages) == newest_first(swaps[: days * 24])
        page = await ask.get(f"/api/{path}")
        assert places([page]) == newest_first(swaps[: min(days * 24, 50)])


async def test_what_is_not_settled_everywhere_is_not_shown(store, ask, new_swap, new_address):
    """The least of all partitions counts: a token's swaps as a quote may be in each of them."""
    random = Random("settled")
    wallet, mint = new_address(random), new_address(random)
    while mint_tag(other := new_address(random)) == mint_tag(mint):
        pass
    swaps = [
        new_swap(random, wallet=wallet, mint=each, slot=NOW_SLOT - 10 + n, block_time_ms=NOW_MS)
        for n in range(10)
        for each in (mint, other)
    ]
    store.swaps(swaps)
    behind = NOW_SLOT - 6
    store.settle_one(mint_tag(other), behind, NOW_MS, "store")
    try:
        settled = [swap for swap in swaps if swap.slot <= behind]
        pages = await ask.pages(f"/api/wallets/{wallet}/swaps", limit=3)
        assert places(pages) == newest_first(settled)
        assert pages[0]["as_of_slot"] == behind
        for token in (mint, other):
            pages = await ask.pages(f"/api/tokens/{token}/swaps", limit=3)
            assert places(pages) == newest_first(swap for swap in settled if swap.mint == token)
            assert pages[0]["as_of_slot"] == behind
            pages = await ask.pages(f"/api/wallets/{wallet}/trades/{token}", limit=3)
            assert places(pages) == newest_first(swap for swap in settled if swap.mint == token)
            assert pages[0]["as_of_slot"] == behind
    finally:
        store.settle(NOW_SLOT, NOW_MS)


async def test_trades_of_a_wallet_in_sol_are_those_it_paid_or_took(
    store, ask, new_swap, new_address
):
    """Sparse among many others of the wallet, and of a second wallet."""
    random = Random("sol")
    wallet, other, coin = (new_address(random) for _ in range(3))
    store.token(WSOL)
    swaps = [
        new_swap(
            random,
            wallet=wallet if n % 2 else other,
            quote_mint=WSOL if n % 20 < 2 else coin,
            slot=NOW_SLOT - 1 - n,
            block_time_ms=NOW_MS - n * n * 1000,
        )
        for n in range(600)
    ]
    store.swaps(swaps)
    for limit in (5, 100):
        pages = await ask.pages(f"/api/wallets/{wallet}/trades/{WSOL}", limit=limit)
        own = [each for each in swaps if each.wallet == wallet and each.quote_mint == WSOL]
        assert places(pages) == newest_first(own)
        assert all(len(page["swaps"]) == limit for page in pages[:-1])


async def test_an_unknown_wallet_has_no_swaps(store, ask, new_address):
    nobody = new_address(Random(6))
    empty = await ask.get(f"/api/wallets/{nobody}/swaps")
    assert empty["swaps"] == []
    assert empty["page"] == {"next_cursor": None, "has_more": False}
    details = set()
    for path in (
        *(f"tokens/{nobody}", f"tokens/{nobody}/swaps", f"tokens/{nobody}/candles"),
        *(f"wallets/{nobody}/trades/{nobody}", f"wallets/{nobody}/pnl/{nobody}/daily"),
    ):
        refused = await ask.get(f"/api/{path}", 404)
        assert refused["code"] == "unknown_token"
        details.add(refused["detail"])
    assert len(details) == 1, "one reason, one wording"
    store.token(nobody)
    assert (await ask.get(f"/api/tokens/{nobody}/swaps"))["swaps"] == []


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ({"limit": 0}, "invalid_parameter", "`limit` must be an integer from 1 to 1000, got '0'"),
        ({"limit": 1001}, "invalid_parameter", "from 1 to 1000, got '1001'"),
        ({"limit": "10; DROP TABLE swaps"}, "invalid_parameter", "got 20 characters"),
        ({"from": -1}, "invalid_parameter", "`from` must be a date (YYYY-MM-DD), an ISO 8601"),
        ({"from": "1) OR (1=1"}, "invalid_parameter", "got 10 characters"),
        ({"to": 10**13}, "invalid_parameter", "`to` must be a date (YYYY-MM-DD), an ISO 8601 time"),
        ({"to": 2**80}, "invalid_parameter", "from 1970-01-01 to 2149-06-06"),
        ({"from": 5, "to": 5}, "invalid_parameter", "`from` must be before the end of the range"),
        ({"from": NOW_MS - 91 * DAY_MS}, "invalid_parameter", "at most 7776000000 ms (90 days)"),
        ({"from_ms": 5}, "invalid_parameter", "it accepts `limit`, `cursor`, `from`, `to`"),
        ({"cursor": ""}, "invalid_cursor", "must be the unchanged `next_cursor`"),
        ({"cursor": "' OR 1=1 --"}, "invalid_cursor", "must be the unchanged `next_cursor`"),
        ({"cursor": "\x00\u2603"}, "invalid_cursor", "must be the unchanged `next_cursor`"),
        ({"cursor": "A" * 201}, "invalid_parameter", "at most 200 characters"),
    ],
)
async def test_what_is_refused(ask, new_address, query, code, says):
    nobody = new_address(Random(7))
    for path in paths_of(nobody, nobody):
        refused = await ask.get(f"/api/{path}", 422, **query)
        assert refused["code"] == code
        assert says in refused["detail"]


async def test_a_cursor_that_was_made_up_reaches_no_store(ask, new_address):
    nobody = new_address(Random(8))
    u64 = 2**64 - 1
    for made_up in (
        Place(u64, u64, 2**32 - 1, u64, 0, u64),
        Place(NOW_MS, 1, 1, 2**32, NOW_MS - 5, NOW_MS + 5),
        Place(NOW_MS, 1, 1, 1, NOW_MS + 1, NOW_MS + 5),
        Place(NOW_MS, 1, 1, 1, NOW_MS - 91 * DAY_MS, NOW_MS + 5),
        Place(NOW_MS, 1, 1, 1, 0, 0),
    ):
        lists = of_wallet(nobody), of_wallet_and_token(nobody, nobody), of_token(nobody)
        for path, of in zip(paths_of(nobody, nobody), lists, strict=True):
            refused = await ask.get(f"/api/{path}", 422, cursor=made_up.cursor(of))
            assert refused["code"] == "invalid_cursor"
            assert refused["detail"].startswith("`cursor` must be the unchanged `next_cursor`")


async def test_a_cursor_leads_on_in_its_own_list_alone(store, ask, new_swap, new_address):
    random = Random("lists")
    wallets, mints = ([new_address(random) for _ in range(2)] for _ in range(2))
    store.swaps(
        [
            new_swap(random, wallet=wallet, mint=mint, tx_index=tx_index)
            for tx_index in range(3)
            for wallet in wallets
            for mint in mints
        ]
    )
    paths = {path for wallet in wallets for mint in mints for path in paths_of(wallet, mint)}
    assert len(paths) == 8
    for path in paths:
        cursor = (await ask.get(f"/api/{path}", limit=1))["page"]["next_cursor"]
        for other in paths:
            if other == path:
                assert (await ask.get(f"/api/{other}", cursor=cursor))["swaps"]
            else:
                refused = await ask.get(f"/api/{other}", 422, cursor=cursor)
                assert (refused["code"], refused["detail"]) == (
                    "invalid_cursor",
                    "`cursor` must be the unchanged `next_cursor` of a page of this list",
                )


async def test_addresses_are_checked_before_anything_else(ask, new_address):
    mint = new_address(Random(9))
    for text in ("'; DROP TABLE swaps --", "x", "0" * 44, "1" * 44, "{mint:String}", "%00" * 40):
        for path in (*paths_of(text, text), f"wallets/{mint}/trades/{text}"):
            refused = await ask.get(f"/api/{path}", 422)
            assert refused["code"] == "invalid_address"


async def test_an_answer_says_from_when_on_swaps_are_kept(store, ask, new_swap, new_address):
    """The tape began long before the oldest swap there is: what was between is gone."""
    random = Random("kept")
    mint, wallet = new_address(random), new_address(random)
    store.swaps([new_swap(random, mint=mint, wallet=wallet)])
    began = datetime.fromtimestamp((NOW_MS - 300 * DAY_MS) / 1000, UTC)
    store.clickhouse.insert("slots", [[1, began]], ["slot", "block_time"])
    [[oldest]] = store.clickhouse.query("SELECT min(block_time) FROM trades").result_rows
    assert oldest - began > timedelta(days=1)
    for path in paths_of(wallet, mint):
        answer = await ask.get(f"/api/{path}")
        assert answer["known_from_ms"] == oldest.timestamp() * 1000
