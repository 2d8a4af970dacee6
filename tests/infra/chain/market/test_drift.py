"""The Drift of the market: its bytes, its sums, its events, and what the logs' bound cuts off."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
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
from infra.chain.market.runtime import drift_program as program
from infra.chain.market.runtime.drift import (
    FUNDING_PERIOD_S,
    STEP,
    USD,
    LazerOracle,
    PerpMarket,
    SpotMarket,
    User,
    UserStats,
    filled,
    with_pnl,
)
from infra.chain.market.runtime.drift_program import Account
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.programs import DRIFT
from infra.chain.market.runtime.wire import LOG_LIMIT_BYTES
from schemas.solana.addresses import key, text
from tests.support import anchor
from tests.support.perp_market import Ran, instructions, perp_market

IDL = "p08-drift.json"
KNOBS = Knobs(seed=5, rate=20, wallets=20, forks=0)
W, M, F, V, N = (bytes((number,)) * 32 for number in range(1, 6))
MARKET = PerpMarket(M, F, 150 * USD, 1_000, 5, pool_raw=1_000 * USD)
TAG = hashlib.sha256(b"event:FundingPaymentRecord").digest()[:8]


def test_a_user_has_the_programs_layout() -> None:
    user = User(W, 7, base=-2, quote=3, entry=4, even=-5, last_cumulative=6)
    data = replace(user, funding_usd=-8, deposited_usd=9, active_slot=10).data()
    assert len(data) == 4_376
    assert data[8:40] == W
    assert unpack_from("<Q", data, 104) == (7_000,)
    assert (data[136:140]) == bytes(4)  # market 0, a deposit
    assert unpack_from("<5q", data, 424) == (6, -2, 3, -5, 4)
    assert unpack_from("<Q", data, 4_272) == (9,)
    assert unpack_from("<qQQ", data, 4_312) == (-8, 0, 10)


def test_a_perp_market_keeps_its_fields_at_their_offsets() -> None:
    data = replace(MARKET, cumulative_long=-11, cumulative_short=12, quotes=-13, with_base=3).data()
    assert len(data) == 1_216
    assert data[8:72] == M + F
    assert unpack_from("<q", data, 72) == (150 * USD,)
    assert int.from_bytes(data[384:400], "little", signed=True) == -13
    assert int.from_bytes(data[608:624], "little", signed=True) == -11
    assert int.from_bytes(data[624:640], "little", signed=True) == 12
    assert unpack_from("<q", data, 800) == (FUNDING_PERIOD_S,)
    assert (data[926], data[1_162], data[1_163]) == (12, 1, 0)
    assert unpack_from("<II", data, 1_136) == (500, 300)


def test_other_accounts_have_the_programs_sizes() -> None:
    spot = SpotMarket(M, F, W, V, N, 1_000, 5 * USD).data()
    assert (len(spot), len(UserStats(W).data())) == (776, 240)
    assert spot[8:136] == M + F + W + V
    assert int.from_bytes(spot[432:448], "little") == 5 * USD * 1_000
    oracle = LazerOracle(15_000_000_000, 9, 5).data()
    assert unpack_from("<qQQi", oracle, 8) == (15_000_000_000, 9_000_000, 5, -8)


@given(delta=st.integers(-(10**12), 10**12), base=st.integers(-(10**13), 10**13))
def test_a_payment_is_cut_off_towards_nothing(delta: int, base: int) -> None:
    """As Drift's `calculate_funding_payment`: longs pay where the rate rises."""
    user = User(W, base=base, last_cumulative=5)
    market = replace(MARKET, cumulative_long=5 + delta, cumulative_short=5 + delta)
    exact = -delta * base
    assert user.payment(market) == (abs(exact) // 10**12) * (1 if exact > 0 else -1)


trades = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(-500, 500),
        st.integers(20 * USD, 400 * USD),
        st.sampled_from(("trade", "fund", "settle")),
    ),
    max_size=30,
)


