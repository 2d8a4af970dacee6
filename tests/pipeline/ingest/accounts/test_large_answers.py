"""A wallet with more token accounts than one answer may bring."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import orjson
import pytest
from aiohttp import web

from infra.solana_rpc import client
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import TOKEN_PROGRAMS, Asking, Ended
from pipeline.ingest.accounts.rpc import WALLET_ANSWER_BYTES, AccountsRpc
from pipeline.ingest.accounts.tracked import Tracked
from schemas.accounts import MOST_OF_WALLET
from schemas.solana.addresses import TOKEN_PROGRAM, key, text
from tests.support.rpc_server import serving

WALLET = bytes(range(32))
PART = b" " * (1 << 20)  # white space, which JSON allows


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer with no token accounts in very many bytes, all else with an account."""
    call = orjson.loads(await request.read())
    if call["method"] == "getMultipleAccounts":
        value = [{"data": ["", "base64"], "owner": text(bytes(32)), "lamports": 5}]
        return web.json_response({"result": {"context": {"slot": 9}, "value": value}})
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"result":{"context":{"slot":9},"value":[]},"padding":"')
    for _ in range(2 * WALLET_ANSWER_BYTES // len(PART)):
        await response.write(PART)
    await response.write(b'"}')
    return response


async def test_a_wallet_with_too_many_token_accounts_is_not_covered() -> None:
    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()

    async def settled() -> int:
        return 7

    queue = AnswerQueue()
    try:
        async with client.session() as session:
            rpc = AccountsRpc(session, f"http://127.0.0.1:{site.port}/", client.Pace(1000))
            asking = Asking(rpc, queue, settled, Tracked(10))
            assert await asking.wallet(WALLET) is Ended.TOO_LARGE
            await asking.lamports(WALLET)
    finally:
        await runner.cleanup()
    assert queue.withdrawn() == [], "who asks lets go of it"
    [lamports] = queue.take(9, 1 << 20)
    assert [(slot, each.lamports) for slot, each in lamports.updates] == [(9, 5)]
    assert lamports.covered == ()


@pytest.mark.parametrize("count", [MOST_OF_WALLET, MOST_OF_WALLET + 1])
async def test_no_more_token_accounts_are_taken_than_are_read_of_a_wallet(count: int) -> None:
    data = [b64encode(bytes(165)).decode(), "base64"]
    account = {"data": data, "owner": text(TOKEN_PROGRAM), "lamports": 5}
    address = text(bytes(32))

    async def answers(method: str, params: list[Any]) -> Any:
        if method == "getMultipleAccounts":
            return [account]
        of = TOKEN_PROGRAMS.index(key(params[1]["programId"]))
        share = (count // 2, count - count // 2)[of]
        return [{"pubkey": address, "account": account}] * share

    async def settled() -> int:
        return 7

    queue = AnswerQueue()
    async with serving(answers) as url, client.session() as session:
        asking = Asking(AccountsRpc(session, url, client.Pace(1000)), queue, settled, Tracked(10))
        ended = await asking.wallet(WALLET)
    assert ended is (Ended.TOO_LARGE if count > MOST_OF_WALLET else Ended.ANSWERED)
    taken = queue.take(9, 1 << 30)
    assert [len(each.updates) for each in taken] == ([] if count > MOST_OF_WALLET else [count + 1])
