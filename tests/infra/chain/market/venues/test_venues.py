"""What venues do: curves, event sizes, and the shape of real transactions."""

from __future__ import annotations

import base64
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.market.runtime import programs as known
from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.programs import anchor_tag, event_tag
from infra.chain.market.runtime.wire import encode
from infra.chain.market.venues.meteora_dlmm import BINS_PER_ARRAY, DlmmPool
from infra.chain.market.venues.pump_fun_v2 import VIRTUAL_DOLLARS_RAW
from infra.chain.market.venues.routes import NOT_ENOUGH_KEYS, Route
from infra.chain.source import SlotTransactions
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.rpc_json import transaction_from_json

pytestmark = pytest.mark.slow  # runs a market

CORPUS = Path(__file__).parents[6] / "shared" / "corpus" / "transactions.jsonl"
SELF_CPI = bytes.fromhex("e445a52e51cb9a1d")
TAG_LENGTH = {known.RAYDIUM_AMM_V4.name: 1}
TOKEN_PROGRAMS = (known.TOKEN.name, known.TOKEN_2022.name)
VENUES = {
    program.name
    for program in (
        known.PUMP_FUN,
        known.PUMP_SWAP,
        known.RAYDIUM_AMM_V4,
        known.RAYDIUM_CPMM,
        known.RAYDIUM_CLMM,
        known.RAYDIUM_LAUNCHLAB,
        known.ORCA_WHIRLPOOL,
        known.METEORA_DLMM,
        known.METEORA_DAMM_V2,
        known.METEORA_DBC,
    )
}
# Real transactions whose shapes the market follows: program, tag, and how many accounts.
SHAPES = {
    (known.PUMP_FUN.name, "38fc74089edfcd5f", 18): "buy_exact_sol_in",
    (known.PUMP_FUN.name, "66063d1201daebea", 18): "buy",
    (known.PUMP_FUN.name, "33e685a4017f83ad", 16): "sell",
    (known.PUMP_FUN.name, "b817ee6167c5d33d", 27): "buy_v2",
    (known.PUMP_FUN.name, "181ec828051c0777", 14): "create",
    (known.PUMP_FUN.name, "9beae792ec9ea21e", 25): "migrate",
    (known.PUMP_SWAP.name, "c62e1552b4d9e870", 26): "buy_exact_quote_in",
    (known.PUMP_SWAP.name, "33e685a4017f83ad", 24): "sell",
    (known.PUMP_SWAP.name, "e992d18ecf6840bc", 18): "create_pool",
    (known.RAYDIUM_AMM_V4.name, "09", 17): "swapBaseIn",
    (known.RAYDIUM_AMM_V4.name, "09", 18): "swapBaseIn with target orders",
    (known.RAYDIUM_AMM_V4.name, "10", 8): "swapBaseInV2",
    (known.RAYDIUM_CPMM.name, "8fbe5adac41e33de", 13): "swap_base_input",
    (known.RAYDIUM_CLMM.name, "f8c69e91e17587c8", 13): "swap",
    (known.RAYDIUM_CLMM.name, "2b04ed0b1ac91e62", 16): "swap_v2",
    (known.RAYDIUM_LAUNCHLAB.name, "9527de9bd37c981a", 18): "sell_exact_in",
    (known.ORCA_WHIRLPOOL.name, "f8c69e91e17587c8", 11): "swap",
    (known.ORCA_WHIRLPOOL.name, "2b04ed0b1ac91e62", 15): "swap_v2",
    (known.METEORA_DLMM.name, "f8c69e91e17587c8", 17): "swap",
    (known.METEORA_DLMM.name, "414b3f4ceb5b5b88", 18): "swap2",
    (known.METEORA_DAMM_V2.name, "f8c69e91e17587c8", 14): "swap",
    (known.METEORA_DAMM_V2.name, "414b3f4ceb5b5b88", 15): "swap2",
    (known.METEORA_DBC.name, "f8c69e91e17587c8", 15): "swap",
}
# Bytes of an event with its tag; None where texts make it vary.
CPI_EVENT_BYTES = {
    (known.PUMP_FUN.name, "TradeEvent"): {358, 359, 371},
    (known.PUMP_FUN.name, "CompleteEvent"): {144},
    (known.PUMP_FUN.name, "CompletePumpAmmMigrationEvent"): {200},
    (known.PUMP_SWAP.name, "BuyEvent"): {455},
    (known.PUMP_SWAP.name, "SellEvent"): {392},
    (known.PUMP_SWAP.name, "CreatePoolEvent"): {334},
    (known.RAYDIUM_LAUNCHLAB.name, "TradeEvent"): {147},
    (known.METEORA_DLMM.name, "Swap"): {137},
    (known.METEORA_DLMM.name, "Swap2Evt"): {155},
    (known.METEORA_DAMM_V2.name, "EvtSwap2"): {188},
    (known.METEORA_DBC.name, "EvtSwap"): {162},
    (known.METEORA_DBC.name, "EvtSwap2"): {187},
    (known.METEORA_DBC.name, "EvtInitializePool"): {145},
    (known.JUPITER.name, "SwapEvent"): {120},
    (known.JUPITER.name, "SwapsEvent"): {92, 172, 252},
}
LOG_EVENT_BYTES = {
    "CPMM SwapEvent": (known.RAYDIUM_CPMM.name, event_tag("SwapEvent"), 170),
    "CLMM SwapEvent": (known.RAYDIUM_CLMM.name, event_tag("SwapEvent"), 205),
    "Traded": (known.ORCA_WHIRLPOOL.name, event_tag("Traded"), 121),
}

