"""Wire compatibility, shown: the official npm client sees what a Python client sees."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from infra.chain.source import SlotCompleted, SlotConfirmed, SlotEvent, SlotFinalized, SlotStarted
from schemas.proto.geyser_pb2 import (
    SLOT_PROCESSED,
    SubscribeRequest,
    SubscribeUpdate,
    SubscribeUpdateDeshred,
)
from schemas.solana import transaction_error
from schemas.solana.rpc_json import transaction_to_json
from tests.support import npm
from tests.support.systems import bound

Serve = Any
SCRIPT = Path(__file__).parent / "official_client"

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """The client and what it depends on, from the npm registry; kept between runs."""
    return npm.installed(request, "official-client", SCRIPT, "@triton-one/yellowstone-grpc")


def last(events: list[SlotEvent], kind: type) -> Any:
    return [event for event in events if isinstance(event, kind)][-1]


def without_time(update: SubscribeUpdate) -> bytes:
    update.ClearField("created_at")
    return update.SerializeToString(deterministic=True)


async def test_the_official_client_sees_the_same(
    serve: Serve, market_events: list[SlotEvent], installed: Path
) -> None:
    chain = await serve(x_token="secret")
    chain.publish(market_events)
    first = [e.slot for e in market_events if isinstance(e, SlotStarted)][5]
    header = last(market_events, SlotCompleted).header
    endpoint = f"http://127.0.0.1:{chain.chain.grpc_port}"
    node = await asyncio.create_subprocess_exec(
        *bound(["node", "follow.cjs", endpoint, "secret", str(first), str(header.slot)]),
        cwd=installed,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(node.communicate(), 240)  # on a busy machine
    assert node.returncode == 0, err.decode()
    received = defaultdict(list)
    for line in out.splitlines():
        item = json.loads(line)
        received[item["kind"]].append(item["value"])

    # Single questions.
    assert '"proto":"12.6.0"' in received["version"][0]
    assert received["ping"] == [7]
    assert received["slot"] == [str(last(market_events, SlotConfirmed).slot)]
    assert int(received["height"][0]) > 0
    finalized = last(market_events, SlotFinalized).slot
    headers = {e.header.slot: e.header for e in market_events if isinstance(e, SlotCompleted)}
    assert received["blockhash"] == [headers[finalized].blockhash]
    assert received["valid"] == [True]
    started = [e.slot for e in market_events if isinstance(e, SlotStarted)]
    assert received["replay"] == [str(started[0])]
    assert received["refused"] == ["get_version request failed"]  # it hides the status

    # The stream: what the client decoded, encoded again, is what Python gets.
    request = SubscribeRequest(from_slot=first)
    request.slots["slots"].interslot_updates = True
    request.transactions["all"].SetInParent()
    request.transactions["failed"].failed = True
    request.transactions_status["status"].vote = False
    request.blocks["block"].SetInParent()
    request.blocks_meta["meta"].SetInParent()
    call = chain.stub.Subscribe(metadata=(("x-token", "secret"),))
    await call.write(request)
    mine = []
    while True:
        update = await asyncio.wait_for(call.read(), 60)
        mine.append(update)
        if update.slot.slot == header.slot and update.slot.status == SLOT_PROCESSED:
            break
    theirs = [SubscribeUpdate.FromString(base64.b64decode(text)) for text in received["update"]]
    kinds = {update.WhichOneof("update_oneof") for update in theirs}
    assert kinds == {"slot", "transaction", "transaction_status", "block", "block_meta"}
    assert [without_time(update) for update in theirs] == [without_time(u) for u in mine]

    # Its own view of transactions and errors, from the validator's code, agrees with ours.
    infos = [u.transaction.transaction for u in mine if u.HasField("transaction")]
    assert len(received["rpc_json"]) == len(infos) > 100
    for theirs_json, info in zip(received["rpc_json"], infos, strict=True):
        assert _comparable(theirs_json) == _comparable(transaction_to_json(info))
    errors = [transaction_error.to_json(i.meta.err.err) for i in infos if i.meta.HasField("err")]
    assert errors
    assert received["error"] == errors

    # Replaced filters, pings, deshred.
    metas = [e.header.slot for e in market_events if isinstance(e, SlotCompleted)]
    assert received["again"] == [str(slot) for slot in metas if slot >= first]
    assert received["pong"] == [42]
    deshred = SubscribeUpdateDeshred.FromString(base64.b64decode(received["deshred"][-1]))
    assert deshred.pong.id == 43


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out nothing but fields that are null or missing alike."""
    return {key: _as_javascript(answer[key]) for key in ("transaction", "meta", "version")}


def _as_javascript(value: Any) -> Any:
    """Give integers that JavaScript's numbers do not hold exactly the nearest one that they hold.

    The client parses the JSON of the validator's code, balances of 50 million SOL included.
    """
    if isinstance(value, dict):
        return {key: _as_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_javascript(item) for item in value]
    if type(value) is int and abs(value) > 2**53:
        return float(value)
    return value
