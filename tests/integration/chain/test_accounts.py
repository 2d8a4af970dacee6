"""Account updates over gRPC: the last version of a slot, before its block, to any client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from infra.chain.account_faults import AccountFaults
from infra.chain.account_filters import AccountLimits
from infra.chain.faults import Faults
from infra.chain.source import (
    AccountWrite,
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import (
    CONFIRMED,
    PROCESSED,
    CommitmentLevel,
    SubscribeRequest,
    SubscribeUpdate,
)
from schemas.proto.geyser_pb2_grpc import GeyserStub
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from tests.support import npm
from tests.support.systems import bound

Serve = Any
SCRIPT = Path(__file__).parent / "official_client"
CONNECTIONS = 3  # that the official client may take

pytestmark = pytest.mark.slow

ALL_TOKENS = {
    "tokens": {"owner": [text(TOKEN_PROGRAM), text(TOKEN_2022_PROGRAM)]},
    "closed": {"owner": [text(SYSTEM_PROGRAM)], "filters": [{"lamports": {"eq": "0"}}]},
}
# As the official client names fields, and as JSON of protobuf does.
FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("PROCESSED", {"accounts": {"all": {"account": [], "owner": [], "filters": []}}}),
    ("CONFIRMED", {"accounts": {"all": {"account": [], "owner": [], "filters": []}}}),
    (
        "CONFIRMED",
        {
            "accounts": {
                "tokens": {"account": [], "filters": [{"tokenAccountState": True}], "owner": []},
                "rich": {
                    "account": [],
                    "owner": [text(TOKEN_PROGRAM)],
                    "filters": [{"datasize": "165"}, {"lamports": {"gt": "2039280"}}],
                },
                "usdc": {
                    "account": [],
                    "owner": [],
                    "filters": [
                        {
                            "memcmp": {
                                "offset": "0",
                                "base58": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
                            }
                        }
                    ],
                    "nonemptyTxnSignature": True,
                },
            },
            "accountsDataSlice": [{"offset": "32", "length": "40"}],
        },
    ),
]


def account_request(fields: dict[str, Any], commitment: int) -> SubscribeRequest:
    request = ParseDict(fields, SubscribeRequest())
    request.commitment = CommitmentLevel.Name(commitment)
    request.blocks_meta["meta"].SetInParent()
    return request


def confirmed_slots(events: Iterable[SlotEvent]) -> list[int]:
    return [event.slot for event in events if isinstance(event, SlotConfirmed)]


def last_writes(events: list[SlotEvent]) -> dict[int, dict[bytes, AccountWrite]]:
    """Return what each slot left in its accounts, by slot."""
    found: dict[int, dict[bytes, AccountWrite]] = defaultdict(dict)
    for event in events:
        if isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                for write in transaction.writes:
                    found[event.slot][write.address] = write
        elif isinstance(event, SlotCompleted):
            found[event.header.slot].update({write.address: write for write in event.writes})
    return found


async def follow(chain: Any, request: SubscribeRequest, last: int) -> list[SubscribeUpdate]:
    subscription = await chain.subscribe(request)
    await subscription.until(lambda update: update.block_meta.slot == last)
    return [each for each in subscription.updates if each.WhichOneof("update_oneof") != "pong"]


@pytest.mark.parametrize(
    "faults", [AccountFaults(), AccountFaults(duplicates=0.3, late=0.3, reorder=True)]
)
async def test_a_confirmed_slot_has_the_last_version_of_each_account_before_its_block(
    serve: Serve, market_events: list[SlotEvent], faults: AccountFaults
) -> None:
    chain = await serve(faults=Faults(accounts=faults, seed=4))
    slots = confirmed_slots(market_events)
    request = account_request({"accounts": {"all": {}}}, CONFIRMED)
    request.from_slot = next(e.slot for e in market_events if isinstance(e, SlotStarted))
    chain.publish(market_events)
    updates = await follow(chain, request, slots[-1])
    expected = last_writes(market_events)
    got: dict[int, list[Any]] = defaultdict(list)
    blocks: list[int] = []
    for update in updates:
        if update.HasField("account"):
            assert update.account.slot not in blocks
            assert not update.account.is_startup
            got[update.account.slot].append(update.account.account)
        elif update.HasField("block_meta"):
            blocks.append(update.block_meta.slot)
    assert blocks == slots
    repeated = out_of_order = 0
    for slot in blocks:
        written = {write.address: write for write in expected[slot].values()}
        assert {info.pubkey for info in got[slot]} == written.keys()
        for info in got[slot]:
            write = written[info.pubkey]
            assert (info.owner, info.lamports) == (write.owner, write.lamports)
            assert (info.data, info.write_version) == (write.data, write.write_version)
        repeated += len(got[slot]) - len(written)
        order = [info.write_version for info in got[slot]]
        out_of_order += order != sorted(order)
    assert (repeated > 50) == bool(faults)
    assert faults or not repeated
    assert out_of_order > 10 or not faults


async def test_a_processed_stream_has_every_write_before_its_transaction(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    request = account_request({"accounts": {"all": {}}}, PROCESSED)
    request.transactions["all"].SetInParent()
    request.from_slot = next(e.slot for e in market_events if isinstance(e, SlotStarted))
    chain.publish(market_events)
    last = [e.header.slot for e in market_events if isinstance(e, SlotCompleted)][-1]
    updates = await follow(chain, request, last)
    frozen = {e.header.slot for e in market_events if isinstance(e, SlotCompleted)}
    expected = [
        (event.slot, write.write_version, transaction.signature)
        for event in market_events
        if isinstance(event, SlotTransactions) and event.slot in frozen
        for transaction in event.transactions
        for write in transaction.writes
    ]
    got = []
    executed: set[tuple[int, bytes]] = set()
    for update in updates:
        if update.HasField("account"):
            info, slot = update.account.account, update.account.slot
            if info.HasField("txn_signature"):
                assert (slot, info.txn_signature) not in executed
                got.append((slot, info.write_version, info.txn_signature))
        elif update.HasField("transaction"):
            executed.add((update.transaction.slot, update.transaction.transaction.signature))
    assert got == expected


async def test_two_nodes_send_the_same_under_unrelated_write_versions(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve(nodes=2)
    assert len(set(chain.chain.grpc_ports)) == 2
    chain.publish(market_events)
    slots = confirmed_slots(market_events)
    seen = []
    for port in chain.chain.grpc_ports:
        request = account_request({"accounts": ALL_TOKENS}, CONFIRMED)
        request.from_slot = next(e.slot for e in market_events if isinstance(e, SlotStarted))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = GeyserStub(channel).Subscribe()
            await call.write(request)
            updates = []
            while (update := await asyncio.wait_for(call.read(), 120)).block_meta.slot != slots[-1]:
                updates.append(update.account)
        seen.append([update for update in updates if update.slot])
    here, there = ([each.account.write_version for each in updates] for updates in seen)
    assert len(here) > 1_000
    assert here != there
    assert [_without_version(each) for each in seen[0]] == [
        _without_version(each) for each in seen[1]
    ]


def _without_version(update: Any) -> bytes:
    update.account.ClearField("write_version")
    return bytes(update.SerializeToString(deterministic=True))


async def test_a_nodes_limits_end_the_stream_with_its_words(serve: Serve) -> None:
    chain = await serve(account_limits=AccountLimits(max_filters=1))
    call = chain.stub.Subscribe()
    await call.write(account_request({"accounts": ALL_TOKENS}, CONFIRMED))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asyncio.wait_for(call.read(), 60)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == (
        "failed to create filter: Max amount of filters/data_slices reached, only 1 allowed"
    )


@pytest.mark.node
@pytest.mark.parametrize(("commitment", "asked"), FILTERS)
async def test_the_official_client_receives_the_same_accounts(
    serve: Serve,
    market_events: list[SlotEvent],
    request: pytest.FixtureRequest,
    commitment: str,
    asked: dict[str, Any],
) -> None:
    chain = await serve()
    chain.publish(market_events)
    # Of half of the slots: a client that is slow to read takes many small frames for an attack.
    first = [e.slot for e in market_events if isinstance(e, SlotStarted)][40]
    last = confirmed_slots(market_events)[-1]
    theirs = await official(request, chain, first, last, asked, commitment)
    mine_request = account_request(asked, CommitmentLevel.Value(commitment))
    mine_request.from_slot = first
    mine = await follow(chain, mine_request, last)
    labels = {label for update in mine for label in update.filters}
    assert labels == {*asked["accounts"], "meta"}
    assert sum(update.HasField("account") for update in mine) > 500
    assert [_comparable(each) for each in theirs] == [_comparable(each) for each in mine]


@pytest.mark.node
async def test_the_official_client_receives_what_its_compressed_sets_have(
    serve: Serve, market_events: list[SlotEvent], request: pytest.FixtureRequest
) -> None:
    chain = await serve()
    chain.publish(market_events)
    first = [e.slot for e in market_events if isinstance(e, SlotStarted)][5]
    last = confirmed_slots(market_events)[-1]
    written = {address for writes in last_writes(market_events).values() for address in writes}
    tracked = sorted(written)[::7]
    keys = [text(address) for address in tracked]
    theirs = await official(request, chain, first, last, {"compressed": keys})
    listed = SubscribeRequest(from_slot=first, commitment=CONFIRMED)
    listed.blocks_meta["meta"].SetInParent()
    listed.accounts["compressed"].account.extend(keys)
    listed.transactions["compressed"].account_include.extend(keys)
    mine = [_comparable(each) for each in await follow(chain, listed, last)]
    known = set(mine)
    more = [each for each in theirs if _comparable(each) not in known]
    assert [each for each in map(_comparable, theirs) if each in known] == mine
    assert len(tracked) > 100
    assert sum(each.HasField("account") for each in theirs) > 200
    assert sum(each.HasField("transaction") for each in theirs) > 100
    assert len(more) < len(mine) / 100  # a fingerprint of 16 bits is another's now and then


@pytest.mark.node
async def test_the_official_client_receives_the_entries_of_each_block(
    serve: Serve, market_events: list[SlotEvent], request: pytest.FixtureRequest
) -> None:
    chain = await serve()
    chain.publish(market_events)
    first = [e.slot for e in market_events if isinstance(e, SlotStarted)][5]
    last = confirmed_slots(market_events)[-1]
    blocks = {"blocks": {"accountInclude": [], "includeEntries": True}}
    theirs = await official(request, chain, first, last, {"entry": {"all": {}}, "blocks": blocks})
    entries: dict[int, list[Any]] = defaultdict(list)
    for update in theirs:
        if update.HasField("entry"):
            entries[update.entry.slot].append(update.entry)
    found = [update.block for update in theirs if update.HasField("block")]
    assert found
    for block in found:
        assert list(block.entries) == entries[block.slot]
        assert block.entries_count == len(block.entries)
        assert text(block.entries[-1].hash) == block.blockhash
        counts = sum(entry.executed_transaction_count for entry in block.entries)
        assert counts == block.executed_transaction_count
    metas = {
        each.block_meta.slot: each.block_meta for each in theirs if each.HasField("block_meta")
    }
    assert metas.keys() == entries.keys()
    assert all(metas[slot].entries_count == len(entries[slot]) for slot in metas)


async def official(
    request: pytest.FixtureRequest,
    chain: Any,
    first: int,
    last: int,
    asked: dict[str, Any],
    commitment: str = "CONFIRMED",
) -> list[SubscribeUpdate]:
    """Return what the official client receives from a slot to the block of another.

    Its HTTP/2 ends a connection that brings many small frames at once ("too_many_data_frames", on
    a busy machine): it is then started again, as who uses it would connect again.
    """
    installed = npm.installed(request, "official-client", SCRIPT, "@triton-one/yellowstone-grpc")
    endpoint = f"http://127.0.0.1:{chain.chain.grpc_port}"
    arguments = [endpoint, str(first), str(last), commitment, json.dumps(asked)]
    for _ in range(CONNECTIONS):
        node = await asyncio.create_subprocess_exec(
            *bound(["node", "accounts.cjs", *arguments]),
            cwd=installed,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(node.communicate(), 240)
        if node.returncode == 0 or b"error reading a body from connection" not in err:
            break
    assert node.returncode == 0, err.decode()
    return [SubscribeUpdate.FromString(base64.b64decode(line)) for line in out.splitlines()]


def _comparable(update: SubscribeUpdate) -> bytes:
    update.ClearField("created_at")
    return update.SerializeToString(deterministic=True)