Flat = tuple[str, int, int, bytes]  # program, stack height, accounts, data


def flatten(info: SubscribeUpdateTransactionInfo) -> list[Flat]:
    meta = info.meta
    keys = [
        base58.encode(key)
        for key in (
            *info.transaction.message.account_keys,
            *meta.loaded_writable_addresses,
            *meta.loaded_readonly_addresses,
        )
    ]
    inner = {group.index: group.instructions for group in meta.inner_instructions}
    found: list[Flat] = []
    for number, outer in enumerate(info.transaction.message.instructions):
        found.append((keys[outer.program_id_index], 1, len(outer.accounts), outer.data))
        found += [
            (keys[i.program_id_index], i.stack_height, len(i.accounts), i.data)
            for i in inner.get(number, ())
        ]
    return found


def shapes(flat: list[Flat]) -> Iterator[tuple[tuple[str, str, int], tuple[tuple[str, str], ...]]]:
    """Yield (program, tag, accounts) with what it calls: programs, transfer tags, event tags."""
    for number, (program, height, accounts, data) in enumerate(flat):
        if program not in VENUES or data.startswith(SELF_CPI) or not height:
            continue
        called = []
        for other, deeper, _, inner in flat[number + 1 :]:
            if deeper is None or deeper <= height:
                break
            if deeper == height + 1:
                event = inner.startswith(SELF_CPI)
                name = "token" if other in TOKEN_PROGRAMS else other
                called.append((name, inner[8:16].hex() if event else inner[:1].hex()))
        tag = data[: TAG_LENGTH.get(program, 8)].hex()
        yield (program, tag, accounts), tuple(called)


@pytest.fixture(scope="module")
def market() -> tuple[list[SubscribeUpdateTransactionInfo], list[dict]]:
    """Successful transactions of an undisturbed chain, and the truth."""
    sink = io.BytesIO()
    knobs = Knobs(seed=4, rate=600, forks=0, failed=0, wallets=150)
    infos = [
        SubscribeUpdateTransactionInfo.FromString(transaction.info)
        for event in Market(knobs, Truth(sink)).generate(60)
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
        if not transaction.failed
    ]
    return infos, [json.loads(line) for line in sink.getvalue().splitlines()]


def test_events_have_the_bytes_of_their_newest_version(market):
    infos, _ = market
    names = {(program, event_tag(name)): (program, name) for program, name in CPI_EVENT_BYTES}
    names[known.JUPITER.name, bytes.fromhex("982f4eebc0606e6a")] = (
        known.JUPITER.name,
        "SwapsEvent",
    )
    seen = defaultdict(set)
    for info in infos:
        for program, _, accounts, data in flatten(info):
            if data.startswith(SELF_CPI):
                assert accounts == 1
                if event := names.get((program, data[8:16])):
                    seen[event].add(len(data) - 8)
    for event, sizes in CPI_EVENT_BYTES.items():
        assert seen[event], f"{event} was never emitted"
        assert seen[event] <= sizes, event


def test_log_events_have_the_bytes_of_their_newest_version(market):
    infos, _ = market
    tags = {tag: size for _, tag, size in LOG_EVENT_BYTES.values()}
    seen: dict[int, int] = defaultdict(int)
    for info in infos:
        for line in info.meta.log_messages:
            if line.startswith("Program data: "):
                event = base64.b64decode(line.removeprefix("Program data: "))
                if event[:8] in tags:
                    seen[len(event)] += 1
    assert set(seen) == {170, 205, 121}


def test_logs_nest_as_the_instructions_do(market):
    infos, _ = market
    for info in infos[:3_000]:
        invoked, stack = [], []
        for line in info.meta.log_messages:
            words = line.split()
            if words[-1] == "truncated":
                break
            if words[0] == "Program" and words[2:3] == ["invoke"]:
                stack.append(words[1])
                assert words[3] == f"[{len(stack)}]"
                invoked.append((words[1], len(stack)))
            elif words[0] == "Program" and words[2:] == ["success"]:
                assert stack.pop() == words[1]
        else:
            assert not stack
            assert invoked == [(program, height) for program, height, _, _ in flatten(info)]


