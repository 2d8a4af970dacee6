"""The market of a mint, slot by slot: what its events change, and what is published of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from pipeline.domain.curve import PUMP_FUN, PUMP_FUN_FOR_SALE_RAW
from pipeline.domain.market import MintMarket, Token, scaled
from schemas.events import Creation, Migration, Side, Swap
from schemas.markets import MAX_PRICE, MAX_VOLUME, PRICE_SCALE, window
from schemas.money import MONEY, WSOL
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.addresses import key as raw

T0_MS = 1_750_000_000_000 // 900_000 * 900_000
MINUTE_0 = T0_MS // 60_000
SOL = 10**9


def address(name: object) -> str:
    return text(sha256(str(name).encode()).digest())


MINT, CREATOR, WALLET = address("mint"), address("creator"), address("wallet")
CURVE, POOL = address("curve"), address("pool")


def creation(**fields: object) -> Creation:
    values = {
        "signature": "s", "slot": 1, "tx_index": 0, "event_index": 0, "block_time_ms": T0_MS,
        "mint": MINT, "name": "Name", "symbol": "SYM", "uri": "u", "creator": CREATOR,
        "platform": "pump.fun", "dex": PUMP_FUN, "pool": CURVE, "quote_mint": WSOL, "decimals": 6,
        "supply_raw": 10**15, "token_program": "",
    }  # fmt: skip
    return Creation(**(values | fields))  # type: ignore[arg-type]


def migration(**fields: object) -> Migration:
    values = {
        "signature": "m", "slot": 3, "tx_index": 0, "event_index": 0, "block_time_ms": T0_MS + 9,
        "mint": MINT, "platform": "pump.fun", "from_dex": PUMP_FUN, "from_pool": CURVE,
        "dex": "pump-swap", "pool": POOL, "quote_mint": WSOL, "amount_raw": None,
        "quote_amount_raw": None,
    }  # fmt: skip
    return Migration(**(values | fields))  # type: ignore[arg-type]


@pytest.fixture
def market() -> MintMarket:
    """A market in its first slot, at 150 dollars a SOL."""
    made = MintMarket(MINT)
    for owner in (CREATOR, WALLET, CURVE, POOL):
        made.holders.owners[raw(owner)] = 0
    for pool in (b"", raw(CURVE), raw(POOL)):
        made.traders.known[pool + raw(WALLET)] = None
    made.begin_slot(1, T0_MS, (150, 1))
    return made


@pytest.fixture
def bought(swap: Callable[..., Swap]) -> Callable[..., Swap]:
    """A purchase of 1,000 whole tokens for a SOL on the curve."""

    def make(**fields: object) -> Swap:
        values = {
            "pool": CURVE, "wallet": WALLET, "sol_value_lamports": SOL,
            "usd_value_micros": 150 * 10**6, "dex": PUMP_FUN,
        }  # fmt: skip
        return swap(MINT, WSOL, 10**9, SOL, **(values | fields))

    return make


def hold(market: MintMarket, account: str, owner: str, amount: int, **fields: bool) -> None:
    market.holders.accounts.setdefault(raw(account), None)
    flags = {"is_vault": False, "is_token_2022": False} | fields
    market.balance(raw(account), owner, amount, decimals=6, **flags)


def test_a_slot_begins_with_its_time_and_nothing_changed(market: MintMarket) -> None:
    market.created(creation())
    assert market.token_changed
    market.end_slot()
    market.begin_slot(2, T0_MS + 400, None)
    assert (market.head.slot, market.head.time_ms, market.token_changed) == (2, T0_MS + 400, False)
    assert market.token_unwritten
    assert not market.traded
    assert not market.is_stored


def test_of_several_creations_the_first_counts(market: MintMarket) -> None:
    market.created(creation())
    market.created(creation(name="Other", slot=2))
    assert market.token == Token(
        "Name", "SYM", "u", 6, 10**15, CREATOR, "pump.fun", PUMP_FUN, CURVE, WSOL, "", 1, T0_MS
    )  # fmt: skip
    assert market.head.is_launched


def test_a_creation_without_decimals_leaves_those_of_a_swap(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(decimals=4))
    assert (market.token.decimals, market.token_changed) == (4, True)
    market.created(creation(decimals=None, platform="", token_program="t"))
    assert (market.token.decimals, market.token.token_program) == (4, "t")
    assert not market.head.is_launched
    assert market.score(MINUTE_0) == 0


@pytest.mark.parametrize("event", ["swap", "migration"])
def test_the_platform_of_an_event_launches_the_token(
    market: MintMarket, bought: Callable[..., Swap], event: str
) -> None:
    market.token.decimals = 6
    if event == "swap":
        market.swap(bought(platform="bonk.fun"))
    else:
        market.migrated(migration(platform="bonk.fun"))
    assert (market.token.platform, market.head.is_launched) == ("bonk.fun", True)
    market.token_changed = False
    market.swap(bought(platform="another"))
    assert (market.token.platform, market.token_changed) == ("bonk.fun", False)


def test_a_creation_keeps_the_platform_that_was_known(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(platform="bonk.fun"))
    market.created(creation(platform=""))
    assert (market.token.platform, market.head.is_launched) == ("bonk.fun", True)
    market.migrated(migration(platform="third"))
    assert market.token.platform == "bonk.fun"


@pytest.mark.parametrize("is_2022", [False, True])
def test_a_balance_names_the_program_and_the_decimals_once(
    market: MintMarket, is_2022: bool
) -> None:
    hold(market, address("a"), WALLET, 5, is_token_2022=is_2022)
    program = text(TOKEN_2022_PROGRAM if is_2022 else TOKEN_PROGRAM)
    assert (market.token.token_program, market.token.decimals) == (program, 6)
    assert market.token_changed
    market.token_changed = False
    hold(market, address("a"), WALLET, 6)
    assert not market.token_changed
    market.token = Token(token_program=program)
    hold(market, address("a"), WALLET, 6, is_token_2022=is_2022)
    assert (market.token.decimals, market.token_changed) == (6, True)


def test_pools_and_vaults_are_no_holders_and_the_creators_part_is_known(
    market: MintMarket,
) -> None:
    for number, (owner, is_vault) in enumerate(
        [(CREATOR, False), (WALLET, False), (CURVE, False), (POOL, False), (address("v"), True)]
    ):
        market.holders.owners.setdefault(raw(owner), 0)
        hold(market, address(number), owner, 10 + number, is_vault=is_vault)
    market.created(creation())
    market.migrated(migration())
    market.end_slot()
    assert (market.head.holder_count, market.head.creator_raw) == (2, 10)
    assert market.details == len(market.holders.accounts) + len(market.holders.owners) + 3
    assert len(market.holders.accounts) == 5


@pytest.mark.parametrize(("dex", "holders"), [("jupiter-rfq", 2), ("pump-swap", 1)])
def test_who_fills_requests_for_quotes_holds_and_a_pool_does_not(
    market: MintMarket, bought: Callable[..., Swap], dex: str, holders: int
) -> None:
    hold(market, address("a"), POOL, 900)
    hold(market, address("b"), WALLET, 100)
    market.swap(bought(dex=dex, pool=POOL))
    hold(market, address("a"), POOL, 800)
    hold(market, address("b"), WALLET, 200)
    market.end_slot()
    assert market.head.holder_count == holders
    assert market.holders.top_raw(10) == (1000 if holders == 2 else 200)


def test_a_migration_empties_the_curve_and_says_where_to(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(reserve_raw=10**14, quote_reserve_raw=5 * SOL))
    market.end_slot()
    assert market.head.liquidity_lamports == 10 * SOL
    assert market.head.curve_left_raw == 10**14
    market.changed_pools.clear()
    market.traded = False
    assert not market.is_migrated
    market.begin_slot(3, T0_MS + 9, (150, 1))
    market.migrated(migration(platform=""))
    market.end_slot()
    token = market.token
    assert market.is_migrated
    assert (token.migrated_slot, token.migrated_ms) == (3, T0_MS + 9)
    assert (token.migrated_dex, token.migrated_pool) == ("pump-swap", POOL)
    assert (market.traded, market.changed_pools) == (True, {CURVE})
    assert market.token_changed
    assert market.head.liquidity_lamports == 0
    market.swap(bought(reserve_raw=1, quote_reserve_raw=30 * SOL))
    market.end_slot()
    assert market.head.curve_left_raw == 10**14  # it is left
    assert market.head.liquidity_lamports == 0
    market.migrated(migration(slot=9, from_pool=POOL, pool=address("next"), dex="next"))
    assert (token.migrated_slot, token.migrated_dex, token.migrated_pool) == (3, "pump-swap", POOL)


def test_liquidity_is_that_of_all_pools_that_disclose_it(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(pool=POOL))
    market.end_slot()
    assert market.head.liquidity_lamports is None
    market.swap(bought(reserve_raw=10**12, quote_reserve_raw=3 * SOL))
    market.end_slot()
    assert market.head.liquidity_lamports == 6 * SOL
    market.pools[POOL].facts.liquidity_lamports = MAX_VOLUME
    market.end_slot()
    assert market.head.liquidity_lamports == MAX_VOLUME


def test_liquidity_in_a_quote_of_unknown_worth_is_not_known(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    unpriced = {"sol_value_lamports": None, "usd_value_micros": None, "quote_reserve_raw": 10**12}
    market.swap(bought(pool=POOL, **unpriced))
    market.end_slot()
    assert market.head.liquidity_lamports is None
    assert market.pools[POOL].facts.liquidity_lamports is None
    market.swap(bought(quote_reserve_raw=3 * SOL))
    market.end_slot()
    assert market.head.liquidity_lamports == 6 * SOL
    market.swap(bought(**unpriced))
    market.end_slot()
    assert market.head.liquidity_lamports == 6 * SOL  # as it was last known
    market.begin_slot(3, T0_MS + 9, (150, 1))
    market.migrated(migration(from_pool=POOL))
    market.end_slot()
    assert market.pools[POOL].facts.liquidity_lamports is None
    assert market.head.liquidity_lamports == 6 * SOL


def test_liquidity_in_a_quote_that_is_no_money_is_not_known(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    """Somebody gave a tenth of a SOL for one of it: that makes a billion of it no liquidity."""
    made_up = replace(bought(pool=POOL, quote_reserve_raw=10**18), quote_mint=address("quote"))
    market.swap(made_up)
    facts = market.pools[POOL].facts
    assert facts.price_sol == PRICE_SCALE // 1000
    assert facts.liquidity_lamports is None
    market.end_slot()
    assert market.head.liquidity_lamports is None
    market.swap(bought(quote_reserve_raw=3 * SOL))
    facts.liquidity_lamports = 2 * 10**18  # as earlier versions stored it
    market.end_slot()
    assert market.head.liquidity_lamports == 2 * 10**18 + 6 * SOL
    market.swap(replace(made_up, quote_reserve_raw=None))
    market.end_slot()
    assert facts.liquidity_lamports is None
    assert market.head.liquidity_lamports == 6 * SOL
    assert POOL in market.changed_pools


@pytest.mark.parametrize("quote_mint", sorted(MONEY))
def test_liquidity_is_known_in_each_kind_of_money(
    market: MintMarket, bought: Callable[..., Swap], quote_mint: str
) -> None:
    market.swap(replace(bought(quote_reserve_raw=3 * SOL), quote_mint=quote_mint))
    market.end_slot()
    assert market.head.liquidity_lamports == 6 * SOL


def test_prices_of_a_market_and_of_its_pool(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    """A SOL for 1,000 tokens at 150 dollars; the first price stays."""
    market.swap(bought())
    each = PRICE_SCALE // 1000
    facts = market.pools[CURVE].facts
    for figures in (market.head, facts):
        assert (figures.price_sol, figures.price_usd) == (each, 150 * each)
        assert (figures.first_sol, figures.first_usd) == (each, 150 * each)
    day = window(market.pools[CURVE].quarters.data, MINUTE_0, 24 * 60)
    assert (day.buys, day.buy_lamports, day.buy_usd_micros) == (1, SOL, 150 * 10**6)
    market.end_slot()
    market.begin_slot(2, T0_MS, None)
    market.swap(bought(quote_amount_raw=2 * SOL, sol_value_lamports=2 * SOL, slot=2))
    assert (facts.price_sol, facts.price_usd) == (2 * each, 0)  # no dollars in this slot
    assert (facts.first_sol, facts.first_usd) == (each, 150 * each)
    assert market.head.first_usd == 150 * each
    assert (facts.slot, facts.time_ms, facts.quote_mint) == (2, T0_MS, WSOL)


DUST = [
    {"sol_value_lamports": 9_999},
    {"amount_raw": 99},
    {"sol_value_lamports": 0},
    {"amount_raw": 0},
    {"sol_value_lamports": 10**18},
]


@pytest.mark.parametrize("dust", DUST)
def test_what_shows_no_price_leaves_that_of_the_pool_and_its_liquidity(
    market: MintMarket, bought: Callable[..., Swap], dust: dict[str, int]
) -> None:
    market.swap(bought(quote_reserve_raw=3 * SOL))
    facts = market.pools[CURVE].facts
    before = replace(facts, quote_reserve_raw=5 * SOL)
    market.swap(bought(quote_reserve_raw=5 * SOL, **dust))
    market.end_slot()
    assert facts == before
    assert market.head.liquidity_lamports == facts.liquidity_lamports == 6 * SOL
    day = window(market.pools[CURVE].quarters.data, MINUTE_0, 24 * 60)
    assert (day.buys, day.traders) == (2, 1)
    assert day.buy_lamports == SOL + dust.get("sol_value_lamports", SOL)


@pytest.mark.parametrize("dust", DUST)
def test_a_pool_that_saw_dust_alone_has_no_price_until_a_real_trade(
    market: MintMarket, bought: Callable[..., Swap], dust: dict[str, int]
) -> None:
    market.swap(bought(quote_reserve_raw=3 * SOL, **dust))
    facts = market.pools[CURVE].facts
    assert (facts.price_sol, facts.price_usd, facts.first_sol, facts.first_usd) == (0, 0, 0, 0)
    assert facts.liquidity_lamports is None
    market.swap(bought(amount_raw=100, sol_value_lamports=10_000, quote_reserve_raw=3 * SOL))
    assert facts.price_sol == facts.first_sol == scaled(10_000, 100, 6)
    assert facts.liquidity_lamports == 6 * 10_000


def test_reserves_that_a_swap_does_not_state_stay(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(reserve_raw=7 * 10**12, quote_reserve_raw=3 * SOL))
    market.swap(bought())
    facts = market.pools[CURVE].facts
    assert (facts.reserve_raw, facts.quote_reserve_raw) == (7 * 10**12, 3 * SOL)


def test_a_swap_without_a_value_counts_and_has_no_price(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought(sol_value_lamports=None, usd_value_micros=None))
    market.end_slot()
    assert (market.head.price_sol, market.head.first_sol) == (0, 0)
    assert market.traded
    minute = market.candles[0]
    assert (minute.buys, minute.lamports, minute.usd_micros) == (1, 0, 0)


def test_the_reference_is_sols_own_market(market: MintMarket) -> None:
    market.reference()
    market.end_slot()
    head = market.head
    assert market.traded
    assert (head.price_sol, head.price_usd) == (PRICE_SCALE, 150 * PRICE_SCALE)
    market.begin_slot(2, T0_MS, (301, 2))
    market.reference()
    market.end_slot()
    assert head.price_usd == 301 * PRICE_SCALE // 2
    assert (head.first_sol, head.first_usd) == (PRICE_SCALE, 150 * PRICE_SCALE)
    minute = market.candles[0]
    assert (minute.open_sol, minute.buys, minute.sells) == (PRICE_SCALE, 0, 0)


@pytest.mark.parametrize(
    ("lamports", "amount_raw", "decimals", "price"),
    [
        (SOL, 10**9, 6, 10**24 // 1000),
        (1, 1, 0, 10**15),
        (7, 3, 2, 7 * 10**17 // 3),
        (2**64, 1, 12, MAX_PRICE),
    ],
)
def test_a_price_is_of_a_whole_token_and_fits_128_bits(
    lamports: int, amount_raw: int, decimals: int, price: int
) -> None:
    assert scaled(lamports, amount_raw, decimals) == price


def test_the_record_of_the_trending_list(market: MintMarket, bought: Callable[..., Swap]) -> None:
    market.created(creation())
    market.swap(bought(reserve_raw=PUMP_FUN_FOR_SALE_RAW // 4, quote_reserve_raw=5 * SOL))
    market.swap(bought(side=Side.SELL, usd_value_micros=10**6))
    hold(market, address("a"), CREATOR, 10**13)
    hold(market, address("b"), WALLET, 2 * 10**13)
    market.end_slot()
    record = market.record(MINUTE_0, (150, 1))
    price = market.head.price_usd / PRICE_SCALE
    assert record == {
        "mint": MINT, "name": "Name", "symbol": "SYM", "dex": "pump.fun", "creator": CREATOR,
        "price_usd": price, "market_cap": pytest.approx(price * 10**9),
        "liquidity_usd": 1500.0,
        "buy_count": 1, "sell_count": 1, "buy_volume_24h": 150.0, "sell_volume_24h": 1.0,
        "total_volume_24h": 151.0, "holder_count": 2, "top10_holders_pct": 3.0,
        "dev_holding_pct": 1.0, "bonding_curve_pct": 75.0, "is_migrated": False,
        "supply": 10**9, "decimals": 6,
    }  # fmt: skip
    assert market.record(MINUTE_0, None)["liquidity_usd"] is None
    assert market.score(MINUTE_0) > 0


def test_a_record_without_a_creation_is_completed_by_the_chains_own_facts(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought())
    hold(market, address("a"), WALLET, 10**13)
    market.end_slot()
    assert market.head.creator_raw == 0
    bare = market.record(MINUTE_0, (150, 1))
    assert (bare["name"], bare["supply"], bare["market_cap"]) == ("", None, None)
    assert (bare["top10_holders_pct"], bare["dev_holding_pct"]) == (None, None)
    known = Token(name="Chain", symbol="CH", supply_raw=10**15)
    full = market.record(MINUTE_0, (150, 1), known)
    assert (full["name"], full["symbol"], full["supply"]) == ("Chain", "CH", 10**9)
    assert full["top10_holders_pct"] == 1.0
    market.token.supply_raw = 10**14
    assert market.record(MINUTE_0, (150, 1), known)["supply"] == 10**8
    market.created(creation())
    assert market.record(MINUTE_0, (150, 1), known)["name"] == "Name"


@pytest.mark.parametrize(("symbol", "shown"), [("", "CH"), ("SYM", "SYM")])
@pytest.mark.parametrize(("supply_raw", "supply"), [(None, 10**9), (10**14, 10**8)])
def test_a_record_of_a_creation_without_a_name_is_completed_as_well(
    market: MintMarket,
    bought: Callable[..., Swap],
    symbol: str,
    shown: str,
    supply_raw: int | None,
    supply: int,
) -> None:
    market.created(creation(name="", symbol=symbol, supply_raw=supply_raw))
    market.swap(bought())
    market.end_slot()
    known = Token(name="Chain", symbol="CH", supply_raw=10**15)
    full = market.record(MINUTE_0, (150, 1), known)
    assert (full["name"], full["symbol"], full["supply"]) == ("Chain", shown, supply)
    assert full["market_cap"] == pytest.approx(full["price_usd"] * supply)


def test_what_the_store_has_is_dropped_from_memory_on_request(
    market: MintMarket, bought: Callable[..., Swap]
) -> None:
    market.swap(bought())
    hold(market, address("a"), WALLET, 5)
    before = market.details
    market.forget_details()
    assert market.details < before
    assert market.holders.count == 1
