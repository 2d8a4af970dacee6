"""Mints and metadata as the local chain writes them, and what is made of damaged ones."""

from __future__ import annotations

import random
from struct import pack

import pytest

from infra.chain.market.runtime.accounts import metadata_data, mint_data, token_account_data
from infra.chain.market.runtime.ledger import Mint, TokenAccount
from infra.chain.market.runtime.ledger import metadata_address as address_on_the_chain
from infra.chain.market.runtime.programs import METADATA, TOKEN, TOKEN_2022
from schemas.solana.token_accounts import (
    BadAccount,
    Metadata,
    metadata_address,
    read_metadata,
    read_mint,
    read_token_account,
)
from schemas.solana.token_extensions import AccountExtensions, Extension

ADDRESS = bytes(range(32))


def mint_of(program: object, **more: object) -> Mint:
    return Mint(
        ADDRESS, 6, 10**15, program=program, name="Żółw 🐢", symbol="TURTLE", uri="ipfs://t", **more
    )  # type: ignore[arg-type]


def test_a_plain_mint_and_its_metaplex_account() -> None:
    mint = mint_of(TOKEN)
    read = read_mint(TOKEN.address, mint_data(mint))
    assert (read.decimals, read.supply_raw, read.metadata) == (6, 10**15, None)
    assert metadata_address(ADDRESS) == address_on_the_chain(mint)
    found = read_metadata(ADDRESS, METADATA.address, metadata_data(mint))
    assert found == Metadata("Żółw 🐢", "TURTLE", "ipfs://t")


@pytest.mark.parametrize("fee_bps", [0, 300])
def test_a_token_2022_mint_carries_its_own(fee_bps: int) -> None:
    read = read_mint(TOKEN_2022.address, mint_data(mint_of(TOKEN_2022, transfer_fee_bps=fee_bps)))
    assert read.metadata == Metadata("Żółw 🐢", "TURTLE", "ipfs://t")


def test_what_is_no_mint_is_named() -> None:
    mint = mint_of(TOKEN)
    with pytest.raises(BadAccount, match="no token program"):
        read_mint(METADATA.address, mint_data(mint))
    account = TokenAccount(ADDRESS, mint, ADDRESS, rent_lamports=0)
    with pytest.raises(BadAccount, match="165 bytes are no mint"):
        read_mint(TOKEN.address, token_account_data(account))
    with pytest.raises(BadAccount, match="not initialized"):
        read_mint(TOKEN.address, bytes(82))
    with pytest.raises(BadAccount, match="of another mint"):
        read_metadata(bytes(32), METADATA.address, metadata_data(mint))
    with pytest.raises(BadAccount, match="Metaplex"):
        read_metadata(ADDRESS, TOKEN.address, metadata_data(mint))


def test_damaged_bytes_are_bad_accounts_and_nothing_else() -> None:
    rng = random.Random(4)
    whole = [
        mint_data(mint_of(TOKEN)),
        mint_data(mint_of(TOKEN_2022)),
        metadata_data(mint_of(TOKEN)),
        token_account_data(TokenAccount(ADDRESS, mint_of(TOKEN_2022), ADDRESS, rent_lamports=0)),
    ]
    refused = 0
    for _ in range(4000):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randint(0, 6)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 255, rng.randrange(256)))
        del data[rng.randint(0, len(data)) if rng.random() < 0.5 else len(data) :]
        for read in (
            lambda raw: read_mint(TOKEN_2022.address, raw),
            lambda raw: read_metadata(ADDRESS, METADATA.address, raw),
            lambda raw: read_token_account(TOKEN_2022.address, raw),
        ):
            try:
                read(bytes(data))
            except BadAccount:
                refused += 1
    assert refused > 1000


def test_unknown_extensions_are_skipped_by_their_length() -> None:
    account = TokenAccount(ADDRESS, mint_of(TOKEN_2022), ADDRESS, rent_lamports=0)
    base = token_account_data(account)[:165]
    unknown = pack("<HH", 999, 3) + b"abc"
    withheld = pack("<HHQ", Extension.TRANSFER_FEE_AMOUNT, 8, 77)
    read = read_token_account(TOKEN_2022.address, base + b"\2" + unknown + withheld + bytes(9))
    assert read.extensions.kinds == (999, Extension.TRANSFER_FEE_AMOUNT)
    assert read.extensions.withheld_raw == 77


@pytest.mark.parametrize(
    ("number", "size", "name"),
    [
        (4, 65, None),  # of a mint
        (5, 295, "has_confidential_balance"),
        (7, 0, "is_owner_immutable"),
        (8, 1, "requires_memo"),
        (11, 1, "is_cpi_guarded"),
        (13, 0, "is_non_transferable"),
    ],
)
def test_an_extension_of_an_account_is_known_by_its_number(
    number: int, size: int, name: str | None
) -> None:
    account = TokenAccount(ADDRESS, mint_of(TOKEN_2022), ADDRESS, rent_lamports=0)
    entry = pack("<HH", number, size) + b"\1" * size
    data = token_account_data(account)[:165] + b"\2" + entry
    expected = AccountExtensions(kinds=(number,))
    if name is not None:
        setattr(expected, name, True)
    assert read_token_account(TOKEN_2022.address, data).extensions == expected


def test_a_token_account_is_frozen_by_its_state() -> None:
    data = bytearray(165)
    found = []
    for state in (1, 2):  # initialized, frozen
        data[108] = state
        found.append(read_token_account(TOKEN.address, bytes(data)).is_frozen)
    assert found == [False, True]
    data[108] = 3
    with pytest.raises(BadAccount, match="state is 3"):
        read_token_account(TOKEN.address, bytes(data))


def test_what_is_no_token_account_is_named() -> None:
    account = TokenAccount(ADDRESS, mint_of(TOKEN), ADDRESS, rent_lamports=0)
    data = token_account_data(account)
    assert read_token_account(TOKEN.address, data).amount_raw == account.amount_raw
    with pytest.raises(BadAccount, match="no token program"):
        read_token_account(METADATA.address, data)
    with pytest.raises(BadAccount, match="82 bytes are no account"):
        read_token_account(TOKEN.address, bytes(82))
    with pytest.raises(BadAccount, match="state is 0"):
        read_token_account(TOKEN.address, bytes(165))
    multisig = bytearray(355)
    multisig[165] = 2
    with pytest.raises(BadAccount, match="355 bytes are no account"):
        read_token_account(TOKEN_2022.address, bytes(multisig))
    short = data[:165].ljust(165, b"\0") + b"\2" + pack("<HHI", Extension.TRANSFER_FEE_AMOUNT, 4, 1)
    with pytest.raises(BadAccount, match="extension 2 of 4 bytes"):
        read_token_account(TOKEN_2022.address, short)
