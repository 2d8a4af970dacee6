"""Meteora DBC: one swap of two events, partners by config, creator, signer and config maker."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders import meteora_dbc as dbc
from pipeline.decoding.reading import decode_update
from schemas.events import Creation, Migration, Swap
from schemas.money import WSOL
from tests.support.decoding import builder, examples

DEX = "meteora-dbc"
SQRT_PRICE, QUOTE_RESERVE, THRESHOLD = 9 << 60, 2_230_000, 85_000_000
FEES = (1_000, 200, 30)
BAGS = "BAGSB9TpGrZxQbEsrEznv5jXXdwyP6AXerN8aVRiAmcv"
BELIEVE = "5qWya6UjwWnGVhdSBL3hyZ7B45jbk6Byt1hwd7ohEGXE"
JUP_STUDIO = "8rE9CtCjwhSmbwL5fbJBtRFsS3ohfMcDFeTTC7t4ciUA"
TRENDS = "7UMR4yEaVYsQGbQGvxNUypFmPn15GkzVmwUEpUFJUPPX"


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


def swap_event(*, fee_on_input: bool) -> bytes:
    body = dbc.EVT_SWAP + bytes(64) + pack("<B?QQ", 1, False, 1, 2)
    body += pack("<QQ", 10_000 - sum(FEES) if fee_on_input else 10_000, 3)
    return body + SQRT_PRICE.to_bytes(16, "little") + pack("<3QQQ", *FEES, 10_000, 5)


def swap_event_2(*, fee_on_input: bool) -> bytes:
    body = dbc.EVT_SWAP_2 + bytes(64) + pack("<B?QQB", 1, False, 1, 2, 0)
    body += pack("<4Q", 10_000, 10_000 - sum(FEES) if fee_on_input else 10_000, 0, 3)
    body += SQRT_PRICE.to_bytes(16, "little") + pack("<3Q", *FEES)
    return body + pack("<3Q", QUOTE_RESERVE, THRESHOLD, 5)


@pytest.mark.parametrize("buys", [True, False])
@pytest.mark.parametrize("fee_on_input", [True, False])
@pytest.mark.parametrize("newer", [True, False])
def test_both_events_are_one_swap(buys: bool, fee_on_input: bool, newer: bool) -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX], buys=buys)
    tx.cpi_event(call, swap_event(fee_on_input=fee_on_input))
    if newer:
        tx.cpi_event(call, swap_event_2(fee_on_input=fee_on_input))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.sqrt_price_x64 == SQRT_PRICE
    assert swap.pool_fee_raw == sum(FEES)
    assert swap.pool_fee_mint == (swap.quote_mint if buys is fee_on_input else swap.mint)
    assert swap.quote_reserve_raw == (QUOTE_RESERVE if newer else None)
    assert swap.migration_quote_raw == (THRESHOLD if newer else None)
    assert swap.reserve_raw is None


@pytest.mark.parametrize(
    ("config", "creator", "signer", "partner", "platform"),
    [
        ("config", "creator", "payer", "partner", "meteora-dbc"),
        (TRENDS, "creator", "payer", "partner", "trends-fun"),
        ("config", BAGS, "payer", "partner", "bags"),
        ("config", "creator", BELIEVE, "partner", "believe"),
        ("config", "creator", "payer", JUP_STUDIO, "jup-studio"),
        (TRENDS, BAGS, "payer", "partner", "bags"),  # any platform may use a config
    ],
)
@pytest.mark.parametrize("token_2022", [True, False])
def test_creation(
    config: str,
    creator: str,
    signer: str,
    partner: str,
    platform: str,
    token_2022: bool,
) -> None:
    tx = builder.TransactionBuilder("payer", signer)
    tx.call(dbc.PROGRAM, ["other", *"1234567", JUP_STUDIO], dbc.CREATE_CONFIG)  # not this one
    tx.call(dbc.PROGRAM, [config, *"1234567", partner], dbc.CREATE_CONFIG)
    tx.token("vault", "mint", "auth")
    names = [config, "auth", creator, "mint", WSOL, "pool", "vault", *(f"x{n}" for n in range(8))]
    names[10 if token_2022 else 12] = builder.TOKEN_2022 if token_2022 else builder.TOKEN
    tag = dbc.INITIALIZE_WITH_TOKEN_2022 if token_2022 else dbc.INITIALIZE_WITH_SPL_TOKEN
    call = tx.call(dbc.PROGRAM, names, tag + text("Name") + text("NM") + text("https://uri"))
    tx.mint_to(call, "mint", "vault", 10**15)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (created,) = decoded.events
    assert isinstance(created, Creation)
    assert (created.name, created.symbol, created.uri) == ("Name", "NM", "https://uri")
    assert created.platform == platform
    assert (created.mint, created.pool) == (builder.address("mint"), builder.address("pool"))
    assert (created.supply_raw, created.decimals, created.quote_mint) == (10**15, 6, WSOL)
    assert created.token_program == (builder.TOKEN_2022 if token_2022 else builder.TOKEN)


@pytest.mark.parametrize("newer", [True, False])
def test_migration(newer: bool) -> None:
    tx = builder.TransactionBuilder("payer")
    for name, mint, owner in (
        ("base", "mint", "auth"),
        ("quote", WSOL, "auth"),
        ("pool_base", "mint", "pool"),
        ("pool_quote", WSOL, "pool"),
    ):
        tx.token(name, mint, owner, 10**9)
    names = [f"x{place}" for place in range(31)]
    names[0], names[2], names[4] = "curve", TRENDS, "pool"
    mints, vaults = ((13, 14), (15, 16)) if newer else ((7, 8), (11, 12))
    names[mints[0]], names[mints[1]] = "mint", WSOL
    names[vaults[0]], names[vaults[1]] = "pool_base", "pool_quote"
    call = tx.call(dbc.PROGRAM, names, dbc.MIGRATE_TO_DAMM_V2 if newer else dbc.MIGRATE_TO_DAMM_V1)
    inner = tx.call("amm", "x", b"initialize", under=call)
    tx.transfer(inner, "base", "pool_base", "auth", 20_000)
    tx.transfer(inner, "quote", "pool_quote", "auth", 85_000)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert migration.dex == ("meteora-damm-v2" if newer else "meteora-damm-v1")
    assert (migration.mint, migration.quote_mint) == (builder.address("mint"), WSOL)
    assert (migration.amount_raw, migration.quote_amount_raw) == (20_000, 85_000)
    assert migration.platform == "trends-fun"
