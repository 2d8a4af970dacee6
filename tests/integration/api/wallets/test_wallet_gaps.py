"""Answers about wallets name the gaps of the tape that they rest on."""

from __future__ import annotations

import pytest

from api.stores.gaps import GapReader
from infra.local.process import free_port
from schemas.redis_keys import QUARANTINE, WALLET_TOTALS, wallet_tag
from schemas.solana.base58 import decode
from schemas.topics import SETTLED_BY_WALLET
from tests.integration.api.wallets.conftest import PARTITIONS
from tests.support.api.gaps import clear_gaps, insert_gaps, lost, missing, rolled_back
from tests.support.api.in_process import asked
from tests.support.waiting import eventually_async

HERE, THERE = PARTITIONS
UNKNOWN = {
    "missing_slots": None,
    "lost_slots": None,
    "rolled_back_slots": None,
    "quarantined": None,
}


@pytest.fixture(autouse=True)
async def no_gaps_remain(settings):
    yield
    await clear_gaps(settings)


async def made_tape(make_books, tape):
    """A tape of which the first wallet is of partition HERE, the second of THERE."""
    made = tape(5)
    books = await make_books()
    await books.play(made.slots(40))
    return made


def counts(missing_slots, lost_slots, rolled_back_slots):
    return {
        "missing_slots": missing_slots,
        "lost_slots": lost_slots,
        "rolled_back_slots": rolled_back_slots,
        "quarantined": 0,
    }


async def all_answers(ask, wallet):
    """Every answer about a wallet."""
    whole = await ask.get(f"/api/wallets/{wallet}")
    mint = whole["positions"][0]["mint"]
    paths = (
        f"/{mint}", f"/{mint}/lots", "/all-dex", "/pnl/summary", "/pnl/daily", "/trades/daily",
        f"/pnl/{mint}/daily", "/holdings", "/portfolio",
    )  # fmt: skip
    found = {path: await ask.get(f"/api/wallets/{wallet}{path}") for path in paths}
    [item] = (await ask.post("/api/wallets/batch", {"wallets": [wallet]}))["wallets"]
    return {"": whole, **found, "batch": item}


async def gaps_of(ask, wallet):
    """What every answer about a wallet says of gaps."""
    found = {path: answered["gaps"] for path, answered in (await all_answers(ask, wallet)).items()}
    assert len({*map(str, found.values())}) == 1, found
    return found["batch"]


async def swap_gaps_of(ask, wallet):
    return (await ask.get(f"/api/wallets/{wallet}/swaps"))["gaps"]


async def test_no_gap_is_null(make_books, ask, tape):
    made = await made_tape(make_books, tape)
    assert await gaps_of(ask, made.wallets[0]) is None
    assert await swap_gaps_of(ask, made.wallets[0]) is None


async def test_what_the_tape_could_not_have_is_in_every_answer(make_books, ask, tape, settings):
    made = await made_tape(make_books, tape)
    # Ranges that overlap, one within another, one written twice, one apart.
    await insert_gaps(settings, missing(500, 509), missing(505, 514), missing(501, 502))
    await insert_gaps(settings, missing(500, 509), missing(600, 600))
    for wallet in made.wallets[:2]:
        assert await gaps_of(ask, wallet) == counts(16, 0, 0)
        assert await swap_gaps_of(ask, wallet) == counts(16, 0, 0)


async def test_what_a_partition_lost_is_in_the_answers_about_its_wallets(
    make_books, ask, tape, settings
):
    made = await made_tape(make_books, tape)
    here, there = made.wallets[:2]
    await insert_gaps(
        settings,
        lost(500, 501, f"pnl {HERE}"), lost(501, 503, f"pnl {HERE}"),
        lost(500, 599, f"market {THERE}"),
    )  # fmt: skip
    assert await gaps_of(ask, here) == counts(0, 4, 0)
    assert await gaps_of(ask, there) is None
    assert await swap_gaps_of(ask, here) is None
    batch = await ask.post("/api/wallets/batch", {"wallets": [there, here], "include": ["pnl"]})
    assert [each["gaps"] for each in batch["wallets"]] == [None, counts(0, 4, 0)]
    assert "gaps" not in batch


async def test_stored_swaps_rest_on_what_agent_store_lost(make_books, ask, tape, settings):
    made = await made_tape(make_books, tape)
    wallet = made.wallets[0]
    await insert_gaps(settings, lost(500, 501, "store 0"), lost(500, 500, "store 7"))
    assert await gaps_of(ask, wallet) is None
    assert await swap_gaps_of(ask, wallet) == counts(0, 3, 0)


async def test_a_rolled_back_slot_is_in_the_answers_about_the_wallets_it_touched(
    make_books, ask, tape, settings
):
    made = await made_tape(make_books, tape)
    touched, other = made.wallets[0], made.wallets[2]
    assert SETTLED_BY_WALLET.partition(touched) == SETTLED_BY_WALLET.partition(other)
    await insert_gaps(settings, rolled_back(700, 700, touched, "x"), rolled_back(702, 702, touched))
    assert await gaps_of(ask, touched) == await swap_gaps_of(ask, touched) == counts(0, 0, 2)
    assert await gaps_of(ask, other) is await swap_gaps_of(ask, other) is None


