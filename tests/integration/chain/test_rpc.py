"""JSON-RPC over real HTTP, with a validator's answers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from infra.chain.source import (
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.networks import network_of
from schemas.solana.rpc_json import transaction_info_from_json, transaction_to_json

Serve = Any
JSON = {"content-type": "application/json"}
CONFIRMED = {"commitment": "confirmed", "maxSupportedTransactionVersion": 0}


class Rpc:
    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def post(self, body: Any) -> Any:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        async with self._http.post(self._url, data=data, headers=JSON) as answer:
            assert answer.status == 200
            return await answer.json()

    async def status_of(self, content_type: str) -> int:
        call = b'{"jsonrpc":"2.0","id":4,"method":"getSlot"}'
        headers = {"content-type": content_type}
        async with self._http.post(self._url, data=call, headers=headers) as answer:
            return answer.status

    async def call(self, method: str, *params: Any) -> Any:
        answer = await self.post({"jsonrpc": "2.0", "id": 4, "method": method, "params": params})
        assert answer["id"] == 4
        return answer["error"] if "error" in answer else answer["result"]


@pytest.fixture
async def rpc(serve: Serve, market_events: list[SlotEvent]) -> AsyncIterator[Rpc]:
    chain = await serve()
    chain.publish(market_events)
    async with aiohttp.ClientSession() as http:
        yield Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")


async def test_the_genesis_hash_names_a_simulated_chain(rpc: Rpc) -> None:
    said = await rpc.call("getGenesisHash")
    assert network_of(said) == "simulated"


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
async def test_what_a_page_may_send_unasked_calls_nothing(rpc: Rpc, content_type: str) -> None:
    assert await rpc.status_of(content_type) == 415


async def test_a_call_may_name_its_charset(rpc: Rpc) -> None:
    assert await rpc.status_of("application/json; charset=utf-8") == 200


def infos(events: list[SlotEvent], slot: int) -> list[SubscribeUpdateTransactionInfo]:
    return [
        SubscribeUpdateTransactionInfo.FromString(t.info)
        for e in events
        if isinstance(e, SlotTransactions) and e.slot == slot
        for t in e.transactions
    ]


def slots(events: list[SlotEvent], kind: type) -> list[int]:
    return [
        event.header.slot if isinstance(event, SlotCompleted) else event.slot
        for event in events
        if isinstance(event, kind)
    ]


async def test_a_block_comes_whole(rpc: Rpc, market_events: list[SlotEvent]) -> None:
    slot = slots(market_events, SlotConfirmed)[5]
    header = next(
        e.header for e in market_events if isinstance(e, SlotCompleted) and e.header.slot == slot
    )
    block = await rpc.call("getBlock", slot, CONFIRMED)
    assert block["blockhash"] == header.blockhash
    assert block["previousBlockhash"] == header.parent_blockhash
    assert block["parentSlot"] == header.parent_slot
    assert block["blockTime"] == header.block_time
    assert block["blockHeight"] == header.block_height
    assert block["rewards"] == []
    expected = infos(market_events, slot)
    read = [transaction_info_from_json(t, index) for index, t in enumerate(block["transactions"])]
    assert [i.SerializeToString(deterministic=True) for i in read] == [
        i.SerializeToString(deterministic=True) for i in expected
    ]


async def test_the_first_block_of_an_epoch_names_its_rewards(
    rpc: Rpc, market_events: list[SlotEvent]
) -> None:
    first = next(e for e in market_events if isinstance(e, SlotCompleted))
    block = await rpc.call("getBlock", first.header.slot, CONFIRMED)
    assert len(block["rewards"]) == len(first.rewards) > 20
    assert {reward["rewardType"] for reward in block["rewards"]} == {"Staking", "Voting"}
    paid = {(each.lamports, each.post_lamports, each.commission) for each in first.rewards}
    assert paid == {
        (reward["lamports"], reward["postBalance"], reward["commission"] or 0)
        for reward in block["rewards"]
    }


async def test_blocks_in_other_forms(rpc: Rpc, market_events: list[SlotEvent]) -> None:
    slot = slots(market_events, SlotConfirmed)[5]
    expected = infos(market_events, slot)
    base64 = await rpc.call("getBlock", slot, {**CONFIRMED, "encoding": "base64"})
    assert [t["transaction"][1] for t in base64["transactions"]] == ["base64"] * len(expected)
    assert [transaction_info_from_json(t, i) for i, t in enumerate(base64["transactions"])] == (
        expected
    )
    names = await rpc.call("getBlock", slot, {**CONFIRMED, "transactionDetails": "signatures"})
    assert names["signatures"] == [base58.encode(info.signature) for info in expected]
    assert "transactions" not in names
    none = await rpc.call(
        "getBlock", slot, {**CONFIRMED, "transactionDetails": "none", "rewards": False}
    )
    assert none.keys() == {
        "blockhash",
        "previousBlockhash",
        "parentSlot",
        "blockTime",
        "blockHeight",
    }


async def test_forks_skips_and_the_future_have_the_errors_of_a_validator(
    rpc: Rpc, market_events: list[SlotEvent]
) -> None:
    confirmed = slots(market_events, SlotConfirmed)
    abandoned = set(slots(market_events, SlotCompleted)) - set(confirmed)
    abandoned = {slot for slot in abandoned if slot < confirmed[-1]}
    skipped = set(range(confirmed[0], confirmed[-1])) - set(slots(market_events, SlotStarted))
    assert abandoned
    assert skipped
    for slot in (min(abandoned), min(skipped)):
        error = await rpc.call("getBlock", slot, CONFIRMED)
        assert error == {
            "code": -32007,
            "message": f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot",
        }
    newest = slots(market_events, SlotCompleted)[-1]
    assert newest > confirmed[-1]
    error = await rpc.call("getBlock", newest, CONFIRMED)
    assert error == {"code": -32004, "message": f"Block not available for slot {newest}"}
    # The default commitment is finalized.
    assert (await rpc.call("getBlock", confirmed[-1], {"maxSupportedTransactionVersion": 0}))[
        "code"
    ] == -32004


async def test_lost_blocks_have_their_own_error(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve(history_slots=60)
    chain.publish(market_events)
    confirmed = slots(market_events, SlotConfirmed)
    async with aiohttp.ClientSession() as http:
        rpc = Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")
        first = await rpc.call("getFirstAvailableBlock")
        assert first in confirmed[1:]
        error = await rpc.call("getBlock", confirmed[0], CONFIRMED)
        assert error["code"] == -32001
        assert error["message"].endswith(f"First available block: {first}")


async def test_a_transaction_is_found_by_its_signature(
    rpc: Rpc, market_events: list[SlotEvent]
) -> None:
    slot = slots(market_events, SlotConfirmed)[5]
    info = infos(market_events, slot)[3]
    signature = base58.encode(info.signature)
    found = await rpc.call("getTransaction", signature, CONFIRMED)
    assert (found["slot"], found["transactionIndex"]) == (slot, 3)
    expected = transaction_to_json(info)
    assert {key: found[key] for key in expected} == expected
    unknown = base58.encode(bytes(range(64)))
    assert await rpc.call("getTransaction", unknown, CONFIRMED) is None


async def test_versioned_transactions_need_a_caller_that_knows_them(
    rpc: Rpc, market_events: list[SlotEvent]
) -> None:
    legacy = versioned = None
    for slot in slots(market_events, SlotConfirmed):
        for info in infos(market_events, slot):
            if info.transaction.message.versioned:
                versioned = info
            else:
                legacy = info
    assert versioned is not None
    assert legacy is not None
    plain = {"commitment": "confirmed"}
    error = await rpc.call("getTransaction", base58.encode(versioned.signature), plain)
    assert error["code"] == -32015
    found = await rpc.call("getTransaction", base58.encode(legacy.signature), plain)
    assert "version" not in found


async def test_slots(rpc: Rpc, market_events: list[SlotEvent]) -> None:
    confirmed = slots(market_events, SlotConfirmed)
    finalized = slots(market_events, SlotFinalized)
    assert await rpc.call("getSlot") == finalized[-1]
    assert await rpc.call("getSlot", {"commitment": "confirmed"}) == confirmed[-1]
    assert await rpc.call("getSlot", {"commitment": "processed"}) == max(
        slots(market_events, SlotCompleted)
    )
    assert await rpc.call("getFirstAvailableBlock") == confirmed[0]
    asked = {"commitment": "confirmed"}
    assert await rpc.call("getBlocks", confirmed[2], confirmed[7], asked) == confirmed[2:8]
    assert await rpc.call("getBlocks", confirmed[2], asked) == confirmed[2:]
    assert await rpc.call("getBlocks", confirmed[2]) == finalized[2:]


async def test_accounts_and_supplies(rpc: Rpc) -> None:
    known, other, mint = (base58.encode(bytes([n]) * 32) for n in (1, 9, 2))
    answer = await rpc.call("getMultipleAccounts", [known, other], {"encoding": "base64"})
    assert answer["context"]["slot"] > 0
    account, missing = answer["value"]
    assert missing is None
    assert account["lamports"] == 5
    assert account["owner"] == "1" * 32
    assert account["data"] == ["aGVsbG8gd29ybGQ=", "base64"]
    assert account["space"] == 11
    cut = {"encoding": "base64", "dataSlice": {"offset": 6, "length": 2}}
    answer = await rpc.call("getAccountInfo", known, cut)
    assert answer["value"]["data"] == ["d28=", "base64"]
    plain = base58.encode(b"hello world")
    assert (await rpc.call("getAccountInfo", known))["value"]["data"] == plain
    answer = await rpc.call("getAccountInfo", known, {"encoding": "base58"})
    assert answer["value"]["data"] == [plain, "base58"]
    supply = (await rpc.call("getTokenSupply", mint))["value"]
    assert supply == {
        "amount": "1234500",
        "decimals": 6,
        "uiAmount": 1.2345,
        "uiAmountString": "1.2345",
    }
    assert (await rpc.call("getTokenSupply", other))["code"] == -32602


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("getNothing", [], -32601),
        ("getBlock", [], -32602),
        ("getBlock", ["5"], -32602),
        ("getBlock", [-1], -32602),
        ("getBlock", [5, "confirmed"], -32602),
        ("getBlock", [5, {"commitment": "processed"}], -32602),
        ("getBlock", [5, {"commitment": ["x"]}], -32602),
        ("getBlock", [5, {"encoding": "jsonParsed"}], -32602),
        ("getBlock", [5, {"transactionDetails": "accounts"}], -32602),
        ("getBlock", [5, {"maxSupportedTransactionVersion": "0"}], -32602),
        ("getTransaction", ["1" * 32], -32602),
        ("getTransaction", ["0OIl"], -32602),
        ("getMultipleAccounts", [["1" * 32] * 101], -32602),
        ("getMultipleAccounts", ["1" * 32], -32602),
        ("getAccountInfo", [base58.encode(b"\1" * 32), {"encoding": "hex"}], -32602),
        ("getAccountInfo", [base58.encode(b"\1" * 32), {"dataSlice": {"offset": -1}}], -32602),
        ("getSlot", [{"commitment": "recent"}], -32602),
        ("getBlocks", [0, 10**9 * 10**9, {"commitment": "confirmed"}], -32602),
    ],
)
async def test_wrong_calls_get_a_validators_code(
    rpc: Rpc, method: str, params: list[Any], code: int
) -> None:
    error = await rpc.call(method, *params)
    assert error["code"] == code
    assert error["message"]


async def test_the_envelope(rpc: Rpc) -> None:
    assert (await rpc.post(b"{nope"))["error"]["code"] == -32700
    assert (await rpc.post({"id": 1, "method": "getSlot"}))["error"]["code"] == -32600
    assert (await rpc.post([]))["error"]["code"] == -32600
    named = {"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": {"commitment": "x"}}
    assert (await rpc.post(named))["error"]["code"] == -32602
    batch = await rpc.post(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "getHealth"},
            {"jsonrpc": "2.0", "id": "b", "method": "getVersion"},
        ]
    )
    assert [answer["id"] for answer in batch] == ["a", "b"]
    assert batch[0]["result"] == "ok"
    assert "solana-core" in batch[1]["result"]
