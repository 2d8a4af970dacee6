"""The Jupiter Perps of the market: its bytes, its sums, its events, and what is refused."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import replace
from functools import partial
from struct import unpack_from
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime import doves
from infra.chain.market.runtime import jupiter_perps_program as program
from infra.chain.market.runtime.execution import SELF_CPI_TAG, Execution, Intent, Step
from infra.chain.market.runtime.jupiter_perps import (
    DECREASE,
    IMPACT_SCALAR,
    INCREASE,
    LONG,
    SHORT,
    USD,
    Custody,
    Pool,
    Position,
    PositionRequest,
    decreased,
    increased,
)
from infra.chain.market.runtime.jupiter_perps_program import Keepers, Place, Request
from infra.chain.market.runtime.programs import DOVES, JUPITER_PERPS
from schemas.solana.addresses import text
from tests.support import anchor
from tests.support.perp_market import SLOTS, Ran, instructions, perp_market

IDL = "p09-jupiter_perpetuals.json"
KNOBS = Knobs(seed=5, rate=20, wallets=20, forks=0)
EVENTS = {
    "IncreasePositionEvent",
    "DecreasePositionEvent",
    "InstantIncreasePositionEvent",
    "InstantDecreasePositionEvent",
    "LiquidateFullPositionEvent",
}
W, P, C, D, M, V, F, A = (bytes((number,)) * 32 for number in range(1, 9))
POSITION = Position(W, P, C, D, SHORT, 254)
SOL = Custody(P, M, V, (253, 255), 9, False, F, A, 1_000, owned_raw=10_000 * 10**9)
USDC = Custody(P, M, V, (253, 255), 6, True, F, A, 1_000, owned_raw=10**12)


def test_a_position_has_the_programs_layout() -> None:
    data = replace(
        POSITION,
        opened_s=1,
        updated_s=2,
        price=3,
        size_usd=4,
        collateral_usd=5,
        realized_usd=-6,
        rate_snapshot=1 << 70,
        locked_raw=8,
    ).data()
    assert len(data) == 216
    assert data[8:136] == W + P + C + D
    assert unpack_from("<qqBQQQq", data, 136) == (1, 2, SHORT, 3, 4, 5, -6)
    assert int.from_bytes(data[185:201], "little") == 1 << 70
    assert unpack_from("<QB", data, 201) == (8, 254)


def test_a_custody_keeps_its_fields_at_their_offsets() -> None:
    data = replace(
        SOL, cumulative_rate=1 << 66, fees_raw=1, locked_raw=2, guaranteed_usd=3, shorts_usd=4
    ).data()
    assert len(data) == 2_000
    assert data[8:104] == P + M + V
    assert (data[104], data[105], data[106:138]) == (9, 0, F)
    assert unpack_from("<QQ", data, 151) == (IMPACT_SCALAR, 0)
    assert unpack_from("<Q", data, 175) == (500 * 10_000,)
    assert unpack_from("<6Q", data, 214) == (1, SOL.owned_raw, 2, 3, 4, 0)
    assert int.from_bytes(data[262:278], "little") == 1 << 66
    assert unpack_from("<qQBBQQ", data, 278) == (1_000, 0, 253, 255, 6, 6)
    assert (data[320:352], data[384:416]) == (F, A)
    assert unpack_from("<4Q", data, 352) == (1_000, 15_000, 3_500, 800_000_000)


@given(used=st.integers(0, 10**13), hours=st.integers(0, 10_000))
def test_the_borrow_rate_rises_with_what_is_locked(used: int, hours: int) -> None:
    custody = replace(SOL, owned_raw=10**13, locked_raw=used)
    rate = custody.hourly_rate
    least, most = (10**9 * bps // 10_000 // 8_760 for bps in (1_000, 15_000))
    assert least <= rate <= most
    assert replace(custody, locked_raw=used // 2).hourly_rate <= rate
    assert custody.accrued(1_000 + 3_600 * hours).cumulative_rate == hours * rate


usd = st.integers(1, 50_000 * USD)
changes = st.lists(
    st.tuples(
        st.sampled_from((INCREASE, DECREASE, 3)),
        st.integers(0, 1),
        usd,
        st.integers(0, 100),
        st.integers(20 * USD, 400 * USD),
        st.integers(0, 100_000),
    ),
    max_size=30,
)


@given(changes)
def test_the_vaults_hold_what_came_in_less_what_went_out(
    moves: list[tuple[int, int, int, int, int, int]],
) -> None:
    """After every change, owner by owner: nothing is made and nothing is lost."""
    custodies = {SHORT: USDC, LONG: SOL}
    vaults = {side: each.owned_raw for side, each in custodies.items()}
    positions = {SHORT: POSITION, LONG: replace(POSITION, side=LONG)}
    time_s = 1_000
    for way, which, size_usd, part, price, past_s in moves:
        side = (LONG, SHORT)[which]
        position, collateral = positions[side], custodies[side]
        time_s += past_s
        sides = custodies[LONG], collateral
        prices = price, price if side == LONG else USD
        if way == INCREASE:
            amount_raw = collateral.tokens(size_usd // (part + 1), prices[1])
            grown = increased(position, sides, prices, amount_raw, size_usd, time_s)
            if grown is None:
                continue
            vaults[side] += amount_raw
            assert grown.collateral_raw + grown.fee_raw == amount_raw
            positions[side], custodies[LONG] = grown.position, grown.custody
            custodies[side] = grown.collateral
            continue
        if not position.size_usd:
            continue
        ends = way == 3 and position.is_liquidatable(collateral.accrued(time_s), price)
        size = position.size_usd if ends else position.size_usd * part // 100
        withdrawn = 0 if ends else position.collateral_usd * part // 400
        shrunk = decreased(position, sides, prices, size, withdrawn, time_s, is_liquidation=ends)
        if shrunk is None:
            continue
        if ends:
            assert shrunk.paid_raw == shrunk.position.size_usd == 0
        vaults[side] -= shrunk.paid_raw
        positions[side], custodies[LONG] = shrunk.position, shrunk.custody
        custodies[side] = shrunk.collateral
    sol, usdc = custodies[LONG], custodies[SHORT]
    long, short = positions[LONG], positions[SHORT]
    assert vaults[LONG] == sol.owned_raw + sol.fees_raw
    assert vaults[SHORT] == usdc.owned_raw + usdc.fees_raw + short.collateral_usd
    assert (sol.locked_raw, usdc.locked_raw) == (long.locked_raw, short.locked_raw)
    assert sol.guaranteed_usd == long.size_usd - long.collateral_usd
    assert sol.shorts_usd == short.size_usd
    for position in positions.values():
        assert position.collateral_usd >= 0
        assert position.size_usd or position.collateral_usd == position.locked_raw == 0


def open_places(ran: Ran) -> list[Position]:
    natives = ran.market.world.ledger.natives.values()
    return [each for each in natives if isinstance(each, Position)]


def test_custodies_of_a_market_are_their_positions_and_vaults_after_forks() -> None:
    ran = perp_market()
    Invariants(ran.market).check_supply()
    perps, ledger = ran.market.world.jupiter_perps, ran.market.world.ledger
    positions = open_places(ran)
    longs = [each for each in positions if each.is_long]
    shorts = [each for each in positions if not each.is_long]
    sol, usdc = perps.custody(perps.sol), perps.custody(perps.usdc)
    assert ledger.balance(sol.vault) == sol.owned_raw + sol.fees_raw
    held = usdc.owned_raw + usdc.fees_raw + sum(each.collateral_usd for each in shorts)
    assert ledger.balance(usdc.vault) == held
    assert sol.locked_raw == sum(each.locked_raw for each in longs)
    assert usdc.locked_raw == sum(each.locked_raw for each in shorts)
    assert sol.shorts_usd == sum(each.size_usd for each in shorts)
    assert sol.guaranteed_usd == sum(each.size_usd - each.collateral_usd for each in longs)
    assert min(sol.fees_raw, usdc.fees_raw, sol.cumulative_rate) > 0


def test_positions_and_requests_are_bounded() -> None:
    ran = perp_market()
    perps, natives = ran.market.world.jupiter_perps, ran.market.world.ledger.natives
    places = {each.address for both in perps.places.values() for each in both}
    requests = {address for asked in perps.asked.values() for address, _ in asked}
    assert len(places) == 2 * len(perps.places)
    for address, native in natives.items():
        if isinstance(native, Position):
            assert address in places
        if isinstance(native, PositionRequest):
            assert address in requests


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_demo_wallets_have_a_position_and_keep_it(name: str) -> None:
    ran = perp_market()
    of = ran.market.world.jupiter_perps.demo[ADDRESSES[name]]
    position = ran.market.world.jupiter_perps.position(of)
    assert position is not None
    assert position.owner_key == ADDRESSES[name]


def test_the_oracle_is_never_old() -> None:
    ran = perp_market()
    now_s = (KNOBS.start_time_ms + SLOTS * KNOBS.slot_ms) // 1_000
    assert now_s - ran.market.world.jupiter_perps.reported_s < 15


def test_every_event_is_a_call_of_the_program_to_itself() -> None:
    ran = perp_market()
    rows = ran.kind("perp")
    assert {row["event"] for row in rows} == EVENTS
    assert {row["side"] for row in rows} == {"long", "short"}
    for row in rows:
        flat = instructions(ran.info(row))
        owner, accounts, data, outer = flat[row["cpi_index"]]
        assert owner == flat[row["event_index"]][0] == JUPITER_PERPS.address
        assert flat[row["event_index"]][3] == outer
        assert accounts == [JUPITER_PERPS.event_authority]
        tag = hashlib.sha256(f"event:{row['event']}".encode()).digest()[:8]
        assert data[:16] == SELF_CPI_TAG + tag
        fees = row["fields"]
        parts = ("position_fee_usd", "funding_fee_usd", "price_impact_fee_usd")
        assert int(fees["fee_usd"]) == sum(int(fees[each]) for each in parts)


def test_each_event_says_where_the_last_one_left_the_position() -> None:
    """Per position, sizes and collateral follow one another along the canonical chain."""
    ran = perp_market()
    size: dict[str, int] = {}
    collateral: dict[str, int] = {}
    followed = 0
    for row in ran.kind("perp"):
        if not row["canonical"]:
            continue
        position, fields = row["position"], row["fields"]
        before = size.get(position)
        if row["event"] == "LiquidateFullPositionEvent":
            assert before in (None, int(fields["position_size_usd"]))
            size[position] = collateral[position] = 0
            assert fields["transfer_token"] == "0"
            continue
        delta, after = int(fields["size_usd_delta"]), int(fields["position_size_usd"])
        grows = "Increase" in row["event"]
        if before is not None:
            followed += 1
            assert after == before + (delta if grows else -delta)
        size[position] = after
        if grows:
            if position in collateral:
                collateral[position] += int(fields["collateral_usd_delta"])
            continue
        was = int(fields["original_position_collateral_usd"])
        assert collateral.get(position, was) == was
        collateral[position] = int(fields["position_collateral_usd"])
    assert followed > 20


@pytest.fixture
def market() -> Market:
    return Market(KNOBS)


def ran_steps(market: Market, payer: bytes, *steps: Step, later_s: int = 0) -> Execution:
    time_s = market.knobs.start_time_ms // 1_000 + later_s
    tx = Execution(
        market.world.ledger, Intent(1, payer, steps, bytes(32)), market.knobs.start_slot, time_s
    )
    tx.run()
    return tx


def at_price(market: Market, dollars: int) -> list[Step]:
    perps = market.world.jupiter_perps
    keeper = perps.keepers.keeper
    return [
        partial(doves.update, signer=keeper, feed=perps.sol.doves, price=dollars * 10**8),
        partial(doves.aggregate, signer=keeper, ag_feed=perps.sol.doves_ag, feed=perps.sol.doves),
    ]


def some_place(market: Market, side: int) -> Place:
    perps = market.world.jupiter_perps
    return perps.places[perps.wallets.traders[0].address][side - 1]


def opening(keepers: Keepers, of: Place, *, size_usd: int, amount_raw: int) -> Step:
    slippage = (1 << 63) - 1 if of.side == LONG else 0
    return partial(
        program.instant_increase,
        keepers=keepers,
        of=of,
        size_usd=size_usd * USD,
        amount_raw=amount_raw,
        slippage=slippage,
    )


@pytest.mark.parametrize("side", [LONG, SHORT])
def test_a_position_pays_what_the_price_brought_less_fees(market: Market, side: int) -> None:
    of, keepers = some_place(market, side), market.world.jupiter_perps.keepers
    amount_raw = 10 * 10**9 if side == LONG else 1_500 * USD
    ledger, mint = market.world.ledger, of.collateral.mint
    held = ledger.held(of.wallet, mint)
    opened = opening(keepers, of, size_usd=15_000, amount_raw=amount_raw)
    assert ran_steps(market, of.wallet, *at_price(market, 150), opened).err_code is None
    position = market.world.jupiter_perps.position(of)
    assert position is not None
    assert position.collateral_usd == 1_491 * USD - 60_000  # 6 bps, and the impact
    price = 165 if side == LONG else 135
    closes = partial(
        program.instant_decrease,
        keepers=keepers,
        of=of,
        size_usd=None,
        withdrawn_usd=0,
        slippage=0 if side == LONG else 1 << 40,
    )
    tx = ran_steps(market, of.wallet, *at_price(market, price), closes)
    assert tx.err_code is None
    [change] = tx.perps
    values = change.values
    assert (values["has_profit"], values["pnl_delta"]) == (True, 1_500 * USD)
    fees = values["fee_usd"]
    assert isinstance(fees, int)
    paid = 1_500 * USD + position.collateral_usd - fees
    assert values["transfer_amount_usd"] == paid
    paid_raw = paid * 10**9 // (price * USD) if side == LONG else paid
    assert ledger.held(of.wallet, mint) == held - amount_raw + paid_raw
    closed = ledger.natives[of.address]
    assert isinstance(closed, Position)
    assert closed.size_usd == closed.collateral_usd == closed.realized_usd == 0


def test_a_keeper_does_what_was_asked_and_the_request_is_gone(market: Market) -> None:
    of, perps = some_place(market, LONG), market.world.jupiter_perps
    keeper, ledger = perps.keepers.keeper, market.world.ledger
    (address, bump), _ = perps.asked[of.address]
    asked = Request(of, address, bump, 1, INCREASE, 3_000 * USD, 10 * 10**9, 151 * USD)
    lamports = ledger.lamports[of.wallet]
    assert ran_steps(market, of.wallet, partial(program.ask, request=asked)).err_code is None
    assert perps.request(address) is not None
    dear = at_price(market, 152)
    does: Step = partial(program.increase, keeper=keeper, request=asked)
    closes: Step = partial(program.close_request, keeper=keeper, request=asked)
    assert ran_steps(market, keeper, *dear, does, closes).err_code == program.MAX_SLIPPAGE
    tx = ran_steps(market, keeper, *at_price(market, 150), does, closes)
    assert tx.err_code is None
    assert perps.request(address) is None
    assert address not in ledger.lamports
    paid = lamports - ledger.lamports[of.wallet]
    assert paid == 5_000 + (128 + 216) * 6_960  # rent of the position alone stays
    assert ran_steps(market, keeper, closes).err_code == program.INVALID_REQUEST


def test_a_request_that_was_not_done_gives_its_tokens_back(market: Market) -> None:
    of, perps = some_place(market, SHORT), market.world.jupiter_perps
    keeper, ledger = perps.keepers.keeper, market.world.ledger
    (address, bump), _ = perps.asked[of.address]
    held = ledger.held(of.wallet, of.collateral.mint)
    asked = Request(of, address, bump, 1, INCREASE, 3_000 * USD, 500 * USD, 0)
    ran_steps(market, of.wallet, partial(program.ask, request=asked))
    assert ledger.held(of.wallet, of.collateral.mint) == held - 500 * USD
    tx = ran_steps(market, keeper, partial(program.close_request, keeper=keeper, request=asked))
    assert tx.err_code is None
    assert ledger.held(of.wallet, of.collateral.mint) == held


def test_only_a_position_without_enough_collateral_is_liquidated(market: Market) -> None:
    of, perps = some_place(market, LONG), market.world.jupiter_perps
    keeper = perps.keepers.keeper
    opened = opening(perps.keepers, of, size_usd=30_000, amount_raw=2 * 10**9)
    assert ran_steps(market, of.wallet, *at_price(market, 150), opened).err_code is None
    ends: Step = partial(program.liquidate, signer=keeper, of=of)
    assert ran_steps(market, keeper, ends).err_code == program.INVALID_POSITION
    before = market.world.ledger.balance(of.collateral.vault)
    tx = ran_steps(market, keeper, *at_price(market, 148), ends)
    assert tx.err_code is None
    [change] = tx.perps
    assert change.values["pnl_delta"] == 281_760_000  # all of it, less than the loss of 400
    assert change.values["fee_usd"] == change.values["liquidation_fee_usd"] == 0
    assert perps.position(of) is None
    assert market.world.ledger.balance(of.collateral.vault) == before


def test_a_position_beyond_the_greatest_leverage_is_refused(market: Market) -> None:
    of, perps = some_place(market, LONG), market.world.jupiter_perps
    before = dict(market.world.ledger.natives)
    opened = opening(perps.keepers, of, size_usd=100_000, amount_raw=2 * 10**9)
    assert ran_steps(market, of.wallet, opened).err_code == program.MAX_LEVERAGE
    assert market.world.ledger.natives == before


@pytest.mark.node
def test_anchors_coder_reads_every_event_and_account(request: pytest.FixtureRequest) -> None:
    ran, coder, idl = perp_market(), anchor.coder(request), anchor.idl(IDL)
    rows = ran.kind("perp")
    questions: list[dict[str, Any]] = []
    for row in rows:
        data = instructions(ran.info(row))[row["cpi_index"]][2]
        questions.append({"read": row["event"], "idl": idl, "data": b64encode(data[8:]).decode()})
    for row, answer in zip(rows, anchor.asked(coder, questions), strict=True):
        assert answer["fields"] == row["fields"]
    natives = ran.market.world.ledger.natives.values()
    kinds = (Position, Custody, Pool, PositionRequest)
    own = [each for each in natives if isinstance(each, kinds)]
    first = Request(some_place(ran.market, LONG), A, 250, 7, DECREASE, 9, 8, 7, is_entire=True)
    own.append(
        PositionRequest(
            *(W, P, C, D, M, 99, first.change, SHORT, first.counter, first.bump),
            *(first.price_slippage, first.size_usd, first.collateral_raw, first.is_entire),
        )
    )
    questions = [
        {"decode": type(each).__name__, "idl": idl, "data": b64encode(each.data()).decode()}
        for each in own
    ]
    for each, answer in zip(own, anchor.asked(coder, questions), strict=True):
        fields = answer["fields"]
        match each:
            case Position():
                assert fields["owner"] == text(each.owner_key)
                assert fields["side"] == {("Long" if each.is_long else "Short"): {}}
                names = {"size_usd": each.size_usd, "price": each.price, "bump": each.bump}
                names |= {"collateral_usd": each.collateral_usd, "locked_amount": each.locked_raw}
                names |= {"cumulative_interest_snapshot": each.rate_snapshot}
                assert {name: int(fields[name]) for name in names} == names
            case Custody():
                assets = fields["assets"]
                assert int(assets["owned"]) == each.owned_raw
                assert int(assets["global_short_average_prices"]) == each.shorts_price
                state = fields["funding_rate_state"]
                assert int(state["cumulative_interest_rate"]) == each.cumulative_rate
                assert fields["doves_ag_oracle"] == text(each.doves_ag)
                assert fields["jump_rate_state"]["target_rate_bps"] == "3500"
                assert int(fields["withdrawal_limit_interval_seconds"]) == 0
            case Pool():
                assert fields["custodies"] == [text(one) for one in each.custodies]
                assert fields["name"] == "Pool"
                assert int(fields["aum_usd"]) == each.aum_usd
                assert int(fields["aum_usd_refreshed_at_slot"]) == each.refreshed_slot
            case PositionRequest():
                assert fields["owner"] == text(each.owner_key)
                assert int(fields["counter"]) == each.counter
                assert int(fields["bump"]) == each.bump
                assert fields["referral"] is None
    feeds = [each for each in natives if each.owner == DOVES.address]
    doves_idl = anchor.idl("p09-jupiter_doves_oracle.json")
    questions = [
        {"decode": type(each).__name__, "idl": doves_idl, "data": b64encode(each.data()).decode()}
        for each in feeds
    ]
    assert len(feeds) == 4
    for answer in anchor.asked(coder, questions):
        assert answer["fields"]["expo"] == "-8"
        assert int(answer["fields"]["price"]) >= 10**8