async def test_rolled_back_slots_whose_wallets_are_unknown_are_in_every_answer(
    make_books, ask, tape, settings
):
    made = await made_tape(make_books, tape)
    touched, other = made.wallets[0], made.wallets[2]
    await insert_gaps(settings, rolled_back(700, 700, touched), rolled_back(710, 712))
    assert await gaps_of(ask, touched) == counts(0, 0, 4)
    assert await gaps_of(ask, other) == counts(0, 0, 3)


async def test_an_etag_changes_with_the_gaps(make_books, ask, tape, settings):
    made = await made_tape(make_books, tape)
    path = f"/api/wallets/{made.wallets[0]}/pnl/daily"
    before = (await ask.client.get(path)).headers["etag"]
    same = await ask.client.get(path, headers={"if-none-match": before})
    assert same.status_code == 304
    await insert_gaps(settings, missing(500, 500))

    async def changed():
        answer = await ask.client.get(path, headers={"if-none-match": before})
        return None if answer.status_code == 304 else answer

    answer = await eventually_async(changed)
    assert answer.json()["gaps"] == counts(1, 0, 0)
    assert answer.headers["etag"] != before


async def test_without_clickhouse_the_counts_are_unknown_and_the_answers_given(
    make_books, ask, tape, settings
):
    made = await made_tape(make_books, tape)
    wallet = made.wallets[0]
    mint = (await ask.get(f"/api/wallets/{wallet}"))["positions"][0]["mint"]
    await insert_gaps(settings, missing(500, 500))
    without = settings.model_copy(update={"clickhouse_url": f"http://127.0.0.1:{free_port()}"})
    async with asked(without, ask.client.headers["x-api-key"]) as (client, _):
        for path in ("", f"/{mint}", "/all-dex", "/pnl/summary", "/holdings", "/portfolio"):
            answer = await client.get(f"/api/wallets/{wallet}{path}")
            assert (answer.status_code, answer.json()["gaps"]) == (200, UNKNOWN), path


async def test_a_process_with_more_wallets_than_it_may_hold_says_unknown(
    make_books, tape, settings, stores, monkeypatch
):
    made = await made_tape(make_books, tape)
    await insert_gaps(settings, rolled_back(700, 700, *made.wallets))
    found = await GapReader(stores, 60.0).read()
    assert found.of_wallet(made.wallets[0]) == counts(0, 0, 1)
    monkeypatch.setattr("api.stores.gaps.MOST_WALLETS", 3)
    found = await GapReader(stores, 60.0).read()
    assert found.of_wallet(made.wallets[0]) == counts(0, 0, None)


async def test_a_value_that_cannot_be_read_is_a_problem_with_a_name(make_books, ask, tape):
    made = tape(5)
    books = await make_books()
    await books.play(made.slots(40))
    wallet = made.wallets[0]
    await books.redis.hset(WALLET_TOTALS.make(tag=wallet_tag(wallet)), decode(wallet), b"cut")
    for path in ("", "/pnl/summary", "/holdings", "/portfolio"):
        answer = await ask.client.get(f"/api/wallets/{wallet}{path}")
        assert (answer.status_code, answer.json()["code"]) == (503, "quarantined"), path


async def test_a_wallet_in_quarantine_has_no_figures_and_every_answer_says_so(
    make_books, ask, tape
):
    made = tape(5)
    books = await make_books()
    await books.play(made.slots(40))
    bad, other = made.wallets[:2]
    mint = (await ask.get(f"/api/wallets/{bad}"))["positions"][0]["mint"]
    await books.redis.hset(QUARANTINE.make(tag=wallet_tag(bad), group="pnl"), bad, b"{}")

    async def is_known():
        answer = await ask.client.get(f"/api/wallets/{bad}/pnl/daily")
        return answer if answer.status_code == 503 else None

    assert bad in (await eventually_async(is_known)).json()["detail"]
    for path in (
        "", f"/{mint}", f"/{mint}/lots", "/all-dex", "/pnl/summary", "/trades/daily",
        f"/pnl/{mint}/daily", "/holdings", "/portfolio",
    ):  # fmt: skip
        answer = await ask.client.get(f"/api/wallets/{bad}{path}")
        assert (answer.status_code, answer.json()["code"]) == (503, "quarantined"), path
    batch = await ask.post("/api/wallets/batch", {"wallets": [bad, other]})
    refused, answered = batch["wallets"]
    assert refused["wallet"] == bad
    assert refused["gaps"] == counts(0, 0, 0) | {"quarantined": 1}
    assert refused.keys() == {"as_of_slot", "as_of_ms", "gaps", "wallet"}
    assert answered["gaps"] is None
    assert answered["positions"]
    assert await gaps_of(ask, other) is None
