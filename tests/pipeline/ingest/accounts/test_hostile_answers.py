"""Answers of a node whose numbers are none of the chain's: they are refused where they come in."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from infra.solana_rpc import client
from pipeline.ingest.accounts.rpc import AccountsRpc, BadAnswer
from schemas.solana.addresses import text
from tests.support.rpc_server import serving

ADDRESS = bytes(range(32))
NO_U64 = [1 << 64, -1, 1.5, "5", None, True]


def account(lamports: Any) -> Any:
    return {"data": ["", "base64"], "owner": text(bytes(32)), "lamports": lamports}


@pytest.mark.parametrize("lamports", NO_U64)
async def test_lamports_that_no_account_has_are_no_answer(lamports: Any) -> None:
    async def answer(method: str, params: list[Any]) -> Any:
        return [account(lamports)]

    async with serving(answer) as url, client.session() as session:
        rpc = AccountsRpc(session, url, client.Pace(1000))
        with pytest.raises(BadAnswer, match="is no u64"):
            await rpc.multiple([ADDRESS], 0)


@pytest.mark.parametrize("slot", NO_U64)
async def test_a_context_slot_that_no_chain_has_is_no_answer(slot: Any) -> None:
    async def answer(method: str, params: list[Any]) -> Any:
        return web.json_response({"result": {"context": {"slot": slot}, "value": [account(1)]}})

    async with serving(answer) as url, client.session() as session:
        rpc = AccountsRpc(session, url, client.Pace(1000))
        with pytest.raises(BadAnswer, match="is no u64"):
            await rpc.multiple([ADDRESS], 0)


@pytest.mark.parametrize("amount", ["18446744073709551616", "-1", "1.5", 1.5, None])
async def test_an_amount_that_no_token_account_has_is_no_answer(amount: Any) -> None:
    async def answer(method: str, params: list[Any]) -> Any:
        return [{"address": text(ADDRESS), "amount": amount}]

    async with serving(answer) as url, client.session() as session:
        rpc = AccountsRpc(session, url, client.Pace(1000))
        with pytest.raises(BadAnswer):
            await rpc.largest_accounts(ADDRESS, 0)


async def test_the_largest_numbers_of_the_chain_are_answers() -> None:
    most = (1 << 64) - 1

    async def answer(method: str, params: list[Any]) -> Any:
        if method == "getTokenLargestAccounts":
            return [{"address": text(ADDRESS), "amount": str(most)}]
        return [account(most)]

    async with serving(answer, slot=most) as url, client.session() as session:
        rpc = AccountsRpc(session, url, client.Pace(1000))
        slot, [found] = await rpc.multiple([ADDRESS], 0)
        assert (slot, found.lamports) == (most, most)
        assert await rpc.largest_accounts(ADDRESS, 0) == (most, [(ADDRESS, most)])
