"""Mints and metadata as the local chain writes them, and what is made of damaged ones."""

from __future__ import annotations

import random

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
)

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
        ):
            try:
                read(bytes(data))
            except BadAccount:
                refused += 1
    assert refused > 1000
