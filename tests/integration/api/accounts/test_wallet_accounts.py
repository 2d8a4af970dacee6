"""What a wallet's accounts hold, read from what agent `accounts` has written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from struct import pack

import pytest

from api.accounts import wallets
from api.accounts.following import FollowState
from api.accounts.wallets import NotCovered, WalletAccounts, WalletAccountsReader
from api.stores.clients import Stores
from infra.settings import Settings
from schemas.accounts import MOST_OF_WALLET
from schemas.protocols import programs
from schemas.redis_keys import ACCOUNT, COVERED, FOUND_BY, account_tag
from schemas.solana.addresses import TOKEN_2022_PROGRAM, text
from tests.support.api.accounts_lane import TAGS, AccountsLane, extension, token_data

WALLET, OTHER = b"w" * 32, b"o" * 32
MINTS = [bytes([200 + n]) * 32 for n in range(4)]
ACCOUNTS = [bytes([n]) * 32 for n in range(1, 13)]


@pytest.fixture
async def stores(settings: Settings) -> AsyncIterator[Stores]:
    stores = Stores(settings)
    yield stores
    await stores.close()


@pytest.fixture
def reader(stores: Stores) -> WalletAccountsReader:
    return WalletAccountsReader(stores)


@pytest.fixture
async def covered(lane: AccountsLane) -> AccountsLane:
    """A lane in which a wallet with twelve accounts and some SOL is covered."""
    await lane.advance()
    for n, address in enumerate(ACCOUNTS):
        held = token_data(MINTS[n % 4], WALLET, 100 + n)
        await lane.write(address, held, found_by=[WALLET])
    await lane.own_sol(WALLET, 7_000)
    await lane.cover(WALLET)
    return lane


async def read_one(reader: WalletAccountsReader) -> WalletAccounts | NotCovered:
    (found,) = await reader.read([text(WALLET)])
    return found


async def complete(reader: WalletAccountsReader) -> WalletAccounts:
    found = await read_one(reader)
    assert isinstance(found, WalletAccounts), found
    return found


def amounts(found: WalletAccounts) -> dict[bytes, int]:
    return {address: state.amount_raw for address, _, state in found.tokens}


async def test_all_accounts_and_the_sol_are_read_from_all_partitions(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    await covered.advance(5)
    found = await complete(reader)
    assert amounts(found) == {address: 100 + n for n, address in enumerate(ACCOUNTS)}
    assert len({account_tag(text(address)) for address in ACCOUNTS}) > 3
    assert (found.lamports, found.since_slot) == (7_000, covered.slot - 5)
    assert (found.as_of_slot, found.as_of_ms) == (covered.slot, covered.time_ms)


async def test_many_wallets_in_their_order(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    nobody, other, found = await reader.read([text(b"n" * 32), text(OTHER), text(WALLET)])
    assert nobody == other == NotCovered(FollowState.NOT_FOLLOWED)
    assert isinstance(found, WalletAccounts)


async def test_a_program_among_them_is_judged_by_itself(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    program = text(TOKEN_2022_PROGRAM)
    await covered.cover(TOKEN_2022_PROGRAM)
    for asked in ([program, text(WALLET)], [text(WALLET), program]):
        found = dict(zip(asked, await reader.read(asked), strict=True))
        assert found[program] == NotCovered(FollowState.NOT_FOLLOWED)
        assert isinstance(found[text(WALLET)], WalletAccounts)


async def test_a_closed_account_is_gone(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    await covered.advance()
    await covered.write(ACCOUNTS[3], b"", closed=True)
    await covered.write(WALLET, b"", program=bytes(32), closed=True)
    found = await complete(reader)
    assert ACCOUNTS[3] not in amounts(found)
    assert (len(found.tokens), found.lamports) == (11, 0)


async def test_a_hint_that_names_another_wallet_now_is_no_holding(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    await covered.write(ACCOUNTS[0], token_data(MINTS[0], OTHER, 5), found_by=[OTHER])
    tag = account_tag(text(ACCOUNTS[1]))
    await covered.redis.delete(ACCOUNT.make(tag=tag, address=text(ACCOUNTS[1])))
    found = await complete(reader)
    assert {*amounts(found)} == {*ACCOUNTS[2:]}


async def test_what_is_below_the_coverage_is_not_alive(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    await covered.advance(10)
    await covered.write(ACCOUNTS[5], token_data(MINTS[0], WALLET, 9))
    await covered.cover(WALLET)
    found = await complete(reader)
    assert (amounts(found), found.lamports) == ({ACCOUNTS[5]: 9}, 0)
    assert found.since_slot == covered.slot


async def test_coverage_in_some_partitions_is_none(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    for tag in (TAGS[0], TAGS[-1]):
        await covered.redis.delete(COVERED.make(tag=tag, address=text(WALLET)))
        assert await read_one(reader) == NotCovered(FollowState.NOT_FOLLOWED)
        await covered.cover(WALLET)
    await covered.lose(covered.slot + 1)
    found = await read_one(reader)
    assert isinstance(found, NotCovered)
    assert (found.standing, "lost" in found.withdrawn) == (FollowState.WITHDRAWN, True)
    await covered.withdraw(WALLET, "a hole of 200 slots")
    assert await read_one(reader) == NotCovered(FollowState.WITHDRAWN, "a hole of 200 slots")


async def test_a_wallet_that_is_let_go_while_it_is_read_is_not_called_empty(
    covered: AccountsLane,
    stores: Stores,
    reader: WalletAccountsReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = stores.ask
    trips = 0

    async def let_go_before_the_accounts(commands):  # type: ignore[no-untyped-def]
        nonlocal trips
        trips += 1
        if trips == 3:
            for tag in TAGS:
                await covered.redis.delete(COVERED.make(tag=tag, address=text(WALLET)))
            for address in ACCOUNTS:
                tag = account_tag(text(address))
                await covered.redis.delete(ACCOUNT.make(tag=tag, address=text(address)))
        return await ask(commands)

    monkeypatch.setattr(stores, "ask", let_go_before_the_accounts)
    assert await read_one(reader) == NotCovered(FollowState.NOT_FOLLOWED)


async def test_a_reading_between_two_partitions_is_made_again(
    covered: AccountsLane,
    stores: Stores,
    reader: WalletAccountsReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transfer that one partition has applied and another has not is not seen half."""
    await covered.write(ACCOUNTS[0], token_data(MINTS[0], WALLET, 0), slot=covered.slot + 1)
    ask = stores.ask
    trips = 0

    async def second_half_comes(commands):  # type: ignore[no-untyped-def]
        nonlocal trips
        trips += 1
        if trips == 4:
            await covered.write(
                ACCOUNTS[4], token_data(MINTS[0], WALLET, 204), slot=covered.slot + 1
            )
            await covered.advance()
        return await ask(commands)

    monkeypatch.setattr(stores, "ask", second_half_comes)
    monkeypatch.setattr(wallets, "PAUSE_S", 0)
    found = await complete(reader)
    assert (amounts(found)[ACCOUNTS[0]], amounts(found)[ACCOUNTS[4]]) == (0, 204)
    assert trips == 5


