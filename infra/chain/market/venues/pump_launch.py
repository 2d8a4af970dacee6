"""pump.fun coins: how they are created, and how they move to PumpSwap when the curve is full."""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.events import Launch, Move
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint, metadata_address
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    MAYHEM,
    METADATA,
    NO_ADDRESS,
    PUMP_FUN,
    PUMP_SWAP,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    WSOL,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.launches import (
    borsh_texts,
    create_mint,
    describe_with_metaplex,
    initialize_mint,
    register,
)
from infra.chain.market.venues.pump_fun import (
    CURVE_RENT_LAMPORTS,
    FOR_SALE_RAW,
    GLOBAL,
    SUPPLY_RAW,
    VIRTUAL_TOKENS_RAW,
    BondingCurve,
)
from infra.chain.market.venues.pump_swap import GLOBAL_CONFIG, PumpSwapPool, create_pool
from infra.chain.market.venues.venue import pack_u64
from schemas.solana.addresses import key

MINT_AUTHORITY: Final = key("TSLvdd1pWpHVjahSpsvCXUbgwsL3JAcvokwaKt1eokM")
WITHDRAW_AUTHORITY: Final = key("39azUYFWPz3VHgKCf3VChUwbpURdCHRxjWVowf5jUJjg")
MAYHEM_PARAMS: Final = key("13ec7XdrjF3h3YcqBTFDSReRcUFwbCnJaAQspM4j6DDJ")
MAYHEM_SOL_VAULT: Final = key("BwWK17cbHxwWBKZkUYvzxLcNQ1YVyaFezduWbtm2de6s")
MIGRATION_FEE_LAMPORTS: Final = 15_000_001

_CREATE: Final = anchor_tag("create")
_CREATE_V2: Final = anchor_tag("create_v2")
_MIGRATE: Final = anchor_tag("migrate")
_CREATED: Final = event_tag("CreateEvent")
_MIGRATED: Final = event_tag("CompletePumpAmmMigrationEvent")
_TOKEN_METADATA: Final = bytes.fromhex("d2e11ea258b84d8d")
_UPDATE_AUTHORITY: Final = bytes.fromhex("d7e4a6e45464567b")


def new_coin(address: bytes, version_2: bool, name: str, symbol: str, uri: str) -> Mint:
    """Return the mint of a coin that is about to be created."""
    return Mint(
        address,
        6,
        0,
        TOKEN_2022 if version_2 else TOKEN,
        authority=MINT_AUTHORITY,
        name=name,
        symbol=symbol,
        uri=uri,
        platform="pump-fun",
    )


def create(tx: Execution, directory: Directory, curve: BondingCurve, user: bytes) -> None:
    """Execute create or create_v2, by the coin's token program; the coin is tradable after it."""
    coin, sol = curve.sides
    version_2 = coin.program is TOKEN_2022
    args = borsh_texts(coin.name, coin.symbol, coin.uri) + curve.creator
    if version_2:
        place = _enter_create_v2(tx, curve, user, args)
    else:
        place = _enter_create(tx, curve, user, args)
    register(tx, coin)
    if version_2:
        _initialize_mint_v2(tx, coin, user)
    else:
        create_mint(tx, user, coin)
    spl.create_account(tx, user, curve.address, CURVE_RENT_LAMPORTS, 151, PUMP_FUN)
    spl.create_associated(tx, user, curve.address, coin, idempotent=False)
    native = sol.address == WSOL
    if not native:
        spl.create_associated(tx, user, curve.address, sol, idempotent=False)
    if version_2:
        _describe_in_mint(tx, coin, user)
    else:
        describe_with_metaplex(tx, coin, MINT_AUTHORITY, user)
    spl.mint_to(tx, coin, curve.vaults[0], MINT_AUTHORITY, SUPPLY_RAW)
    spl.revoke_mint_authority(tx, coin, MINT_AUTHORITY)
    event = (
        _CREATED
        + borsh_texts(coin.name, coin.symbol, coin.uri)
        + coin.address
        + curve.address
        + user
        + curve.creator
        + pack_u64(tx.time_s)
        + Struct("<QQQQ").pack(
            VIRTUAL_TOKENS_RAW,
            curve.virtual_lamports if native else 0,
            FOR_SALE_RAW,
            SUPPLY_RAW,
        )
        + coin.program.address
        + b"\x00\x00"  # no mayhem mode, no cashback
        + (NO_ADDRESS if native else sol.address)
        + pack_u64(curve.virtual_lamports)
    )
    tx.emit_log(event)
    tx.emit_cpi(PUMP_FUN, event)
    directory.open(tx, curve)
    tx.leave(40_000)
    tx.launches.append(
        Launch(place, coin, curve.creator, "pump-fun", "pump-fun", curve.address, sol)
    )


