"""What a wallet's tokens lead to: all of them are looked up, whatever strangers have sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from api.positions import by_mint
from api.positions.accounts_reader import AccountsReader, WalletAccounts
from api.positions.by_mint import ByMint, Found
from api.stores.clients import Stores
from schemas.account_reading import Coverage, PartitionState
from schemas.protocols.contract import Account, Kind
from schemas.protocols.whirlpools import POSITION
from schemas.redis_keys import POOLS_OF, account_tag, account_tags
from schemas.solana.addresses import text

BUNDLE = b"b" * 32
OTHER = Kind("example_position", b"p" * 32, b"example", mints=(8,))


def number(at: int) -> bytes:
    return at.to_bytes(32, "big")


class Index:
    """Redis with the index of mints alone; counts trips and what it has answered."""

    def __init__(self, found: dict[bytes, list[bytes]]) -> None:
        self._sets: dict[str, list[bytes]] = {}
        self.trips = self.answered = 0
        for mint, addresses in found.items():
            for address in addresses:
                name = POOLS_OF.make(tag=account_tag(text(address)), mint=text(mint))
                self._sets.setdefault(name, []).append(address)

    async def ask(self, commands: Sequence[Sequence[Any]]) -> list[list[bytes]]:
        self.trips += 1
        answers = []
        for verb, name, count in commands:
            assert verb == "SRANDMEMBER"
            answers.append(self._sets.get(name, [])[:count])
        self.answered += sum(map(len, answers))
        return answers


class Accounts:
    """Accounts of a kind at any address, of one mint."""

    def __init__(self, kind: Kind, mint: bytes) -> None:
        self._kind = kind
        self._data = kind.tag.ljust(kind.mints[0], b"\0") + mint
        self.read = 0

    async def stored(self, wanted: Iterable[bytes]) -> dict[bytes, bytes]:
        found = dict.fromkeys(wanted, b"stored")
        self.read += len(found)
        return found

    def living(self, finder: bytes, state: PartitionState, address: bytes, packed: bytes) -> object:
        return Account(address, self._kind, 1, self._data, 5)


def find(index: Index, tokens: dict[bytes, int], kind: Kind = POSITION) -> tuple[Found, int]:
    state = PartitionState(9, {}, frozenset(), may_be_away=False)
    states = dict.fromkeys(account_tags(), state)
    held = WalletAccounts([], {}, {b"w" * 32: Coverage(1)}, 0, 0, 9, 9, states)
    accounts = Accounts(kind, BUNDLE)
    reader = ByMint(cast("Stores", index), cast("AccountsReader", accounts))
    return asyncio.run(reader.find(held, tokens, {OTHER, kind})), accounts.read


def test_dust_of_a_thousand_tokens_leaves_nothing_out() -> None:
    dust = {number(at): 1 for at in range(1, 1_000)}
    index = Index({BUNDLE: [number(7)]})
    found, _ = find(index, {**dust, BUNDLE: 1})
    assert found.left_out == []
    assert [each.address for each in found.accounts] == [number(7)]
    assert index.trips == 1


@pytest.mark.parametrize("count", [17, 100, 256])
def test_a_bundle_leads_to_all_of_its_positions_wherever_they_are(count: int) -> None:
    positions = [number(at) for at in range(count)]
    found, _ = find(Index({BUNDLE: positions}), {BUNDLE: 1})
    assert found.left_out == []
    assert [each.address for each in found.accounts] == positions
    tag = account_tag(text(number(0)))
    of_one = [each for each in map(number, range(20 * count)) if account_tag(text(each)) == tag]
    found, _ = find(Index({BUNDLE: of_one[:count]}), {BUNDLE: 1})
    assert found.left_out == []
    assert [each.address for each in found.accounts] == of_one[:count]


@pytest.mark.parametrize(("kind", "most"), [(POSITION, 256), (OTHER, 128)])
def test_a_mint_that_leads_to_more_than_its_kinds_allow_is_named(kind: Kind, most: int) -> None:
    named = [f"token {text(BUNDLE)} leads to too many accounts"]
    for count in (most, most + 1):
        index = Index({BUNDLE: [number(at) for at in range(count)]})
        found, read = find(index, {BUNDLE: 1}, kind)
        assert found.left_out == (named if count > most else [])
        assert read == len(found.accounts) == most


def test_what_is_read_and_answered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = {number(at): [number(10_000 * at + n) for n in range(256)] for at in range(1, 200)}
    index = Index(bundles)
    found, read = find(index, dict.fromkeys(bundles, 1))
    assert read == by_mint.MOST_FOUND
    assert index.trips == 2
    assert any(f"{by_mint.MOST_FOUND} were read" in each for each in found.left_out)
    first = len(bundles) * len(account_tags()) * (by_mint.FEW_OF_MINT + 1)
    assert index.answered <= first + by_mint.MOST_CROWDED * 257
    last = f"token {text(number(199))} leads to too many accounts"
    assert last in found.left_out
    monkeypatch.setattr(by_mint, "MOST_MINTS", 3)
    found, _ = find(Index({}), dict.fromkeys(bundles, 1))
    assert found.left_out == ["of the wallet's 199 tokens 3 were looked up"]
