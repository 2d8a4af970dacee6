"""Orca Wavebreak: bonding curves that mint what they sell and burn what they buy back.

The quote moves by token transfers into and out of the curve's vault; the token has no vault.
Base fees are minted or kept beside the trade. Source: carbon's wavebreak decoder (layouts);
no mainnet transaction was at hand.

Not decoded: fees (neither an instruction nor an event names them), presale refunds,
permissions.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Created,
    Instruction,
    Leg,
    Malformed,
    Migrated,
    Venue,
    migration_by_vaults,
    tags,
)
from schemas.solana.borsh import Reader, u64

DEX: Final = "orca-wavebreak"
PROGRAM: Final = "waveQX2yP3H1pVU8djGvEHmYg8uamQ84AuyGtpsrXTF"

BUY_EXACT_IN: Final = b"\x08"
BUY_EXACT_OUT: Final = b"\x09"
SELL_EXACT_IN: Final = b"\x0a"
SELL_EXACT_OUT: Final = b"\x0b"
GRADUATE_WHIRLPOOL: Final = b"\x20"
CREATE_LOCKED_LAUNCH: Final = b"\x28"
CREATE_LAUNCH: Final = b"\x29"
CREATE_PRESALE: Final = b"\x2a"

_MINT_TO: Final = (b"\x07", b"\x0e")  # accounts: mint, destination
_BURN: Final = (b"\x08", b"\x0f")  # accounts: source, mint

# Accounts of the purchases and sales.
TRADER, CURVE, BASE_MINT, TRADER_BASE, QUOTE_MINT, QUOTE_VAULT, TRADER_QUOTE = 0, 1, 2, 3, 4, 5, 6
# Accounts of the creations.
CREATE_CREATOR, CREATE_CURVE, CREATE_BASE_MINT, CREATE_QUOTE_MINT = 0, 1, 2, 3
CREATE_TOKEN_PROGRAM: Final = 8
# Accounts of the graduation to a Whirlpool.
GRADUATE_CURVE, GRADUATE_QUOTE_MINT, GRADUATE_QUOTE_VAULT, GRADUATE_BASE_MINT = 2, 3, 7, 8
GRADUATE_BASE_VAULT, GRADUATE_POOL = 11, 14


def _buy(ix: Instruction) -> Leg:
    vault, mint, account = ix.account(QUOTE_VAULT), ix.account(BASE_MINT), ix.account(TRADER_BASE)
    moved = [move for move in ix.transfers() if move.destination == vault]
    bought = _supply_changes(ix, _MINT_TO, mint, account)
    if not moved or not bought:
        raise Malformed("nothing paid into the vault, or nothing minted")
    return Leg(
        pool=ix.address(CURVE),
        input_mint=ix.address(QUOTE_MINT),
        output_mint=ix.address(BASE_MINT),
        input_raw=sum(move.received_raw for move in moved),
        output_raw=bought,
        paid_raw=sum(move.amount_raw for move in moved),
        source=ix.account(TRADER_QUOTE),
        destination=account,
        user=ix.account(TRADER),
        vault_in=vault,
        second_mint=ix.address(QUOTE_MINT),
    )


def _sell(ix: Instruction) -> Leg:
    vault, mint, account = ix.account(QUOTE_VAULT), ix.account(BASE_MINT), ix.account(TRADER_BASE)
    moved = [move for move in ix.transfers() if move.source == vault]
    sold = _supply_changes(ix, _BURN, account, mint)
    if not moved or not sold:
        raise Malformed("nothing paid out of the vault, or nothing burnt")
    received = ix.account(TRADER_QUOTE)
    return Leg(
        pool=ix.address(CURVE),
        input_mint=ix.address(BASE_MINT),
        output_mint=ix.address(QUOTE_MINT),
        input_raw=sold,
        output_raw=sum(move.amount_raw for move in moved),
        received_raw=sum(move.received_raw for move in moved if move.destination == received),
        source=account,
        destination=received,
        user=ix.account(TRADER),
        vault_out=vault,
        second_mint=ix.address(QUOTE_MINT),
    )


def _supply_changes(ix: Instruction, kinds: tuple[bytes, bytes], first: int, second: int) -> int:
    """Sum what the instruction minted or burnt with two given accounts in front."""
    tx = ix.tx
    return sum(
        u64(tx.data[at], 1)
        for at in range(ix.position + 1, tx.subtree_end(ix.position))
        if tx.data[at][:1] in kinds
        and len(tx.data[at]) >= 9
        and tx.accounts[at][:2] == bytes((first, second))
    )


def _create(ix: Instruction) -> Created:
    params = Reader(ix.data, 1)
    name, symbol, uri = params.string(), params.string(), params.string()
    return Created(
        mint=ix.address(CREATE_BASE_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_CREATOR),
        pool=ix.address(CREATE_CURVE),
        quote_mint=ix.address(CREATE_QUOTE_MINT),
        token_program=ix.address(CREATE_TOKEN_PROGRAM),
    )


def _graduate_whirlpool(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "orca-whirlpool",
        curve=GRADUATE_CURVE,
        pool=GRADUATE_POOL,
        mints=(GRADUATE_BASE_MINT, GRADUATE_QUOTE_MINT),
        vaults=(GRADUATE_BASE_VAULT, GRADUATE_QUOTE_VAULT),
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY_EXACT_IN: _buy,
            BUY_EXACT_OUT: _buy,
            SELL_EXACT_IN: _sell,
            SELL_EXACT_OUT: _sell,
            GRADUATE_WHIRLPOOL: _graduate_whirlpool,
            CREATE_LOCKED_LAUNCH: _create,
            CREATE_LAUNCH: _create,
            CREATE_PRESALE: _create,
        },
        # 00-06 permissions, 0c refund, 10-12 authority, 18-1a mint config, 21 graduation by
        # hand, 30-33 administration of curves
        ignored=tags(
            *("00", "01", "02", "03", "04", "05", "06", "0c", "10", "11", "12"),
            *("18", "19", "1a", "21", "30", "31", "32", "33"),
        ),
        tag_size=1,
    ),
)
