"""Meteora Dynamic Bonding Curve: curves of many launch platforms, each with its configs.

A swap emits EvtSwap and, since build 0.1.6, EvtSwap2 for the same trade, both by self-CPI:
one swap. Fees stay in the vault but the referral's. Amounts are those of the token
transfers. Source: MeteoraAg/dynamic-bonding-curve, scripts/idl/release_0.1.2 to 0.1.6.

Not decoded: EvtCurveComplete (the migration follows). Which partner made a config is known
where the same transaction makes config and pool; else it is in the config's own account.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Created,
    Instruction,
    Leg,
    Migrated,
    Venue,
    migration_by_vaults,
    named,
    swap_by_vaults,
)
from schemas.solana.addresses import text
from schemas.solana.borsh import Reader

DEX: Final = "meteora-dbc"
PROGRAM: Final = "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN"

SWAP: Final = bytes.fromhex("f8c69e91e17587c8")
SWAP_2: Final = bytes.fromhex("414b3f4ceb5b5b88")
CREATE_CONFIG: Final = bytes.fromhex("c9cff3724b6f2fbd")
INITIALIZE_WITH_SPL_TOKEN: Final = bytes.fromhex("8c55d7b06636684f")
INITIALIZE_WITH_TOKEN_2022: Final = bytes.fromhex("a976334e916edc9b")
MIGRATE_TO_DAMM_V1: Final = bytes.fromhex("1b013016b43f76d9")
MIGRATE_TO_DAMM_V2: Final = bytes.fromhex("9ca9e66735e45040")

EVT_SWAP: Final = bytes.fromhex("1b3c15d58aaabb93")
EVT_SWAP_2: Final = bytes.fromhex("bd4233a826507599")

# Accounts of swap and swap2.
CONFIG, POOL, BASE_VAULT, QUOTE_VAULT, PAYER = 1, 2, 5, 6, 9
# Accounts of initialize_virtual_pool_with_spl_token and _with_token2022.
CREATE_CONFIG_KEY, CREATE_CREATOR, CREATE_BASE_MINT, CREATE_QUOTE_MINT, CREATE_POOL = 0, 2, 3, 4, 5
CREATE_TOKEN_PROGRAM, CREATE_TOKEN_2022_PROGRAM = 12, 10
# Accounts of migrate_meteora_damm.
DAMM_V1_CURVE, DAMM_V1_CONFIG, DAMM_V1_POOL, DAMM_V1_MINT_A, DAMM_V1_MINT_B = 0, 2, 4, 7, 8
DAMM_V1_VAULT_A, DAMM_V1_VAULT_B = 11, 12  # the token vaults that its liquidity lies in
# Accounts of migration_damm_v2.
DAMM_V2_CURVE, DAMM_V2_CONFIG, DAMM_V2_POOL, DAMM_V2_MINT_A, DAMM_V2_MINT_B = 0, 2, 4, 13, 14
DAMM_V2_VAULT_A, DAMM_V2_VAULT_B = 15, 16


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL, vaults=(BASE_VAULT, QUOTE_VAULT), user=PAYER)
    leg.config = ix.address(CONFIG)
    old = None
    for body in ix.cpi_events():
        if body[:8] == EVT_SWAP_2:
            _read_swap_2(leg, Reader(body, 74))
            return leg
        if body[:8] == EVT_SWAP:
            old = body
    if old is not None:
        _read_swap(leg, Reader(old, 74))
    return leg


def _read_swap_2(leg: Leg, event: Reader) -> None:
    """Read EvtSwap2 from its parameters on."""
    event.skip(8 + 8 + 1)  # amount_0, amount_1, swap_mode
    with_fee, without_fee = event.u64(), event.u64()
    event.skip(8 + 8)  # amount_left, output_amount
    leg.sqrt_price_x64 = event.u128()
    leg.fee_raw = event.u64() + event.u64() + event.u64()  # trading, protocol, referral
    leg.fee_mint = leg.input_mint if with_fee != without_fee else leg.output_mint
    quote_reserve = event.u64()
    if leg.input_mint == leg.second_mint:
        leg.reserve_in_raw = quote_reserve
    else:
        leg.reserve_out_raw = quote_reserve
    leg.migration_quote_raw = event.u64()


def _read_swap(leg: Leg, event: Reader) -> None:
    """Read EvtSwap from its parameters on."""
    event.skip(8 + 8)  # amount_in, minimum_amount_out
    without_fee = event.u64()
    event.skip(8)  # output_amount
    leg.sqrt_price_x64 = event.u128()
    leg.fee_raw = event.u64() + event.u64() + event.u64()  # trading, protocol, referral
    leg.fee_mint = leg.input_mint if event.u64() != without_fee else leg.output_mint


def _initialize_with_spl_token(ix: Instruction) -> Created:
    return _created(ix, token_program=CREATE_TOKEN_PROGRAM)


def _initialize_with_token_2022(ix: Instruction) -> Created:
    return _created(ix, token_program=CREATE_TOKEN_2022_PROGRAM)


def _created(ix: Instruction, *, token_program: int) -> Created:
    params = Reader(ix.data, 8)
    name, symbol, uri = params.string(), params.string(), params.string()
    return Created(
        mint=ix.address(CREATE_BASE_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_CREATOR),
        pool=ix.address(CREATE_POOL),
        quote_mint=ix.address(CREATE_QUOTE_MINT),
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(CREATE_BASE_MINT)) or None,
        token_program=ix.address(token_program),
        config=ix.address(CREATE_CONFIG_KEY),
        partners=_partners(ix),
    )


def _partners(ix: Instruction) -> tuple[str, ...]:
    """Return the accounts of the instruction that made the pool's config, if it is here too."""
    tx, program, config = ix.tx, ix.tx.programs[ix.position], ix.account(CREATE_CONFIG_KEY)
    for position in range(ix.position):
        if tx.programs[position] == program and tx.data[position][:8] == CREATE_CONFIG:
            accounts = tx.accounts[position]
            if accounts[:1] == bytes([config]):
                return tuple(text(tx.keys[account]) for account in accounts[1:])
    return ()


