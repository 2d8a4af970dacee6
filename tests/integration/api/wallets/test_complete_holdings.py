"""Holdings of a wallet that is asked for: from the tape until it is complete, then the chain's."""

from __future__ import annotations

import asyncio
import time
from struct import pack

import pytest

from schemas.money import USDC, WSOL
from schemas.redis_keys import MARKETS, tag_of_mints
from schemas.solana import addresses as address
from schemas.solana.addresses import TOKEN_2022_PROGRAM, text
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.accounts_lane import AccountsLane, extension, mint_data, token_data
from tests.support.api.asking import CACHE_EXPIRES_S, validator
from tests.support.waiting import eventually_async

PATH = "/api/wallets/{}/holdings"
NOW_MS = 1_763_700_000_000
SOL_USD = 150
LONG_MS = 7_000


@pytest.fixture
async def wallet(make_books, tape):
    """A wallet that the tape has seen 2 SOL and 3 coins of; on the chain it has more."""
    made = tape(5, wallets=1)
    books = await make_books()
    name, coin = made.wallets[0], made.mints[0]
    slot = made.empty()
    batch = slot[2]
    for account, mint, amount_raw, decimals in ((name, WSOL, 2 * 10**9, 9), ("a", coin, 3, 6)):
        raw = address.key(account) if account == name else account.encode().ljust(32, b"-")
        batch.balances.add(
            account=raw, owner=name, mint=mint, amount_raw=amount_raw, decimals=decimals
        )
    await books.play([slot])
    await books.market(coin, 0.02, now_ms=NOW_MS)
    for partition in range(SETTLED_BY_MINT.partitions):
        head = {"slot": 5000, "time_ms": NOW_MS, "sol_usd": f"{SOL_USD}/1"}
        await books.redis.hset(MARKETS.make(tag=tag_of_mints(partition)), mapping=head)
    return name, coin, made, books


@pytest.fixture
async def lane(wallet):
    """The lane of accounts, that nobody is covered in yet."""
    _, _, made, books = wallet
    lane = AccountsLane(books.redis, made.slot, made.time_ms)
    await lane.advance()
    return lane


async def put_on_chain(lane, name, coin):
    """Write what ingest fetched of the wallet, and its coverage."""
    raw = address.key(name)
    for account, mint, amount_raw in ((b"a", coin, 5_000_000), (b"z", coin, 0), (b"u", USDC, 7)):
        data = token_data(address.key(mint), raw, amount_raw)
        await lane.write(account.ljust(32, b"-"), data, found_by=[raw])
    await lane.own_sol(raw, 4 * 10**9)
    await lane.cover(raw)


async def test_without_a_lane_it_is_answered_at_once_as_ever(wallet, ask):
    name, coin, *_ = wallet
    began = time.monotonic()
    answer = await ask.get(PATH.format(name), wait_ms=10_000)
    assert time.monotonic() - began < 8
    assert answer["coverage"]["is_complete"] is False
    assert answer["coverage"]["reason"] == "not_ingested"
    assert "first change" in answer["coverage"]["note"]
    assert [each["mint"] for each in answer["tokens"]] == [coin]
    (account,) = answer["tokens"][0]["accounts"]
    assert (account["is_frozen"], account["delegate"]) == (None, None)


async def test_the_first_request_waits_and_is_complete(wallet, lane, ask):
    name, coin, *_ = wallet
    asking = asyncio.create_task(ask.get(PATH.format(name), wait_ms=LONG_MS))
    await eventually_async(lane.asked)
    assert await lane.asked() == [(b"wallet", address.key(name))]
    await put_on_chain(lane, name, coin)
    answer = await asking
    coverage = answer["coverage"]
    assert (coverage["is_complete"], coverage["reason"]) == (True, None)
    assert coverage["since_slot"] == lane.slot == answer["as_of_slot"]
    assert answer["native"]["lamports"] == str(4 * 10**9)
    assert answer["native"]["as_of_slot"] == lane.slot
    by_mint = {each["mint"]: each["amount_raw"] for each in answer["tokens"]}
    assert by_mint == {coin: "5000000", USDC: "7"}, "empty accounts hold nothing"
    assert answer["tokens"][0]["amount"] == 5.0, "decimals as the tape has seen them"
    assert answer["tokens"][0]["accounts"][0]["is_frozen"] is False
    assert coverage["known_accounts"] == coverage["read_accounts"] == 3
    total = sum(int(each["value_usd_micros"]) for each in (answer["native"], *answer["tokens"]))
    assert answer["value_usd_micros"] == str(total)


async def test_a_new_wallet_is_empty_and_complete(wallet, lane, ask):
    _, _, made, _ = wallet
    nobody = made.address()
    await lane.cover(address.key(nobody))
    answer = await ask.get(PATH.format(nobody))
    assert answer["coverage"]["is_complete"] is True
    assert answer["native"]["lamports"] == "0"
    assert (answer["tokens"], answer["value_usd"]) == ([], 0.0)


async def test_time_is_up_then_it_is_complete(wallet, lane, ask):
    name, coin, *_ = wallet
    answer = await ask.get(PATH.format(name), wait_ms=50)
    assert answer["coverage"]["reason"] == "pending"
    assert answer["native"]["lamports"] == str(2 * 10**9), "what the tape has seen"
    assert answer["native"]["as_of_slot"] is None
    await put_on_chain(lane, name, coin)
    answer = await ask.get(PATH.format(name))
    assert answer["coverage"]["is_complete"] is True, "no older answer is in the way"