@given(trades)
def test_what_users_have_is_what_the_market_owes(
    moves: list[tuple[int, int, int, str]],
) -> None:
    users = [User(bytes((number,)) * 32, 10_000 * USD) for number in range(3)]
    market, traded, fees = MARKET, 0, 0
    for who, steps, price, what in moves:
        user = users[who]
        market = replace(market, price=price)
        if what == "fund":
            market = market.funded(market.funded_s + FUNDING_PERIOD_S)
            users[who], market = user.settled(market)
        elif what == "settle" and not user.base:
            users[who], market, _ = with_pnl(user, market)
        elif what == "trade" and steps:
            base = steps * STEP
            if user.base and (user.base > 0) != (base > 0):
                base = max(base, -user.base) if base < 0 else min(base, -user.base)
            if user.base:
                user, market = user.settled(market)
            users[who], market, worth, fee = filled(user, market, base, price, 1)
            traded += worth
            fees += fee
    assert sum(each.quote for each in users) == market.quotes
    assert sum(each.base for each in users if each.base > 0) == market.long_base
    assert sum(each.base for each in users if each.base < 0) == market.short_base
    assert sum(each.entry for each in users) == market.long_entry + market.short_entry
    assert sum(each.even for each in users) == market.long_even + market.short_even
    assert sum(each.base != 0 for each in users) == market.with_base
    everything = sum(each.deposit_raw for each in users) + market.pool_raw
    assert everything == 3 * 10_000 * USD + MARKET.pool_raw
    assert market.fees_usd == fees >= traded * 10 // 10_000


def users_of(ran: Ran) -> list[User]:
    natives = ran.market.world.ledger.natives.values()
    return [each for each in natives if isinstance(each, User)]


def test_the_vault_of_a_market_holds_deposits_and_pool_after_forks() -> None:
    ran = perp_market()
    Invariants(ran.market).check_supply()
    drift, ledger = ran.market.world.drift, ran.market.world.ledger
    spot = ledger.natives[drift.markets.spot]
    assert isinstance(spot, SpotMarket)
    users, market = users_of(ran), drift.market
    assert ledger.balance(spot.vault) == spot.deposits_raw
    assert spot.deposits_raw == sum(each.deposit_raw for each in users) + market.pool_raw
    assert market.quotes == sum(each.quote for each in users)
    assert market.long_base == sum(each.base for each in users if each.base > 0)
    assert market.short_base == sum(each.base for each in users if each.base < 0)
    assert len(users) <= len(drift.accounts)


def payments(ran: Ran, row: dict[str, Any]) -> list[bytes]:
    """The payments that are left in the logs of a row's transaction."""
    lines = ran.info(row).meta.log_messages
    data = [b64decode(line[14:]) for line in lines if line.startswith("Program data: ")]
    return [each for each in data if each[:8] == TAG]


def test_every_payment_is_in_the_logs_but_those_that_were_cut_off() -> None:
    ran = perp_market()
    by_transaction: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in ran.kind("funding"):
        by_transaction[row["slot"], row["tx_index"]].append(row)
    cut = 0
    for rows in by_transaction.values():
        assert [row["number"] for row in rows] == list(range(len(rows)))
        logged = [row for row in rows if not row["lost"]]
        found = payments(ran, rows[0])
        assert len(found) == len(logged)
        for data, row in zip(found, logged, strict=True):
            assert len(data) == 138
            fields = row["fields"]
            assert data[16:80] == key(row["wallet"]) + key(row["user"])
            assert unpack_from("<q", data, 82) == (int(fields["funding_payment"]),)
            assert unpack_from("<q", data, 90) == (int(fields["base_asset_amount"]),)
        logs = ran.info(rows[0]).meta.log_messages
        is_cut = len(logged) < len(rows)
        assert is_cut == ("Log truncated" in logs) == rows[-1]["lost"]
        assert sum(map(len, logs)) < LOG_LIMIT_BYTES + len("Log truncated")
        assert [row["lost"] for row in rows] == sorted(row["lost"] for row in rows)
        cut += is_cut
    assert cut >= 2
    assert len(by_transaction) > 10