def _migrate_to_damm_v1(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "meteora-damm-v1",
        curve=DAMM_V1_CURVE,
        pool=DAMM_V1_POOL,
        mints=(DAMM_V1_MINT_A, DAMM_V1_MINT_B),
        vaults=(DAMM_V1_VAULT_A, DAMM_V1_VAULT_B),
        config=DAMM_V1_CONFIG,
    )


def _migrate_to_damm_v2(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "meteora-damm-v2",
        curve=DAMM_V2_CURVE,
        pool=DAMM_V2_POOL,
        mints=(DAMM_V2_MINT_A, DAMM_V2_MINT_B),
        vaults=(DAMM_V2_VAULT_A, DAMM_V2_VAULT_B),
        config=DAMM_V2_CONFIG,
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            SWAP: _swap,
            SWAP_2: _swap,
            INITIALIZE_WITH_SPL_TOKEN: _initialize_with_spl_token,
            INITIALIZE_WITH_TOKEN_2022: _initialize_with_token_2022,
            MIGRATE_TO_DAMM_V1: _migrate_to_damm_v1,
            MIGRATE_TO_DAMM_V2: _migrate_to_damm_v2,
        },
        ignored=named(
            "claim_creator_trading_fee",
            "claim_partner_pool_creation_fee",
            "claim_protocol_fee",
            "claim_protocol_pool_creation_fee",
            "claim_trading_fee",
            "close_claim_fee_operator",
            "close_claim_protocol_fee_operator",
            "close_operator_account",
            "create_claim_fee_operator",
            "create_config",
            "create_locker",
            "create_operator_account",
            "create_partner_metadata",
            "create_virtual_pool_metadata",
            "creator_withdraw_surplus",
            "migrate_meteora_damm_claim_lp_token",
            "migrate_meteora_damm_lock_lp_token",
            "migration_damm_v2_create_metadata",
            "migration_meteora_damm_create_metadata",
            "partner_withdraw_surplus",
            "protocol_withdraw_surplus",
            "transfer_pool_creator",
            "withdraw_lamports_from_pool_authority",
            "withdraw_leftover",
            "withdraw_migration_fee",
            "zap_protocol_fee",
        ),
    ),
)