async def test_portfolio_and_batch_have_the_same_and_do_not_ask(wallet, lane, ask):
    name, coin, *_ = wallet
    for holdings in (
        (await ask.get(f"/api/wallets/{name}/portfolio"))["holdings"],
        (await ask.post("/api/wallets/batch", {"wallets": [name], "include": ["holdings"]}))[
            "wallets"
        ][0]["holdings"],
    ):
        assert holdings["coverage"]["reason"] == "not_followed"
    assert await lane.asked() == []
    await put_on_chain(lane, name, coin)
    await asyncio.sleep(CACHE_EXPIRES_S)
    whole = await ask.get(PATH.format(name))
    batch = await ask.post("/api/wallets/batch", {"wallets": [name], "include": ["holdings"]})
    assert batch["wallets"][0]["holdings"]["tokens"] == whole["tokens"]
    portfolio = await ask.get(f"/api/wallets/{name}/portfolio")
    assert portfolio["holdings"]["value_usd_micros"] == whole["value_usd_micros"]
    assert portfolio["holdings"]["coverage"] == whole["coverage"]
    _, _, made, _ = wallet
    assert portfolio["as_of_slot"] == made.slot, "its positions are of the books"


async def test_coverage_that_is_withdrawn_is_said_so(wallet, lane, ask):
    name, coin, *_ = wallet
    await put_on_chain(lane, name, coin)
    assert (await ask.get(PATH.format(name)))["coverage"]["is_complete"] is True
    await lane.withdraw(address.key(name), "slots 7 to 206 are lost")
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = await ask.get(PATH.format(name), wait_ms=0)
    assert answer["coverage"]["reason"] == "withdrawn"
    assert "slots 7 to 206 are lost" in answer["coverage"]["note"]
    assert answer["native"]["lamports"] == str(2 * 10**9)


async def test_a_lane_far_behind_the_books_is_not_used(wallet, lane, ask):
    name, coin, *_ = wallet
    await put_on_chain(lane, name, coin)
    lane.time_ms -= 120_000
    await lane.advance(0)
    answer = await ask.get(PATH.format(name), wait_ms=0)
    assert answer["coverage"]["reason"] == "lane_stalled"
    assert answer["native"]["lamports"] == str(2 * 10**9)


async def test_interest_and_fees_of_token_2022(wallet, lane, ask):
    name, _, made, _ = wallet
    raw = address.key(name)
    grows, scaled, unknown = (address.key(made.address()) for _ in range(3))
    for n, mint in enumerate((grows, scaled, unknown)):
        data = token_data(mint, raw, 1_000_000, extensions=extension(2, pack("<Q", 30 + n)))
        where = bytes([n + 1]) * 32
        await lane.write(where, data, program=TOKEN_2022_PROGRAM, found_by=[raw])
    a_year_ago = NOW_MS // 1000 - int(365.24 * 86_400)
    rate = extension(10, pack("<32sqhqh", raw, a_year_ago, 1_000, a_year_ago, 1_000))
    scale = extension(25, pack("<32sdqd", raw, 2.0, 0, 2.5))
    words = (b"Scaled Coin", b"SCALE", b"https://example.com/scale.json")
    texts = b"".join(len(each).to_bytes(4, "little") + each for each in words)
    named = extension(19, bytes(32) + scaled + texts + bytes(4))
    for mint, more in ((grows, rate), (scaled, scale + named)):
        data = mint_data(10**12, 6, extensions=more)
        await lane.write(mint, data, program=TOKEN_2022_PROGRAM)
        await lane.cover_mint(mint)
    await lane.cover(raw)
    answer = await ask.get(PATH.format(name), include_unverified=True)
    by_mint = {each["mint"]: each for each in answer["tokens"]}
    shown = by_mint[text(grows)]["shown_amount"]
    assert 1.105 < shown < 1.1053, "ten per cent a year, compounded continuously"
    assert by_mint[text(scaled)]["shown_amount"] == 2.5
    assert {by_mint[text(mint)]["amount"] for mint in (grows, scaled)} == {1.0}
    assert by_mint[text(scaled)]["withheld_raw"] == "31"
    named_so = by_mint[text(scaled)]["name"], by_mint[text(scaled)]["symbol"]
    assert named_so == ("Scaled Coin", "SCALE")
    assert by_mint[text(grows)]["name"] is None
    odd = by_mint[text(unknown)]
    assert (odd["decimals"], odd["amount"], odd["shown_amount"]) == (None, None, None)
    assert odd["amount_raw"] == "1000000"
    assert (b"mint", unknown) in await lane.asked(), "its mint is asked for"
    document = (await ask.client.get("/openapi.json")).json()
    check = validator(document, "get", PATH.format("{wallet}"), 200)
    assert check.is_valid(answer), [*check.iter_errors(answer)]


async def test_waits_are_checked(wallet, ask):
    name, *_ = wallet
    for bad in ("-1", "10001", "1.5", "long"):
        problem = await ask.get(PATH.format(name), 422, wait_ms=bad)
        assert problem["code"] == "invalid_parameter"
        assert "`wait_ms`" in problem["detail"]
