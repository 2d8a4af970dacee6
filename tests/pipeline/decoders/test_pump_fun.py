"""pump.fun: every length its events have had, and what a trader paid and got."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import orjson
import pytest

from pipeline.decoders import pump_fun
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import Decoded, decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import USDC, WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder

TOKEN_RAW, SOL_RAW = 5_000_000_000_000, 200_000_000
QUOTE_RESERVE, TOKEN_RESERVE = 7_200_000_000, 600_000_000_000_000
VIRTUAL_QUOTE, VIRTUAL_TOKEN = 37_200_000_000, 879_900_000_000_000
FEE, CREATOR_FEE, CASHBACK, BUYBACK = 1_900_000, 600_000, 50_000, 950_000
FEE_V1 = 2_000_000  # before events had it

V1 = "global fees mint curve vault user_tokens trader system tokens creator events program"
V2 = (
    "global mint quote tokens tokens ata fees quote_fees buyback buyback_quote curve vault "
    "quote_vault trader user_tokens user_quote"
)


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(4, "little") + value.encode()


def trade_event(
    *,
    is_buy: bool,
    size: int = 10_000,
    quote: str = pump_fun.NATIVE,
    mayhem: bool = False,
    ix_name: str = "buy",
) -> bytes:
    native = quote == pump_fun.NATIVE
    body = pump_fun.TRADE_EVENT + key(builder.address("mint"))
    body += pack("<QQ?", SOL_RAW if native else 0, TOKEN_RAW, is_buy)
    body += bytes(32) + pack("<Q", 1_700_000_000)
    body += pack("<QQ", VIRTUAL_QUOTE if native else 0, VIRTUAL_TOKEN)
    body += pack("<QQ", QUOTE_RESERVE if native else 0, TOKEN_RESERVE)
    body += bytes(32) + pack("<QQ", 95, FEE) + bytes(32) + pack("<QQ", 30, CREATOR_FEE)
    body += pack("<?QQQQ", True, 1, 2, 3, 4) + text(ix_name)
    body += pack("<?QQ", mayhem, 0, CASHBACK)
    body += pack("<QQI", 5_000, BUYBACK, 1) + bytes(34)  # one shareholder
    body += key(quote) + pack("<QQQ", SOL_RAW, VIRTUAL_QUOTE, QUOTE_RESERVE)
    return (body + b"a field of the future")[:size]


def trade(event: bytes, *, is_buy: bool, fee: int, with_event: bool = True) -> Any:
    """A trade of a SOL curve: fees as lamports on top of a purchase, off a sale."""
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "curve", 10 * TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3 * TOKEN_RAW)
    call = tx.call(pump_fun.PROGRAM, V1, (pump_fun.BUY if is_buy else pump_fun.SELL) + bytes(16))
    if is_buy:
        tx.transfer(call, "vault", "user_tokens", "curve", TOKEN_RAW)
        tx.send(call, "trader", "curve", SOL_RAW)
        tx.send(call, "trader", "fees", fee)
    else:
        tx.transfer(call, "user_tokens", "vault", "trader", TOKEN_RAW)
        tx.gain("curve", -SOL_RAW)
        tx.gain("trader", SOL_RAW - fee)
        tx.gain("fees", fee)
    if with_event:
        tx.cpi_event(call, event)
        tx.log_event(call, event)
    return tx


def decode(tx: Any, **form: bool) -> Decoded:
    return decode_update(tx.info(**form), 1, 2)


def swap_of(tx: Any) -> Swap:
    decoded = decode(tx)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    transaction = Transaction(tx.info(), 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []
    return swap


@pytest.mark.parametrize("is_buy", [True, False])
@pytest.mark.parametrize(
    ("size", "fee"),
    [
        (113, FEE_V1),
        (129, FEE_V1),
        (225, FEE + CREATOR_FEE),
        (258, FEE + CREATOR_FEE),
        (258 + 7, FEE + CREATOR_FEE),
        (258 + 7 + 1, FEE + CREATOR_FEE),
        (258 + 7 + 17, FEE + CREATOR_FEE + CASHBACK),
        (10_000, FEE + CREATOR_FEE + CASHBACK),  # the buyback is a share of the fee
    ],
)
def test_every_length_of_the_event(size: int, fee: int, is_buy: bool) -> None:
    event = trade_event(is_buy=is_buy, size=size)
    swap = swap_of(trade(event, is_buy=is_buy, fee=fee))
    assert (swap.dex, swap.platform) == ("pump-fun", "pump-fun")
    assert swap.pool == builder.address("curve")
    assert (swap.mint, swap.quote_mint) == (builder.address("mint"), WSOL)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert swap.wallet_amount_raw == TOKEN_RAW
    assert swap.wallet_quote_amount_raw == SOL_RAW + (fee if is_buy else -fee)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (fee, WSOL)
    has_reserves = size > 113
    assert swap.reserve_raw == (TOKEN_RESERVE if has_reserves else None)
    assert swap.quote_reserve_raw == (QUOTE_RESERVE if has_reserves else None)
    virtual = (swap.virtual_reserve_raw, swap.virtual_quote_reserve_raw)
    assert virtual == (VIRTUAL_TOKEN, VIRTUAL_QUOTE)
    assert (swap.for_sale_raw, swap.migration_quote_raw) == (None, None)
    assert swap.wallet == builder.address("trader")
    assert (swap.decimals, swap.quote_decimals) == (6, 9)


def test_fee_of_an_old_sale_is_unknown_where_two_share_the_recipient() -> None:
    tx = trade(trade_event(is_buy=False, size=129), is_buy=False, fee=FEE_V1)
    tx.calls.append(tx.calls[0])
    swaps = decode(tx).events
    assert [swap.pool_fee_raw for swap in swaps] == [None, None]  # type: ignore[union-attr]


@pytest.mark.parametrize(("size", "cashback"), [(258 + 7 + 1, 0), (10_000, CASHBACK)])
def test_mayhem_coins_are_recognized_by_their_flag(size: int, cashback: int) -> None:
    """The shorter event ends with the flag."""
    event = trade_event(is_buy=True, size=size, mayhem=True)
    swap = swap_of(trade(event, is_buy=True, fee=FEE + CREATOR_FEE + cashback))
    assert swap.platform == "pump-fun-mayhem"


@pytest.mark.parametrize("is_buy", [True, False])
def test_a_coin_paired_with_usdc_has_a_vault(is_buy: bool) -> None:
    fee = FEE + CREATOR_FEE + CASHBACK
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "curve", 10 * TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3 * TOKEN_RAW)
    tx.token("quote_vault", USDC, "curve", 10 * SOL_RAW)
    tx.token("user_quote", USDC, "trader", 10 * SOL_RAW)
    tx.token("quote_fees", USDC, "fees")
    tag = pump_fun.BUY_V2 if is_buy else pump_fun.SELL_V2
    call = tx.call(pump_fun.PROGRAM, V2, tag + bytes(16))
    if is_buy:
        tx.transfer(call, "vault", "user_tokens", "curve", TOKEN_RAW)
        tx.transfer(call, "user_quote", "quote_vault", "trader", SOL_RAW)
        tx.transfer(call, "user_quote", "quote_fees", "trader", fee)
    else:
        tx.transfer(call, "user_tokens", "vault", "trader", TOKEN_RAW)
        tx.transfer(call, "quote_vault", "user_quote", "curve", SOL_RAW - fee)
        tx.transfer(call, "quote_vault", "quote_fees", "curve", fee)
    tx.cpi_event(call, trade_event(is_buy=is_buy, quote=USDC))
    swap = swap_of(tx)
    assert swap.quote_mint == swap.pool_fee_mint == USDC
    assert swap.quote_amount_raw == SOL_RAW
    assert swap.wallet_quote_amount_raw == SOL_RAW + (fee if is_buy else -fee)
    assert swap.quote_reserve_raw == QUOTE_RESERVE
    virtual = (swap.virtual_reserve_raw, swap.virtual_quote_reserve_raw)
    assert virtual == (VIRTUAL_TOKEN, VIRTUAL_QUOTE)


def test_without_its_event_a_trade_is_refused() -> None:
    tx = trade(b"", is_buy=True, fee=FEE, with_event=False)
    decoded = decode(tx)
    assert not decoded.events
    assert [item.detail for item in decoded.undecoded] == [
        "instruction 66063d1201daebea: no TradeEvent"
    ]


def test_the_logged_copy_is_used_instead() -> None:
    event = trade_event(is_buy=True)
    tx = trade(event, is_buy=True, fee=FEE, with_event=False)
    tx.log_event(tx.calls[0], event)
    assert len(decode(tx).events) == 1


def create_event(size: int, *, mayhem: bool, quote: str) -> bytes:
    body = pump_fun.CREATE_EVENT + text("Name") + text("NM") + text("https://uri")
    body += b"".join(key(builder.address(name)) for name in ("mint", "curve", "user"))
    body += key(builder.address("creator")) + pack("<QQQQ", 1, 2, 3, 4) + pack("<Q", 2 * 10**15)
    body += key(builder.TOKEN_2022) + bytes([mayhem, 1]) + key(quote) + bytes(8)
    return body[: size or None]


def test_every_length_of_a_creation() -> None:
    full = create_event(0, mayhem=True, quote=USDC)
    for cut, creator, supply, platform, quote in (
        (0, "creator", 2 * 10**15, "pump-fun-mayhem", USDC),
        (40, "creator", 2 * 10**15, "pump-fun-mayhem", WSOL),
        (40 + 34 + 72, "user", 10**15, "pump-fun", WSOL),
    ):
        tx = builder.TransactionBuilder("user")
        names = ["mint", "auth", "curve", *"3456", builder.TOKEN_2022, *"89"]
        call = tx.call(pump_fun.PROGRAM, names, pump_fun.CREATE_V2)
        tx.cpi_event(call, full[: len(full) - cut])
        decoded = decode(tx)
        assert not decoded.undecoded
        (created,) = decoded.events
        assert isinstance(created, Creation)
        assert (created.name, created.symbol, created.uri) == ("Name", "NM", "https://uri")
        assert created.mint == builder.address("mint")
        assert created.pool == builder.address("curve")
        assert created.creator == builder.address(creator)
        assert (created.supply_raw, created.decimals) == (supply, 6)
        assert (created.platform, created.quote_mint) == (platform, quote)
        assert created.token_program == builder.TOKEN_2022


@pytest.mark.parametrize("quote", [WSOL, USDC])
def test_migration_to_pump_swap(quote: str) -> None:
    body = pump_fun.MIGRATION_EVENT + bytes(32) + key(builder.address("mint"))
    body += pack("<QQQ", TOKEN_RAW, SOL_RAW, 15) + key(builder.address("curve")) + bytes(8)
    body += key(builder.address("pool")) + (b"" if quote == WSOL else key(quote))
    tx = builder.TransactionBuilder("anyone")
    call = tx.call(pump_fun.PROGRAM, "global x mint curve", pump_fun.MIGRATE)
    tx.cpi_event(call, body)
    (migration,) = decode(tx).events
    assert isinstance(migration, Migration)
    assert (migration.from_dex, migration.dex) == ("pump-fun", "pump-swap")
    assert migration.pool == builder.address("pool")
    assert (migration.amount_raw, migration.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert migration.quote_mint == quote


def test_a_second_migration_does_nothing() -> None:
    tx = builder.TransactionBuilder("anyone")
    tx.call(pump_fun.PROGRAM, "global x mint curve", pump_fun.MIGRATE_V2)
    decoded = decode(tx)
    assert not decoded.events
    assert not decoded.undecoded


def test_withdrawal_for_raydium() -> None:
    tx = builder.TransactionBuilder("migrator")
    tx.token("vault", "mint", "curve", TOKEN_RAW)
    tx.token("migrators", "mint", "migrator")
    call = tx.call(pump_fun.PROGRAM, "global x mint curve vault migrators", pump_fun.WITHDRAW)
    tx.transfer(call, "vault", "migrators", "curve", TOKEN_RAW)
    (migration,) = decode(tx).events
    assert isinstance(migration, Migration)
    assert (migration.dex, migration.pool) == ("raydium-amm-v4", "")
    assert (migration.mint, migration.amount_raw) == (builder.address("mint"), TOKEN_RAW)


def test_recorded_trades_pay_what_their_lamports_say(corpus: Any) -> None:
    """Known by hand: (fee, what the trader paid or got in lamports), from the System transfers
    of a purchase and from the gain of the fee recipient at a sale."""
    known = {
        # 3000000000 to the curve and 30000000 to the recipient
        "4U8kypMuCUCkR6teu2Vn": (30_000_000, 3_030_000_000),
        # the recipient gained 374372839: one per cent of 37437283903
        "3bYXWjjNkVZpz3VWrp8S": (374_372_839, 37_437_283_903 - 374_372_839),
        # 14074075 + 14074074 (half of the fee is the buyback) + 8888889 of cashback
        "2RoRJxatbF9Qkv87jei1": (28_148_149 + 8_888_889, 3_000_000_000),
    }
    for prefix, expected in known.items():
        (recorded,) = (value for name, value in corpus.items() if name.startswith(prefix))
        answer, info = recorded
        swaps = [e for e in decode_update(info, answer["slot"], 0).events if isinstance(e, Swap)]
        assert [(swap.pool_fee_raw, swap.wallet_quote_amount_raw) for swap in swaps] == [expected]


def test_recorded_trades_are_as_others_read_them(corpus: Any) -> None:
    """Values stated by 0xjeffro/tx-parser's own tests: from, to and who; all agree."""
    path = Path(__file__).parents[4] / "shared/corpus/expected.jsonl"
    stated = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    compared = 0
    for line in stated:
        if not line["venue"].startswith(("PumpFunBuy", "PumpFunSell", "PhotonPumpfunBuy")):
            continue
        answer, info = corpus[line["signature"]]
        swaps = [e for e in decode_update(info, answer["slot"], 0).events if isinstance(e, Swap)]
        found = {
            (quote, token, swap.wallet) if swap.side is Side.BUY else (token, quote, swap.wallet)
            for swap in swaps
            for quote, token in ((swap.quote_amount_raw, swap.amount_raw),)
        }
        columns = [
            value if isinstance(value, list) else [value]
            for value in map(line["expected"].get, ("FromTokenAmount", "ToTokenAmount", "Who"))
        ]
        for paid, got, who in zip(*columns, strict=True):
            raw = [int(value.removeprefix("uint64(")) for value in (paid, got)]
            assert (*raw, who) in found
            compared += 1
    assert compared >= 5
