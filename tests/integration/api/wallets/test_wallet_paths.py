"""Summary, portfolio, batches, and what is asked wrongly."""

from __future__ import annotations

import asyncio

import pytest

from schemas.money import USDC, WSOL
from schemas.plans import FREE
from schemas.positions import unpack_wallet_day
from schemas.redis_keys import WALLET_DAYS, wallet_tag
from schemas.solana.base58 import decode
from tests.support.api.asking import CACHE_EXPIRES_S
from tests.support.api.in_process import new_key

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
SUMMED = (
    *("buys", "sells", "wins", "losses", "unmatched_sales"),
    *("bought_lamports", "bought_usd_micros", "sold_lamports", "sold_usd_micros"),
    *("fee_lamports", "priority_fee_lamports", "tip_lamports"),
)


async def test_the_last_seven_days_of_the_chain(make_books, ask, tape):
    made = tape(1, wallets=4)
    books = await make_books()
    for _ in range(3):  # the window moves on with the chain, also while the API runs
        await books.play(made.slots(60, step_ms=5 * HOUR_MS))
        await asyncio.sleep(CACHE_EXPIRES_S)
        today = made.time_ms // DAY_MS
        for wallet in made.wallets:
            answer = await ask.get(f"/api/wallets/{wallet}/pnl/summary")
            assert answer["as_of_slot"] == made.slot
            assert [day["from_ms"] // DAY_MS for day in answer["days"]] == [
                *range(today - 6, today + 1)
            ]
            assert answer["from_ms"] == answer["days"][0]["from_ms"]
            assert answer["to_ms"] == (today + 1) * DAY_MS
            for day in answer["days"]:
                key = WALLET_DAYS.make(tag=wallet_tag(wallet), day=day["from_ms"] // DAY_MS)
                packed = await books.redis.hget(key, decode(wallet))
                if packed is None:
                    assert day["buys"] == day["sells"] == 0
                    assert day["realized_usd"] is None
                else:
                    record = unpack_wallet_day(packed)
                    assert all(int(day[name]) == getattr(record, name) for name in SUMMED)
                    gain = int(day["realized_lamports"] or 0)
                    assert gain == record.realized_lamports
            for name in SUMMED:
                assert int(answer[name]) == sum(int(day[name]) for day in answer["days"]), name
            gains = [int(day["realized_usd_micros"] or 0) for day in answer["days"]]
            assert int(answer["realized_usd_micros"] or 0) == sum(gains)
            decided = answer["wins"] + answer["losses"]
            rate = 100 * answer["wins"] / decided if decided else None
            assert answer["win_rate_pct"] == rate
            glance = (await ask.get(f"/api/wallets/{wallet}/portfolio"))["pnl"]
            assert glance["days_7"] == {name: answer[name] for name in glance["days_7"]}
            totals = (await ask.get(f"/api/wallets/{wallet}"))["totals"]
            assert glance["all_time"] == {name: totals[name] for name in glance["all_time"]}


async def test_the_most_valuable_positions_are_on_top(make_books, ask, tape):
    made = tape(2, wallets=2, mints=40)
    books = await make_books()
    await books.play(made.slots(200))
    for mint in made.mints[:35]:
        await books.market(mint, made.random.choice([1e-6, 1e-4, 1e-2]))
    for wallet in made.wallets:
        whole = (await ask.get(f"/api/wallets/{wallet}", limit=1000))["positions"]
        answer = await ask.get(f"/api/wallets/{wallet}/portfolio")
        held = [each for each in whole if each["held_raw"] != "0"]
        wanted = sorted(held, key=lambda each: -int(each["value_lamports"] or 0))[:20]
        top = answer["positions"]["top"]
        assert len(top) == 20
        assert [each["value_lamports"] for each in top] == [
            each["value_lamports"] for each in wanted
        ]
        assert all(each in whole for each in top)
        assert answer["positions"]["is_complete"]
        assert answer["positions"]["held_positions"] == len(held)


async def test_a_batch_is_its_wallets(make_books, ask, tape):
    made = tape(3, wallets=10)
    books = await make_books()
    await books.play(made.slots(80))
    for mint in made.mints:
        await books.market(mint, 1e-3)
    wallets = [made.wallets[3], made.wallet(2), *made.wallets[:3], made.wallets[3]]
    whole = await ask.post("/api/wallets/batch", {"wallets": wallets})
    assert whole["include"] == ["positions", "holdings", "pnl", "portfolio"]
    assert [each["wallet"] for each in whole["wallets"]] == wallets[:-1]
    assert whole["as_of_slot"] == made.slot == min(each["as_of_slot"] for each in whole["wallets"])
    for each in whole["wallets"]:
        wallet = each["wallet"]
        beside = {name: each[name] for name in ("wallet", "as_of_slot", "as_of_ms", "gaps")}
        for path, section in (
            ("all-dex", "positions"),
            ("holdings", "holdings"),
            ("pnl/summary", "pnl"),
            ("portfolio", "portfolio"),
        ):
            single = await ask.get(f"/api/wallets/{wallet}/{path}")
            assert {**beside, **each[section]} == single, path
    for include in (["pnl"], ["positions", "pnl"], ["portfolio"]):
        part = await ask.post("/api/wallets/batch", {"wallets": wallets, "include": include})
        assert part["include"] == include
        for each, of_all in zip(part["wallets"], whole["wallets"], strict=True):
            assert each == {
                name: value
                for name, value in of_all.items()
                if name in include or name in ("wallet", "as_of_slot", "as_of_ms", "gaps")
            }


@pytest.mark.parametrize("filled", [False, True])
async def test_an_unknown_wallet_has_empty_answers(make_books, ask, tape, filled):
    made = tape(4)
    books = await make_books()
    if filled:
        await books.play(made.slots(20))
    answer = await ask.get(f"/api/wallets/{NOBODY}")
    assert answer["positions"] == []
    assert answer["page"] == {"next_cursor": None, "has_more": False}
    totals = answer["totals"]
    assert (totals["position_count"], totals["buys"], totals["bought_lamports"]) == (0, 0, "0")
    assert totals["realized_usd"] is None
    assert totals["open"]["held_positions"] == 0
    assert (await ask.get(f"/api/wallets/{NOBODY}/all-dex"))["positions"] == []
    summary = await ask.get(f"/api/wallets/{NOBODY}/pnl/summary")
    assert (summary["buys"], summary["win_rate_pct"]) == (0, None)
    holdings = await ask.get(f"/api/wallets/{NOBODY}/holdings")
    assert (holdings["native"], holdings["tokens"]) == (None, [])
    assert (holdings["value_usd"], holdings["value_usd_micros"]) == (None, None)
    assert holdings["coverage"]["known_accounts"] == 0
    portfolio = await ask.get(f"/api/wallets/{NOBODY}/portfolio")
    assert portfolio["holdings"]["native"] is None
    assert portfolio["holdings"]["value_usd"] is None
    assert portfolio["positions"]["top"] == []
    for path in (made.mints[0], f"{made.mints[0]}/lots"):
        problem = await ask.get(f"/api/wallets/{NOBODY}/{path}", 404)
        assert problem["code"] == "no_position"
        assert "not traded, received or sent" in problem["detail"]


async def test_money_is_no_position(make_books, ask, tape):
    made = tape(5)
    books = await make_books()
    await books.play(made.slots(60))
    for wallet in made.wallets:
        for path in (WSOL, USDC, f"{WSOL}/lots"):
            refused = await ask.get(f"/api/wallets/{wallet}/{path}", 404)
            assert refused["code"] == "no_position"
            assert refused["detail"].startswith("SOL and dollar coins are"), (
                "the wallet did trade with it"
            )


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/wallets/short", 422, "invalid_address"),
        (f"/api/wallets/{NOBODY[:-1]}0", 422, "invalid_address"),
        (f"/api/wallets/{NOBODY}/{'1' * 44}", 422, "invalid_address"),
        (f"/api/wallets/{'z' * 44}/portfolio", 422, "invalid_address"),
        (f"/api/wallets/{NOBODY}?limit=0", 422, "invalid_parameter"),
        (f"/api/wallets/{NOBODY}?limit=1001", 422, "invalid_parameter"),
        (f"/api/wallets/{NOBODY}?limit=x", 422, "invalid_parameter"),
        (f"/api/wallets/{NOBODY}/all-dex?limit=501", 422, "invalid_parameter"),
        (f"/api/wallets/{NOBODY}?cursor=x", 422, "invalid_cursor"),
        (f"/api/wallets/{NOBODY}?cursor=%00%ff", 422, "invalid_cursor"),
        (f"/api/wallets/{NOBODY}?cursor={'A' * 201}", 422, "invalid_parameter"),
        ("/api/wallets/batch", 405, "method_not_allowed"),
        ("/api/wallets/leaderboard", 404, "not_found"),
    ],
)
async def test_a_wrong_request_is_refused(make_books, ask, path, status, code):
    await make_books()
    assert (await ask.get(path, status))["code"] == code


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({}, "invalid_body", "wallets"),
        ({"wallets": []}, "invalid_body", "1 to 50 items"),
        ({"wallets": [NOBODY] * 51}, "invalid_body", "1 to 50 items"),
        ({"wallets": ["x"]}, "invalid_address", "32 to 44"),
        ({"wallets": NOBODY}, "invalid_body", "list"),
        ({"wallets": [NOBODY], "include": ["nonsense"]}, "invalid_body", "'portfolio'"),
        ({"wallets": [NOBODY], "include": []}, "invalid_body", "1 to 11 items"),
        ({"wallets": [NOBODY], "also": 1}, "invalid_body", "also"),
        ([], "invalid_body", "object"),
    ],
)
async def test_a_wrong_batch_is_refused(make_books, ask, body, code, says):
    await make_books()
    problem = await ask.post("/api/wallets/batch", body, 422)
    assert problem["code"] == code
    assert says in str(problem), problem


async def test_a_batch_costs_one_credit(make_books, ask, settings, tape):
    await make_books()
    key = await new_key(settings, FREE.name)
    wallets = [*tape(1).wallets[:3], NOBODY, NOBODY]

    async def left(body, status=200):
        answer = await ask.client.post("/api/wallets/batch", json=body, headers={"x-api-key": key})
        assert answer.status_code == status
        return int(answer.headers["x-credits-left"])

    before = await left({"wallets": [NOBODY], "include": ["pnl"]})
    assert await left({"wallets": wallets, "include": ["pnl"]}) == before - 1
    assert await left({"wallets": [NOBODY], "include": ["x"]}, 422) == before - 2


async def test_an_answer_that_one_has_is_not_sent_again(make_books, ask):
    await make_books()
    answer = await ask.client.get(f"/api/wallets/{NOBODY}")
    again = await ask.client.get(
        f"/api/wallets/{NOBODY}", headers={"if-none-match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
