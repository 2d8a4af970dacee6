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
from pipeline.solana.layout import Reader, u64

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


def _buy(ix: Instruction) -> Leg:
    """0 buyer, 1 curve, 2 mint, 3 buyer's account, 4 quote mint, 5 quote vault, 6 buyer's."""
    vault, mint, account = ix.account(5), ix.account(2), ix.account(3)
    moved = [move for move in ix.transfers() if move.destination == vault]
    bought = _supply_changes(ix, _MINT_TO, mint, account)
    if not moved or not bought:
        raise Malformed("nothing paid into the vault, or nothing minted")
    return Leg(
        pool=ix.address(1),
        input_mint=ix.address(4),
        output_mint=ix.address(2),
        input_raw=sum(move.received_raw for move in moved),
        output_raw=bought,
        paid_raw=sum(move.amount_raw for move in moved),
        source=ix.account(6),
        destination=account,
        user=ix.account(0),
        vault_in=vault,
        second_mint=ix.address(4),
    )


def _sell(ix: Instruction) -> Leg:
    """Read a sale: accounts as of a buy, the seller's for the buyer's."""
    vault, mint, account = ix.account(5), ix.account(2), ix.account(3)
    moved = [move for move in ix.transfers() if move.source == vault]
    sold = _supply_changes(ix, _BURN, account, mint)
    if not moved or not sold:
        raise Malformed("nothing paid out of the vault, or nothing burnt")
    received = ix.account(6)
    return Leg(
        pool=ix.address(1),
        input_mint=ix.address(2),
        output_mint=ix.address(4),
        input_raw=sold,
        output_raw=sum(move.amount_raw for move in moved),
        received_raw=sum(move.received_raw for move in moved if move.destination == received),
        source=account,
        destination=received,
        user=ix.account(0),
        vault_out=vault,
        second_mint=ix.address(4),
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
    """0 creator, 1 curve, 2 mint, 3 quote mint, 8 token program."""
    params = Reader(ix.data, 1)
    name, symbol, uri = params.string(), params.string(), params.string()
    return Created(
        mint=ix.address(2),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(0),
        pool=ix.address(1),
        quote_mint=ix.address(3),
        token_program=ix.address(8),
    )


def _graduate_whirlpool(ix: Instruction) -> Migrated:
    """2 curve, 3/8 quote and base mints, 7/11 the Whirlpool's vaults of them, 14 Whirlpool."""
    return migration_by_vaults(ix, "orca-whirlpool", curve=2, pool=14, mints=(8, 3), vaults=(11, 7))


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