def _enter_create_v2(tx: Execution, curve: BondingCurve, user: bytes, args: bytes) -> int:
    coin, sol = curve.sides
    mayhem_state = pda(MAYHEM, b"mayhem-state", coin.address)
    accounts = (
        coin.address,
        MINT_AUTHORITY,
        curve.address,
        curve.vaults[0],
        GLOBAL,
        user,
        SYSTEM.address,
        TOKEN_2022.address,
        ASSOCIATED_TOKEN.address,
        MAYHEM.address,
        MAYHEM_PARAMS,
        MAYHEM_SOL_VAULT,
        mayhem_state,
        tx.ledger.associated(MAYHEM_SOL_VAULT, coin),
        PUMP_FUN.event_authority,
        PUMP_FUN.address,
        sol.address,
        tx.ledger.associated(curve.address, sol),
        TOKEN.address,
    )
    writable = mask("w-ww-w-----www---w-")
    place = tx.enter(PUMP_FUN, accounts, _CREATE_V2 + args + b"\x00\x00", writable)
    tx.log("Program log: Instruction: CreateV2")
    return place


def _enter_create(tx: Execution, curve: BondingCurve, user: bytes, args: bytes) -> int:
    coin = curve.sides[0]
    accounts = (
        coin.address,
        MINT_AUTHORITY,
        curve.address,
        curve.vaults[0],
        GLOBAL,
        METADATA.address,
        metadata_address(coin),
        user,
        SYSTEM.address,
        TOKEN.address,
        ASSOCIATED_TOKEN.address,
        RENT_SYSVAR,
        PUMP_FUN.event_authority,
        PUMP_FUN.address,
    )
    place = tx.enter(PUMP_FUN, accounts, _CREATE + args, mask("w-ww--ww------"))
    tx.log("Program log: Instruction: Create")
    return place


def _initialize_mint_v2(tx: Execution, coin: Mint, user: bytes) -> None:
    spl.create_account(tx, user, coin.address, 2_519_520, 234, TOKEN_2022)
    tx.enter(TOKEN_2022, (coin.address,), b"\x27\x00" + NO_ADDRESS + coin.address)
    tx.log("Program log: MetadataPointerInstruction::Initialize")
    tx.leave(925)
    initialize_mint(tx, coin)


def _describe_in_mint(tx: Execution, coin: Mint, user: bytes) -> None:
    spl.transfer_lamports(tx, user, coin.address, 1_148_400)
    accounts = (coin.address, MINT_AUTHORITY, coin.address, MINT_AUTHORITY)
    data = _TOKEN_METADATA + borsh_texts(coin.name, coin.symbol, coin.uri)
    tx.enter(TOKEN_2022, accounts, data)
    tx.log("Program log: TokenMetadataInstruction: Initialize")
    tx.leave(3_522)
    tx.enter(TOKEN_2022, (coin.address, MINT_AUTHORITY), _UPDATE_AUTHORITY + NO_ADDRESS)
    tx.log("Program log: TokenMetadataInstruction: UpdateAuthority")
    tx.leave(3_866)


