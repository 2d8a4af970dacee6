"""RPC compatibility, shown: the Python client `solana` reads what the local chain answers."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
from solana.exceptions import SolanaRpcException
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Finalized, Processed
from solana.rpc.core import RPCException
from solana.rpc.models import DataSliceOpts, MemcmpOpts, TokenAccountOpts
from solders.pubkey import Pubkey

from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support import account_world as world
from tests.support.account_world import text
from tests.support.account_writes import address, token_account

Serve = Any


def pubkey(raw: bytes) -> Pubkey:
    return Pubkey.from_bytes(raw)


@pytest.fixture
async def client(serve: Serve) -> AsyncIterator[AsyncClient]:
    """The client of the local chain with accounts."""
    chain = await serve(world.AccountSource(world.genesis()))
    chain.publish(world.events())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says of its own classes that they have new names
        made = AsyncClient(f"http://127.0.0.1:{chain.chain.rpc_port}", commitment=Finalized)
    async with made as client:
        yield client


async def test_accounts_and_balances_are_read_at_each_commitment(client: AsyncClient) -> None:
    native, closed = pubkey(world.NATIVE), pubkey(world.CLOSED_LATER)
    for commitment, lamports in ((Finalized, 1_000), (Confirmed, 2_000), (Processed, 3_000)):
        balance = await client.get_balance(native, commitment)
        assert balance.value == lamports
        assert balance.context.slot == world.SLOTS[str(commitment)]
        both = await client.get_multiple_accounts([native, closed], commitment)
        assert [each is not None for each in both.value] == [True, commitment == Finalized]
    found = (await client.get_account_info(native)).value
    assert found is not None
    assert (found.data, found.lamports, bytes(found.owner)) == (b"hello world", 1_000, bytes(32))
    part = await client.get_account_info(native, data_slice=DataSliceOpts(offset=6, length=3))
    assert part.value is not None
    assert part.value.data == b"wor"
    assert (await client.get_account_info(pubkey(address(9)))).value is None


async def test_accounts_of_programs_wallets_and_mints_are_found(client: AsyncClient) -> None:
    even = [MemcmpOpts(offset=36, bytes=text(bytes(32))), 200]
    stakes = await client.get_program_accounts(
        pubkey(STAKE_PROGRAM), encoding="base64", filters=even
    )
    assert {bytes(each.pubkey): each.account.data for each in stakes.value} == dict.fromkeys(
        world.STAKES[::2], world.stake(0)
    )
    wallet, mint = pubkey(world.WALLET), pubkey(world.MINT)
    [token] = (await client.get_token_accounts_by_owner(wallet, TokenAccountOpts(mint=mint))).value
    assert bytes(token.pubkey) == world.TOKEN
    assert bytes(token.account.owner) == TOKEN_PROGRAM
    of_2022 = TokenAccountOpts(program_id=pubkey(TOKEN_2022_PROGRAM))
    [extended] = (await client.get_token_accounts_by_owner(wallet, of_2022)).value
    data = token_account(world.MINT_2022, world.WALLET, 7, state=2, extended=True)
    assert extended.account.data == data
    assert (await client.get_token_account_balance(pubkey(world.TOKEN))).value.amount == "500000"
    assert (await client.get_token_supply(mint)).value.amount == "1234500"
    largest = (await client.get_token_largest_accounts(mint)).value
    holders = [(at, 10 * number) for number, at in list(enumerate(world.HOLDERS))[:5:-1]]
    assert [(bytes(each.address), int(each.amount.amount)) for each in largest] == [
        (world.TOKEN, 500_000),
        *holders,
    ]


async def test_epochs_rewards_and_validators_are_read(client: AsyncClient) -> None:
    epoch = (await client.get_epoch_info(Confirmed)).value
    assert (epoch.absolute_slot, epoch.epoch, epoch.slots_in_epoch) == (
        *(world.CONFIRMED_SLOT, 12, 100),
    )
    asked = [pubkey(each) for each in world.STAKES[:2]]
    paid, unpaid = (await client.get_inflation_reward(asked, epoch=11)).value
    assert paid is not None
    assert (paid.amount, paid.post_balance, paid.commission) == (15, 35, 7)
    assert unpaid is None
    voting = (await client.get_vote_accounts()).value
    [validator] = voting.current
    assert bytes(validator.vote_pubkey) == world.VALIDATOR
    assert validator.activated_stake == 5_000
    assert [each.activated_stake for each in voting.delinquent] == [6_000]


async def test_what_a_node_refuses_is_an_error_of_the_client(client: AsyncClient) -> None:
    many = [pubkey(world.NATIVE)] * 101
    with pytest.raises((RPCException, SolanaRpcException), match="Too many inputs provided"):
        await client.get_multiple_accounts(many)
    with pytest.raises((RPCException, SolanaRpcException), match="Block not available"):
        await client.get_inflation_reward([many[0]], epoch=12)