def pools_with_liquidity_moved(infos: list[SubscribeUpdateTransactionInfo]) -> set[str]:
    """All keys of transactions that put liquidity into a pool, or take it out."""
    names = (
        *("deposit", "withdraw", "remove_liquidity_by_range2", "add_liquidity_by_strategy2"),
        *("increase_liquidity", "decrease_liquidity", "collect_fees"),
        *("increase_liquidity_v2", "decrease_liquidity_v2", "open_position_v2", "claim_fee2"),
        *("add_liquidity", "remove_liquidity", "claim_position_fee"),
    )
    tags = tuple(map(anchor_tag, names))
    keys = {
        base58.encode(key)
        for info in infos
        if any(
            data.startswith((b"\3", b"\4") if program == known.RAYDIUM_AMM_V4.name else tags)
            for program, *_, data in flatten(info)
        )
        for key in (
            *info.transaction.message.account_keys,
            *info.meta.loaded_writable_addresses,
        )
    }
    assert keys
    return keys


def test_a_products_constant_never_shrinks(market):
    """Virtual reserves on curves; real ones in pools, where nobody takes liquidity out."""
    infos, truth = market
    refilled = pools_with_liquidity_moved(infos)
    virtual = {
        "raydium-amm-v4": (0, 0),
        "pump-swap": (0, 0),
        "raydium-cpmm": (0, 0),
        "pump-fun": (1_073_000_000_000_000 - 793_100_000_000_000, 30_000_000_000),
        "raydium-launchlab": (1_073_025_605_596_382 - 793_100_000_000_000, 30_000_852_951),
    }
    last: dict[str, int] = {}
    grown = defaultdict(int)
    for row in truth:
        if row["kind"] == "swap" and row["dex"] in virtual and row["pool"] not in refilled:
            base, quote = virtual[row["dex"]]
            if row["quote_mint"] == base58.encode(known.USDC) and row["dex"] == "pump-fun":
                quote = VIRTUAL_DOLLARS_RAW
            product = (int(row["reserve_raw"]) + base) * (int(row["quote_reserve_raw"]) + quote)
            assert product >= last.get(row["pool"], 0), row
            last[row["pool"]] = product
            grown[row["dex"]] += 1
    # Of AMM v4 providers may reach every pool: its swaps are in `test_shares` as well.
    assert set(grown) | {"raydium-amm-v4"} == set(virtual)


def test_a_price_starts_where_the_last_swap_left_it(market):
    infos, _ = market
    last: dict[bytes, bytes] = {}
    followed = 0
    for info in infos:
        for line in info.meta.log_messages:
            if not line.startswith("Program data: "):
                continue
            event = base64.b64decode(line.removeprefix("Program data: "))
            if event[:8] != event_tag("Traded"):
                continue
            pool, before, after = event[8:40], event[41:57], event[57:73]
            followed += pool in last
            assert last.get(pool, before) == before
            last[pool] = after
            falls = int.from_bytes(after, "little") <= int.from_bytes(before, "little")
            assert falls == bool(event[40])
    assert followed > 100


def test_vaults_move_by_what_the_truth_says(market):
    infos, truth = market
    refilled = pools_with_liquidity_moved(infos)
    last: dict[str, tuple[int, int]] = {}
    checked = 0
    for row in truth:
        if row["kind"] != "swap":
            continue
        vaults = (int(row["vault_raw"]), int(row["quote_vault_raw"]))
        assert min(vaults) >= 0
        if row["pool"] in last and row["pool"] not in refilled:
            sign = -1 if row["side"] == "buy" else 1
            base, quote = last[row["pool"]]
            assert vaults[0] - base == sign * int(row["amount_raw"]), row
            assert vaults[1] - quote == -sign * int(row["quote_amount_raw"]), row
            checked += 1
        last[row["pool"]] = vaults
    assert checked > 1_000


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no real transactions at {CORPUS}")
def test_instructions_have_the_shape_of_real_ones(market):
    real: dict[tuple[str, str, int], set] = defaultdict(set)
    with CORPUS.open() as lines:
        for line in lines:
            info = transaction_from_json(json.loads(line)).info
            if not info.meta.HasField("err"):
                for kind, called in shapes(flatten(info)):
                    real[kind].add(called)
    made: dict[tuple[str, str, int], set] = defaultdict(set)
    for info in market[0]:
        for kind, called in shapes(flatten(info)):
            made[kind].add(called)
    for kind, name in SHAPES.items():
        assert kind in real, f"{name} is not in the corpus"
        assert made[kind] & real[kind], (name, made[kind], real[kind])


def test_a_route_fails_whose_pool_has_left_the_accounts_that_were_signed() -> None:
    market = Market(Knobs(seed=3, rate=100, wallets=300))
    for _ in market.generate(20):
        pass
    market.habits.begin_slot(10**9, 0.0)
    for _ in range(20_000):
        intent = market.habits.next()
        owners = [getattr(step, "__self__", None) for step in intent.steps]
        route = next((each for each in owners if isinstance(each, Route)), None)
        moving = [hop.pool for hop in route.hops if hop.pool.moving_accounts()] if route else []
        if moving:
            break
    assert route is not None
    [pool] = moving
    assert isinstance(pool, DlmmPool)
    pool.active_bin += 5 * BINS_PER_ARRAY
    tx = Execution(market.world.ledger, intent, 10**9, 0)
    tx.run()
    assert tx.err_code == NOT_ENOUGH_KEYS
    # private `_table`: the market's own lookup table, which the encoder must get.
    encode(tx, bytes(64), 0, market._table)  # every account that it names is there