def migrated_pool(ledger: Ledger, curve: BondingCurve) -> PumpSwapPool:
    """Return the pool that a curve's coin will trade in."""
    coin, sol = curve.sides
    authority = pda(PUMP_FUN, b"pool-authority", coin.address)
    return PumpSwapPool(ledger, authority, (coin, sol), curve.creator)


def migrate(
    tx: Execution, directory: Directory, curve: BondingCurve, pool: PumpSwapPool, user: bytes
) -> None:
    """Execute migrate: the full curve's SOL and the unsold tokens become a PumpSwap pool."""
    coin, sol = curve.sides
    ledger = tx.ledger
    authority = pda(PUMP_FUN, b"pool-authority", coin.address)
    own_coin, own_sol = ledger.associated(authority, coin), ledger.associated(authority, sol)
    own_lp = ledger.associated(authority, Mint(pool.lp_mint, 9, 0, TOKEN_2022))
    accounts = (
        GLOBAL,
        WITHDRAW_AUTHORITY,
        coin.address,
        curve.address,
        curve.vaults[0],
        user,
        SYSTEM.address,
        TOKEN.address,
        PUMP_SWAP.address,
        pool.address,
        authority,
        own_coin,
        own_sol,
        GLOBAL_CONFIG,
        WSOL,
        pool.lp_mint,
        own_lp,
        *pool.vaults,
        TOKEN_2022.address,
        ASSOCIATED_TOKEN.address,
        PUMP_SWAP.event_authority,
        PUMP_FUN.event_authority,
        PUMP_FUN.address,
        RENT_SYSVAR,
    )
    place = tx.enter(PUMP_FUN, accounts, _MIGRATE, mask("-w-www---wwww--wwww------"))
    tx.log("Program log: Instruction: Migrate")
    if not curve.alive or curve.tokens_raw:
        raise InstructionError(6_005, "Error: BondingCurveNotComplete")
    tokens = ledger.balance(curve.vaults[0])
    tx.move_lamports(curve.address, authority, MIGRATION_FEE_LAMPORTS)
    for owner, mint in (
        (pool.address, coin),
        (pool.address, sol),
        (authority, coin),
        (authority, sol),
    ):
        spl.create_associated(tx, authority, owner, mint, others=(curve.address,))
    spl.transfer_checked(tx, curve.vaults[0], coin, own_coin, curve.address, tokens)
    lamports = curve.sol_raw - MIGRATION_FEE_LAMPORTS
    tx.move_lamports(curve.address, own_sol, lamports)
    tx.touch(curve)
    curve.tokens_raw = curve.sol_raw = 0
    spl.sync_native(tx, own_sol, (RENT_SYSVAR, curve.address))
    create_pool(tx, directory, pool, authority, (tokens, lamports))
    spl.close_account(tx, own_coin, WITHDRAW_AUTHORITY, authority)
    spl.close_account(tx, own_sol, WITHDRAW_AUTHORITY, authority)
    lp = ledger.tokens[own_lp]
    spl.burn(tx, own_lp, lp.mint, authority, lp.amount_raw)
    spl.close_account(tx, own_lp, WITHDRAW_AUTHORITY, authority)
    rest = ledger.lamports.get(authority, 0)
    spl.transfer_lamports(tx, authority, WITHDRAW_AUTHORITY, rest)
    event = (
        _MIGRATED
        + user
        + coin.address
        + Struct("<QQQ").pack(tokens, lamports, MIGRATION_FEE_LAMPORTS)
        + curve.address
        + pack_u64(tx.time_s)
        + pool.address
        + NO_ADDRESS
    )
    tx.emit_log(event)
    tx.emit_cpi(PUMP_FUN, event)
    directory.close(tx, curve)
    tx.leave(60_000)
    tx.moves.append(
        Move(
            place,
            coin,
            "pump-fun",
            "pump-fun",
            curve.address,
            "pump-swap",
            pool.address,
            sol,
            tokens,
            lamports,
        )
    )
