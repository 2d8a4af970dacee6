"""Creating a token: what launch platforms call one after the other to make mint and vaults."""

from __future__ import annotations

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError
from infra.chain.market.runtime.ledger import METADATA_LAMPORTS, Mint, metadata_address
from infra.chain.market.runtime.programs import METADATA, NO_ADDRESS, SYSTEM, TOKEN, Program
from infra.chain.market.venues.venue import pack_u64


def borsh_texts(*texts: str) -> bytes:
    """Return strings with their lengths before them."""
    parts = []
    for text in texts:
        raw = text.encode()
        parts.append(len(raw).to_bytes(4, "little") + raw)
    return b"".join(parts)


def register(tx: Execution, coin: Mint) -> None:
    """Put a coin's mint on the ledger; fails where it is there already."""
    mints = tx.ledger.mints
    if coin.address in mints:
        raise InstructionError(0, "Create Account: account already in use")
    mints[coin.address] = coin
    tx.changes.undo.append(lambda: mints.pop(coin.address, None))


def initialize_mint(tx: Execution, coin: Mint) -> None:
    """initializeMint2 without freeze authority."""
    data = bytes((0x14, coin.decimals)) + (coin.authority or NO_ADDRESS) + b"\x00"
    tx.enter(coin.program, (coin.address,), data)
    tx.log("Program log: Instruction: InitializeMint2")
    tx.leave(2_780)


def create_mint(tx: Execution, payer: bytes, coin: Mint) -> None:
    """Create a plain SPL mint."""
    spl.create_account(tx, payer, coin.address, 1_461_600, 82, TOKEN)
    initialize_mint(tx, coin)


def create_vault(tx: Execution, payer: bytes, address: bytes, mint: Mint, owner: bytes) -> None:
    """Create a vault at a program's own address."""
    spl.create_account(tx, payer, address, mint.account_rent_lamports, 165, mint.program)
    spl.initialize_account(tx, address, mint, owner)


def create_state(tx: Execution, payer: bytes, address: bytes, space: int, owner: Program) -> None:
    """Create a program's state account, rent-exempt."""
    spl.create_account(tx, payer, address, (space + 128) * 6_960, space, owner)


def describe_with_metaplex(tx: Execution, coin: Mint, authority: bytes, payer: bytes) -> None:
    """Create the Metaplex metadata account of a coin (Create Metadata Accounts v3)."""
    address = metadata_address(coin)
    accounts = (address, coin.address, authority, payer, authority, SYSTEM.address)
    data = b"\x21" + borsh_texts(coin.name, coin.symbol, coin.uri) + bytes(7)
    tx.enter(METADATA, accounts, data)
    tx.log("Program log: IX: Create Metadata Accounts v3")
    spl.transfer_lamports(tx, payer, address, METADATA_LAMPORTS)
    described = tx.ledger.metadata
    described[address] = coin
    tx.changes.undo.append(lambda: described.pop(address, None))
    tx.log("Program log: Allocate space for the account")
    tx.enter(SYSTEM, (address,), b"\x08\x00\x00\x00" + pack_u64(679))
    tx.leave_builtin()
    tx.log("Program log: Assign the account to the owning program")
    tx.enter(SYSTEM, (address,), b"\x01\x00\x00\x00" + METADATA.address)
    tx.leave_builtin()
    tx.leave(33_000)