def test_a_payments_place_is_drifts_own_instruction() -> None:
    ran = perp_market()
    kinds: Counter[bytes] = Counter()
    for row in ran.kind("funding"):
        owner, _, data, _ = instructions(ran.info(row))[row["event_index"]]
        assert owner == DRIFT.address
        kinds[data[:8]] += 1
    names = ("settle_funding_payment", "place_and_take_perp_order")
    tags = {hashlib.sha256(f"global:{name}".encode()).digest()[:8] for name in names}
    assert tags <= set(kinds)


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_demo_wallets_pay_or_receive_what_their_account_says(name: str) -> None:
    ran = perp_market()
    wallet = ADDRESSES[name]
    user = ran.market.world.drift.user(ran.market.world.drift.accounts[wallet])
    assert user is not None
    assert user.base
    rows = [row for row in ran.kind("funding") if row["wallet"] == text(wallet)]
    canonical = [int(row["fields"]["funding_payment"]) for row in rows if row["canonical"]]
    assert any(canonical)
    assert sum(canonical) == user.funding_usd


@pytest.fixture
def market() -> Market:
    return Market(KNOBS)


def ran_steps(market: Market, of: Account, *steps: Step, later_s: int = 0) -> Execution:
    time_s = market.knobs.start_time_ms // 1_000 + later_s
    intent = Intent(1, of.authority, steps, bytes(32))
    tx = Execution(market.world.ledger, intent, market.knobs.start_slot, time_s)
    tx.run()
    return tx


def account_with(market: Market, *, has_user: bool) -> Account:
    drift = market.world.drift
    return next(
        of
        for of in map(drift.accounts.__getitem__, (w.address for w in drift.wallets.traders))
        if (drift.user(of) is not None) == has_user
    )


def test_a_wallet_makes_a_user_and_takes_its_deposit_out_again(market: Market) -> None:
    of, at = account_with(market, has_user=False), market.world.drift.markets
    held = market.world.ledger.held(of.authority, at.mint)
    tx = ran_steps(
        market,
        of,
        partial(program.initialize, of=of),
        partial(program.initialize_user, of=of),
        partial(program.deposit, of=of, at=at, amount_raw=500 * USD),
        partial(program.withdraw, of=of, at=at, amount_raw=200 * USD),
    )
    assert tx.err_code is None
    user = market.world.drift.user(of)
    assert user is not None
    assert (user.deposit_raw, user.deposited_usd) == (300 * USD, 500 * USD)
    assert market.world.ledger.held(of.authority, at.mint) == held - 300 * USD
    tx = ran_steps(market, of, partial(program.withdraw, of=of, at=at, amount_raw=301 * USD))
    assert tx.err_code == program.INSUFFICIENT_DEPOSIT


def test_a_trade_settles_funding_and_one_beyond_the_margin_changes_nothing(market: Market) -> None:
    of, at = account_with(market, has_user=True), market.world.drift.markets
    before = market.world.drift.user(of)
    assert before is not None
    grows = STEP if before.base > 0 else -STEP
    rate: Step = partial(program.update_rate, at=at)
    tx = ran_steps(market, of, rate, partial(program.trade, of=of, at=at, base=grows))
    assert tx.err_code is None
    [payment] = tx.funding
    assert payment.place == 1
    assert payment.values["base_asset_amount"] == before.base
    after = market.world.drift.user(of)
    assert after is not None
    assert after.funding_usd == payment.values["funding_payment"] != 0
    natives = dict(market.world.ledger.natives)
    much = partial(program.trade, of=of, at=at, base=1_000_000 * grows)
    tx = ran_steps(market, of, rate, much)
    assert tx.err_code == program.INSUFFICIENT_COLLATERAL
    assert market.world.ledger.natives == natives
    assert tx.funding == []