async def test_frozen_delegated_and_withheld_are_read(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    data = token_data(
        MINTS[0],
        WALLET,
        50,
        delegate=OTHER,
        delegated_raw=20,
        state=2,
        extensions=extension(2, pack("<Q", 3)),
    )
    await covered.write(ACCOUNTS[0], data, program=TOKEN_2022_PROGRAM, found_by=[WALLET])
    found = await complete(reader)
    ((program, state),) = [(p, s) for address, p, s in found.tokens if address == ACCOUNTS[0]]
    assert program == TOKEN_2022_PROGRAM
    assert (state.is_frozen, state.delegate, state.delegated_raw) == (True, OTHER, 20)
    assert state.extensions.withheld_raw == 3


async def test_bytes_that_are_no_account_are_said_so(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    tag = account_tag(text(ACCOUNTS[0]))
    await covered.redis.set(ACCOUNT.make(tag=tag, address=text(ACCOUNTS[0])), b"short")
    assert await read_one(reader) == NotCovered(FollowState.UNREADABLE)


async def test_no_more_accounts_are_read_than_may(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    key = FOUND_BY.make(tag=TAGS[2], address=text(WALLET))
    many = [n.to_bytes(32, "big") for n in range(MOST_OF_WALLET)]
    await covered.redis.sadd(key, *many)
    assert await read_one(reader) == NotCovered(FollowState.TOO_MANY_ACCOUNTS)


async def test_the_wallets_of_a_batch_share_a_bound(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    fillers = [bytes([n]) * 32 for n in (101, 102, 103)]
    for filler, count in zip(fillers, (1_995, 1_995, 1_010), strict=True):
        many = [n.to_bytes(32, "big") for n in range(count)]
        await covered.redis.sadd(FOUND_BY.make(tag=TAGS[2], address=text(filler)), *many)
        await covered.cover(filler)
    first, second, third = map(text, fillers)
    too_many = NotCovered(FollowState.TOO_MANY_ACCOUNTS)
    *others, last = await reader.read([first, second, third, text(WALLET)])
    assert too_many not in others
    assert last == too_many, "none is left, and it has twelve"
    *_, wallet, last = await reader.read([first, second, text(WALLET), third])
    assert isinstance(wallet, WalletAccounts)
    assert last == too_many


async def test_without_a_lane_it_is_said_so(
    lane: AccountsLane, reader: WalletAccountsReader
) -> None:
    assert await read_one(reader) == NotCovered(FollowState.NOT_INGESTED)


async def test_sol_counts_whatever_program_has_the_wallet_s_account(
    covered: AccountsLane, reader: WalletAccountsReader
) -> None:
    await covered.write(WALLET, b"", program=programs.OTHER, lamports=9)
    assert (await complete(reader)).lamports == 9
    await covered.write(WALLET, b"", program=programs.OTHER, lamports=9, slot=covered.slot - 1)
    assert (await complete(reader)).lamports == 0, (
        "the answer that covers the wallet has it no more"
    )
