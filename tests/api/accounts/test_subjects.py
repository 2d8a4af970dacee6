"""An address is covered as each kind that it was asked for as, apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from api.accounts.coverage import read_coverage, subject_of
from api.accounts.mints import Mint, MintReader, NoMint
from api.accounts.wallets import NotCovered, WalletAccountsReader
from schemas.accounts import StoredAccount, compress, mint_account_of, pack
from schemas.redis_keys import ACCOUNT, COVERED, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM, text

ADDRESS = bytes([3]) * 32
NAME = text(ADDRESS)


class Lane:
    """Redis, as far as the readers ask it: hashes and strings."""

    def __init__(self) -> None:
        self.hashes: dict[str, dict[str, bytes]] = {
            WATERMARK.make(tag=tag, group="accounts"): {"slot": b"9", "at_ms": b"1"}
            for tag in account_tags()
        }
        mint = bytes(44) + b"\6\1" + bytes(36)
        stored = StoredAccount(9, 5, TOKEN_PROGRAM, len(mint), compress(mint))
        self.values = {ACCOUNT.make(tag=account_tag(NAME), address=NAME): pack(stored)}

    def cover(self, subject: bytes) -> None:
        for tag in account_tags():
            name = COVERED.make(tag=tag, address=text(subject))
            self.hashes[name] = {"slot": b"8", "given": b"9"}

    async def ask(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        return [self._answer(*each) for each in commands]

    def _answer(self, command: str, name: str, *fields: Any) -> Any:
        record = self.hashes.get(name, {})
        match command:
            case "HMGET":
                return [record.get(each) for each in fields]
            case "HGET" | "HEXISTS":
                return record.get(fields[0])
            case "GET":
                return self.values.get(name)
            case "MGET":
                return [self.values.get(each) for each in (name, *fields)]
            case "SMEMBERS":
                return set()
            case "BITFIELD_RO":
                return [0]
            case "SCARD":
                return 0
        return None


def test_no_kind_shares_what_its_coverage_is_kept_under():
    subjects = {subject_of(kind, ADDRESS) for kind in ("wallet", "mint", "holders", "account")}
    assert len(subjects) == 4


async def test_the_coverage_of_a_mint_is_not_that_of_the_wallet_with_its_address():
    lane: Any = Lane()
    lane.cover(mint_account_of(ADDRESS))
    assert (await read_coverage(lane, "mint", ADDRESS)).is_complete
    assert not (await read_coverage(lane, "wallet", ADDRESS)).is_complete
    [wallet] = await WalletAccountsReader(lane).read([NAME])
    assert isinstance(wallet, NotCovered)
    assert isinstance((await MintReader(lane).read([NAME]))[NAME], Mint)


async def test_the_coverage_of_a_wallet_says_nothing_of_the_mint_at_its_address():
    lane: Any = Lane()
    lane.cover(ADDRESS)
    lane.values.clear()  # as nobody keeps the mint
    assert not (await read_coverage(lane, "mint", ADDRESS)).is_complete
    found = (await MintReader(lane).read([NAME]))[NAME]
    assert isinstance(found, NoMint)
    assert found.standing == "pending"


@pytest.mark.parametrize("address", [ADDRESS, STAKE_PROGRAM])
async def test_the_coverage_of_a_program_is_not_that_of_a_wallet(address: bytes):
    lane: Any = Lane()
    lane.cover(address)
    [found] = await WalletAccountsReader(lane).read([text(address)])
    assert isinstance(found, NotCovered) == (address == STAKE_PROGRAM)