def test_a_closed_position_is_settled_against_the_pool(market: Market) -> None:
    of, at = account_with(market, has_user=True), market.world.drift.markets
    before = market.world.drift.user(of)
    assert before is not None
    closes = partial(program.trade, of=of, at=at, base=-before.base)
    pool = market.world.drift.market.pool_raw
    tx = ran_steps(market, of, closes, partial(program.settle_pnl, of=of, at=at))
    assert tx.err_code is None
    after = market.world.drift.user(of)
    assert after is not None
    assert (after.base, after.quote, after.entry) == (0, 0, 0)
    assert after.deposit_raw == before.deposit_raw + after.settled_usd
    assert market.world.drift.market.pool_raw == pool - after.settled_usd
    assert 0 < abs(after.settled_usd) < 100 * USD  # fees, and the AMM's price


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@pytest.mark.node
def test_anchors_coder_reads_every_event_and_account(request: pytest.FixtureRequest) -> None:
    ran, coder, idl = perp_market(), anchor.coder(request), anchor.idl(IDL)
    names = ("FundingPaymentRecord", "FundingRateRecord", "DepositRecord", "SettlePnlRecord")
    tags = {
        hashlib.sha256(f"event:{name}".encode()).digest()[:8]: name
        for name in (*names, "OrderActionRecord")
    }
    asked: list[dict[str, Any]] = []
    for info in ran.infos.values():
        if info.meta.HasField("err"):  # its logs have payments that were taken back
            continue
        for line in info.meta.log_messages:
            data = line.removeprefix("Program data: ")
            name = tags.get(b64decode(data)[:8]) if data != line else None
            if name:
                asked.append({"read": name, "idl": idl, "data": data})
    answers = anchor.asked(coder, asked)
    assert {each["read"] for each in asked} == set(tags.values())
    read = Counter(
        tuple(sorted((snake(name), value) for name, value in answer["fields"].items()))
        for question, answer in zip(asked, answers, strict=True)
        if question["read"] == "FundingPaymentRecord"
    )
    logged = Counter(
        tuple(sorted(row["fields"].items())) for row in ran.kind("funding") if not row["lost"]
    )
    assert read == logged
    natives = ran.market.world.ledger.natives.values()
    kinds = (User, UserStats, PerpMarket, SpotMarket)
    own = [each for each in natives if isinstance(each, kinds)]
    asked = [
        {"decode": type(each).__name__, "idl": idl, "data": b64encode(each.data()).decode()}
        for each in own
    ]
    for each, answer in zip(own, anchor.asked(coder, asked), strict=True):
        fields = answer["fields"]
        match each:
            case User():
                position, spot = fields["perpPositions"][0], fields["spotPositions"][0]
                assert int(position["baseAssetAmount"]) == each.base
                assert int(position["quoteEntryAmount"]) == each.entry
                assert int(spot["scaledBalance"]) == 1_000 * each.deposit_raw
                assert int(fields["cumulativePerpFunding"]) == each.funding_usd
                assert int(fields["nextOrderId"]) == each.next_order_id
                assert fields["marginMode"] == {"Default": {}}
            case UserStats():
                assert int(fields["fees"]["totalFeePaid"]) == each.paid_fees_usd
                assert int(fields["takerVolume30d"]) == each.volume_usd
            case PerpMarket():
                amm = fields["amm"]
                assert int(amm["cumulativeFundingRateLong"]) == each.cumulative_long
                assert int(amm["baseAssetAmountShort"]) == each.short_base
                assert int(amm["quoteBreakEvenAmountShort"]) == each.short_even
                assert amm["oracleSource"] == {"PythLazer": {}}
                assert fields["status"] == {"Active": {}}
                assert int(fields["numberOfUsersWithBase"]) == each.with_base
            case SpotMarket():
                assert int(fields["depositBalance"]) == 1_000 * each.deposits_raw
                assert fields["oracleSource"] == {"PythLazerStableCoin": {}}
                assert fields["decimals"] == "6"
                assert int(fields["nextDepositRecordId"]) == each.next_deposit_id
