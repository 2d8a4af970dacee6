"""Subscriptions over real gRPC, served from a market's events."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import grpc
import pytest

from infra.chain import server
from infra.chain.faults import Faults
from infra.chain.source import (
    BlockHeader,
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import (
    CONFIRMED,
    FINALIZED,
    SLOT_COMPLETED,
    SLOT_CONFIRMED,
    SLOT_CREATED_BANK,
    SLOT_DEAD,
    SLOT_FINALIZED,
    SLOT_PROCESSED,
    SubscribeDeshredRequest,
    SubscribeReplayInfoRequest,
    SubscribeRequest,
    SubscribeUpdate,
)
from schemas.proto.geyser_pb2_grpc import GeyserStub
from schemas.solana import base58, networks

Serve = Any


def everything(**fields: Any) -> SubscribeRequest:
    request = SubscribeRequest(**fields)
    request.transactions["tx"].SetInParent()
    request.slots["slots"].interslot_updates = True
    request.blocks_meta["meta"].SetInParent()
    return request


REPLAYED = (SLOT_PROCESSED, SLOT_CONFIRMED, SLOT_FINALIZED)


def sent(events: list[SlotEvent]) -> list[ChainTransaction]:
    return [t for e in events if isinstance(e, SlotTransactions) for t in e.transactions]


def account_of_some(events: list[SlotEvent]) -> bytes:
    """An account that several transactions touch, failed ones among them, but not all."""
    failed = Counter(key for t in sent(events) if t.failed for key in t.accounts)
    every = Counter(key for t in sent(events) for key in t.accounts)
    some = sorted(key for key in failed if every[key] < len(sent(events)) / 2)
    return max(some, key=lambda key: every[key])


def infos(updates: list[SubscribeUpdate]) -> list[bytes]:
    return [
        update.transaction.transaction.SerializeToString(deterministic=True)
        for update in updates
        if update.HasField("transaction")
    ]


def is_status(status: int, slot: int) -> Any:
    def check(update: SubscribeUpdate) -> bool:
        return update.HasField("slot") and update.slot.status == status and update.slot.slot == slot

    return check


def last(events: list[SlotEvent], kind: type) -> Any:
    return [event for event in events if isinstance(event, kind)][-1]


def without_time(update: SubscribeUpdate) -> SubscribeUpdate:
    out = SubscribeUpdate()
    out.CopyFrom(update)
    out.ClearField("created_at")
    return out


async def test_a_processed_stream_sends_slots_in_their_order(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    stream = await chain.subscribe(everything())
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(is_status(SLOT_PROCESSED, end))
    assert infos(updates) == [t.info for t in sent(market_events)]

    by_slot = defaultdict(list)
    for update in updates:
        kind = update.WhichOneof("update_oneof")
        part = getattr(update, kind)
        by_slot[part.slot].append(part.status if kind == "slot" else kind)
    statuses = {status for parts in by_slot.values() for status in parts}
    assert {SLOT_DEAD, SLOT_CONFIRMED, SLOT_FINALIZED} <= statuses
    for parts in by_slot.values():
        assert parts[1] == SLOT_CREATED_BANK
        if SLOT_DEAD in parts:
            assert "block_meta" not in parts
            continue
        meta = parts.index("block_meta")
        assert parts[meta - 1 : meta + 2] == [SLOT_COMPLETED, "block_meta", SLOT_PROCESSED]
        assert "transaction" not in parts[meta:]


async def test_block_metas_have_time_height_and_count(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    stream = await chain.subscribe(everything())
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header
    updates = await stream.until(is_status(SLOT_PROCESSED, end.slot))
    meta = [update.block_meta for update in updates if update.HasField("block_meta")][-1]
    assert (meta.slot, meta.parent_slot, meta.blockhash) == (
        end.slot,
        end.parent_slot,
        end.blockhash,
    )
    assert meta.block_time.timestamp == end.block_time
    assert meta.block_height.block_height == end.block_height
    assert meta.executed_transaction_count == len(
        sent([e for e in market_events if getattr(e, "slot", 0) == end.slot])
    )


@pytest.mark.parametrize(
    ("commitment", "status", "kind"),
    [(CONFIRMED, SLOT_CONFIRMED, SlotConfirmed), (FINALIZED, SLOT_FINALIZED, SlotFinalized)],
)
async def test_other_commitments_wait_and_never_see_forks(
    serve: Serve, market_events: list[SlotEvent], commitment: Any, status: int, kind: type
) -> None:
    chain = await serve()
    stream = await chain.subscribe(everything(commitment=commitment))
    chain.publish(market_events)
    updates = await stream.until(is_status(status, last(market_events, kind).slot))
    canonical = [event.slot for event in market_events if isinstance(event, kind)]
    expected = [
        t.info
        for slot in canonical
        for t in sent([e for e in market_events if getattr(e, "slot", 0) == slot])
    ]
    assert infos(updates) == expected
    assert len(expected) < len(sent(market_events))
    # A slot's transactions and meta come together, right before the status they waited for.
    released = [
        "status" if update.HasField("slot") else update.WhichOneof("update_oneof")
        for update in updates
        if not update.HasField("slot") or update.slot.status == status
    ]
    for here, following in pairwise(released):
        assert (following == "status") == (here == "block_meta")


async def test_labels_and_conditions(serve: Serve, market_events: list[SlotEvent]) -> None:
    chain = await serve()
    key = account_of_some(market_events)
    request = SubscribeRequest()
    request.transactions["touching"].account_include.append(base58.encode(key))
    request.transactions["failed"].failed = True
    request.transactions["votes"].vote = True
    request.transactions_status["status of votes"].vote = True
    request.slots["processed"].filter_by_commitment = True
    stream = await chain.subscribe(request)
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(is_status(SLOT_PROCESSED, end))
    expected = []
    for item in sent(market_events):
        labels = [
            label
            for label, asked in (
                ("failed", item.failed),
                ("touching", key in item.accounts),
                ("votes", item.is_vote),
            )
            if asked
        ]
        expected += [(item.signature, labels)] if labels else []
    got = [
        (update.transaction.transaction.signature, list(update.filters))
        for update in updates
        if update.HasField("transaction")
    ]
    assert got == expected
    assert any(len(labels) > 1 for _, labels in got)
    statuses = [u.transaction_status for u in updates if u.HasField("transaction_status")]
    assert [s.signature for s in statuses] == [
        t.signature for t in sent(market_events) if t.is_vote
    ]
    assert {u.slot.status for u in updates if u.HasField("slot")} == {SLOT_PROCESSED}


async def test_blocks_carry_the_transactions_asked_for(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    key = account_of_some(market_events)
    request = SubscribeRequest()
    request.blocks["all"].SetInParent()
    request.blocks["some"].account_include.append(base58.encode(key))
    request.blocks["none"].include_transactions = False
    stream = await chain.subscribe(request)
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(lambda u: u.block.slot == end and u.filters[0] == "some")
    blocks = defaultdict(list)
    for update in updates:
        blocks[update.filters[0]].append(update.block)
    completed = [e.header.slot for e in market_events if isinstance(e, SlotCompleted)]
    assert [block.slot for block in blocks["all"]] == completed
    of_completed = [
        t
        for slot in completed
        for t in sent([e for e in market_events if getattr(e, "slot", 0) == slot])
    ]
    carried = [t.signature for block in blocks["all"] for t in block.transactions]
    assert carried == [t.signature for t in of_completed]
    some = [t.signature for block in blocks["some"] for t in block.transactions]
    assert some == [t.signature for t in of_completed if key in t.accounts]
    assert not any(block.transactions for block in blocks["none"])
    assert [b.executed_transaction_count for b in blocks["none"]] == [
        len(b.transactions) for b in blocks["all"]
    ]


async def test_a_new_request_replaces_all_filters(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    stream = await chain.subscribe(everything())
    half = len(market_events) // 2
    chain.publish(market_events[:half])
    first = last(market_events[:half], SlotCompleted).header.slot
    await stream.until(is_status(SLOT_PROCESSED, first))

    only_metas = SubscribeRequest()
    only_metas.blocks_meta["again"].SetInParent()
    await stream.ask(only_metas)
    ping = SubscribeRequest()
    ping.ping.id = 5
    await stream.ask(ping)
    await stream.until(lambda update: update.pong.id == 5)
    chain.publish(market_events[half:])
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(lambda update: update.block_meta.slot == end)
    assert {u.WhichOneof("update_oneof") for u in updates} == {"block_meta"}
    assert {tuple(u.filters) for u in updates} == {("again",)}


async def test_a_ping_is_answered_and_changes_nothing(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    stream = await chain.subscribe(everything())
    ping = everything()  # filters beside a ping are not looked at
    ping.ClearField("transactions")
    ping.ping.id = 41
    await stream.ask(ping)
    await stream.until(lambda update: update.pong.id == 41)
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(is_status(SLOT_PROCESSED, end))
    assert len(infos(updates)) == len(sent(market_events))


async def test_the_server_pings_a_silent_stream(serve: Serve) -> None:
    chain = await serve(ping_interval_s=0.1)
    stream = await chain.subscribe(SubscribeRequest())
    for _ in range(3):
        assert (await stream.next(timeout_s=1)).HasField("ping")


async def test_from_slot_replays_what_a_live_subscriber_saw(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    live = await chain.subscribe(everything())
    chain.publish(market_events)
    end = is_status(SLOT_PROCESSED, last(market_events, SlotCompleted).header.slot)
    seen = await live.until(end)
    from_slot = [e.slot for e in market_events if isinstance(e, SlotStarted)][20]
    late = await chain.subscribe(everything(from_slot=from_slot))
    if not any(end(update) for update in late.updates):
        await late.until(end)

    def slot_of(update: SubscribeUpdate) -> int:
        return int(getattr(update, update.WhichOneof("update_oneof")).slot)

    replayed = [u for u in late.updates if not u.HasField("pong")]
    frozen = {u.block_meta.slot for u in seen if u.HasField("block_meta")}
    expected = [
        without_time(u)
        for u in seen
        if slot_of(u) in frozen
        and slot_of(u) >= from_slot
        and (not u.HasField("slot") or u.slot.status in REPLAYED)
    ]
    assert [without_time(u) for u in replayed[: len(expected)]] == expected


async def test_what_was_sent_of_a_slot_that_is_still_executed_is_not_replayed(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    at, part = next(
        (at, each)
        for at, each in enumerate(market_events)
        if isinstance(each, SlotTransactions) and each.transactions
    )
    chain.publish(market_events[: at + 1])
    stream = await chain.subscribe(everything(from_slot=part.slot))
    chain.publish(market_events[at + 1 :])
    await stream.until(is_status(SLOT_PROCESSED, part.slot))
    found = {
        each.transaction.transaction.signature
        for each in stream.updates
        if each.HasField("transaction")
    }
    assert not found & {each.signature for each in part.transactions}
    assert any(each.HasField("block_meta") for each in stream.updates)


async def test_after_a_replay_old_slots_are_heard_of_again(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    cut = next(i for i, e in enumerate(market_events) if isinstance(e, SlotFinalized))
    chain.publish(market_events[:cut])
    newest = last(market_events[:cut], SlotStarted).slot
    stream = await chain.subscribe(everything(from_slot=newest))
    chain.publish(market_events[cut:])
    finalized = market_events[cut].slot  # type: ignore[union-attr]
    assert finalized < newest
    await stream.until(is_status(SLOT_FINALIZED, finalized))


async def test_what_is_no_longer_kept_is_out_of_range(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve(replay_slots=10)
    chain.publish(market_events)
    kept = [e.slot for e in market_events if isinstance(e, SlotStarted)][-10]
    assert (
        await chain.stub.SubscribeReplayInfo(SubscribeReplayInfoRequest())
    ).first_available == kept
    stream = await chain.subscribe(everything(from_slot=kept))
    assert len(stream.updates) > 1
    call = chain.stub.Subscribe()
    await call.write(everything(from_slot=kept - 1))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(call.read(), 60)
    assert caught.value.code() == grpc.StatusCode.OUT_OF_RANGE
    assert caught.value.details() == (
        f"broadcast from {kept - 1} is not available, first available: {kept}"
    )


async def test_the_last_of_several_nodes_may_keep_fewer_slots(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve(nodes=2, replay_slots=10, last_node_replay_slots=4)
    chain.publish(market_events)
    started = [e.slot for e in market_events if isinstance(e, SlotStarted)]
    said = []
    for port in chain.chain.grpc_ports:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = GeyserStub(channel)
            info = await stub.SubscribeReplayInfo(SubscribeReplayInfoRequest())
            said.append(info.first_available)
            call = stub.Subscribe()
            await call.write(everything(from_slot=started[-10]))
            try:
                assert await asyncio.wait_for(call.read(), 60)
            except grpc.aio.AioRpcError as error:
                said.append(error.details())
            call.cancel()
    refusal = f"broadcast from {started[-10]} is not available, first available: {started[-4]}"
    assert said == [started[-10], started[-4], refusal]


async def test_an_invalid_filter_ends_the_stream_with_a_reason(serve: Serve) -> None:
    chain = await serve()
    request = SubscribeRequest()
    request.transactions["mine"].account_required.append("nonsense!")
    call = chain.stub.Subscribe()
    await call.write(request)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(call.read(), 60)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "transactions 'mine' account_required: 'nonsense!'" in caught.value.details()


@pytest.mark.parametrize("method", ["Subscribe", "SubscribeDeshred"])
async def test_bytes_that_are_no_request_end_the_stream(serve: Serve, method: str) -> None:
    chain = await serve()
    call = chain.channel.stream_stream(f"/geyser.Geyser/{method}")()
    await call.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(call.read(), 60)
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "failed to decode Protobuf message" in caught.value.details()


async def test_a_slow_consumer_is_dropped(serve: Serve, market_events: list[SlotEvent]) -> None:
    chain = await serve(max_lag_updates=300)
    stream = await chain.subscribe(everything())
    for _ in range(3):  # reads nothing, while the server's window fills
        await asyncio.sleep(0)
    chain.publish(market_events)
    code, details = await stream.ended()
    assert (code, details) == (grpc.StatusCode.INTERNAL, "lagged to send an update")
    assert len(infos(stream.updates)) < len(sent(market_events))


class Breathless:
    """A source that is always late: it never pauses."""

    genesis_hash = networks.SIMULATED

    def __init__(self, transactions: list[ChainTransaction]) -> None:
        self._batch = tuple(transactions[:100])

    def genesis_accounts(self) -> tuple[()]:
        return ()

    async def events(self) -> AsyncIterator[SlotEvent]:
        for slot in itertools.count(10):
            yield SlotStarted(slot, slot - 1)
            for _ in range(8):
                time.sleep(0.005)  # noqa: ASYNC251 - as if it computed
                await asyncio.sleep(0)
                yield SlotTransactions(slot, self._batch)
            yield SlotCompleted(BlockHeader(slot, slot - 1, "h", "p", 1, slot))


async def test_a_busy_source_does_not_starve_subscribers(
    serve: Serve, market_events: list[SlotEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is: without giving way the subscriber would lag at once.
    # private `_GIVE_WAY_S`: gives way for long enough on a slow machine too.
    monkeypatch.setattr(server, "_GIVE_WAY_S", 60.0)
    chain = await serve(Breathless(sent(market_events)), max_lag_updates=1_000)
    stream = await chain.subscribe(everything())
    running = asyncio.create_task(chain.chain.run())
    try:
        assert len([await stream.next() for _ in range(5_000)]) == 5_000
    finally:
        running.cancel()


@pytest.mark.parametrize("options", [{"compress": True}, {}], ids=["both ways", "requests only"])
async def test_gzip(serve: Serve, market_events: list[SlotEvent], options: Any) -> None:
    chain = await serve(**options)
    stream = await chain.subscribe(everything(), compression=grpc.Compression.Gzip)
    chain.publish(market_events)
    end = last(market_events, SlotCompleted).header.slot
    updates = await stream.until(is_status(SLOT_PROCESSED, end))
    assert len(infos(updates)) == len(sent(market_events))


async def test_a_client_that_closes_its_side_is_still_served(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    call = chain.stub.Subscribe(iter([everything()]))
    await asyncio.sleep(0.2)
    chain.publish(market_events)
    assert (await asyncio.wait_for(call.read(), 60)).HasField("slot")


async def test_deshred_sends_transactions_without_their_outcome(
    serve: Serve, market_events: list[SlotEvent]
) -> None:
    chain = await serve()
    call = chain.stub.SubscribeDeshred()
    request = SubscribeDeshredRequest()
    request.deshred_transactions["all"].SetInParent()
    request.slots["slots"].filter_by_commitment = True
    await call.write(request)
    ping = SubscribeDeshredRequest()
    ping.ping.id = 3
    await call.write(ping)
    assert (await asyncio.wait_for(call.read(), 60)).pong.id == 3
    chain.publish(market_events)
    signatures = []
    end = last(market_events, SlotCompleted).header.slot
    while True:
        update = await asyncio.wait_for(call.read(), 60)
        if update.HasField("deshred_transaction"):
            assert list(update.filters) == ["all"]
            signatures.append(update.deshred_transaction.transaction.signature)
        elif update.slot.slot == end and update.slot.status == SLOT_PROCESSED:
            break
    assert signatures == [t.signature for t in sent(market_events)]


@pytest.mark.parametrize(
    ("faults", "code", "details"),
    [
        (Faults(disconnect_every=100), grpc.StatusCode.UNAVAILABLE, "connection reset (injected)"),
        (Faults(lag_every=100), grpc.StatusCode.INTERNAL, "lagged to send an update"),
    ],
    ids=["disconnects", "lag drops"],
)
async def test_a_subscriber_that_resumes_loses_nothing(
    serve: Serve, market_events: list[SlotEvent], faults: Faults, code: Any, details: str
) -> None:
    chain = await serve(faults=faults)
    chain.publish(market_events)
    slots = [e.slot for e in market_events if isinstance(e, SlotStarted)]
    end = is_status(SLOT_PROCESSED, last(market_events, SlotCompleted).header.slot)
    seen: set[bytes] = set()
    from_slot, breaks, complete = slots[0], 0, False
    while not complete:
        call = chain.stub.Subscribe()
        await call.write(everything(from_slot=from_slot))
        ended = None
        while not complete and ended is None:
            try:
                update = await asyncio.wait_for(call.read(), 60)
            except grpc.aio.AioRpcError as error:
                ended = (error.code(), error.details())
            else:
                complete = end(update)
                if update.HasField("transaction"):
                    seen.add(update.transaction.transaction.signature)
                    from_slot = update.transaction.slot
        call.cancel()
        assert ended in ((code, details), None)
        breaks += ended is not None
    assert breaks > 3
    frozen = {e.header.slot for e in market_events if isinstance(e, SlotCompleted)}
    executed = [e for e in market_events if isinstance(e, SlotTransactions) and e.slot in frozen]
    assert seen == {t.signature for e in executed for t in e.transactions}
