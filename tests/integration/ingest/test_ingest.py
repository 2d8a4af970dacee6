"""`soltape ingest` from a gRPC stream to a Kafka broker, both real, under all that goes wrong."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
import trustme

from pipeline.ingest import finality
from schemas.proto import geyser_pb2, tape_pb2
from schemas.topics import GAPS, LIVE, SETTLED_BY_MINT, SETTLED_BY_WALLET, UNDECODED, Topic
from tests.support.topics import values_of
from tests.support.waiting import eventually_async

MakeNode = Callable[..., Any]
MakeRole = Callable[[dict[str, str]], Any]


async def settled(kafka: str, topic: Topic) -> dict[int, list[tape_pb2.SlotBatch]]:
    return {
        partition: [tape_pb2.SlotBatch.FromString(value) for value in values]
        for partition, values in (await values_of(kafka, topic)).items()
    }


async def last_slot(kafka: str) -> int:
    try:
        lanes = await settled(kafka, SETTLED_BY_WALLET)
    except Exception:
        return 0  # not there yet
    return min((batches[-1].slot if batches else 0) for batches in lanes.values())


async def until_settled(kafka: str, slot: int) -> None:
    reached = 0

    async def holds() -> bool:
        nonlocal reached
        reached = await last_slot(kafka)
        return reached >= slot

    await eventually_async(holds, lambda: f"settled {reached}, wanted {slot}")


async def check_lanes(kafka: str, node: Any, *, complete: bool = True) -> list[int]:
    """The settled lanes are the canonical chain, each partition ascending, each swap once."""
    by_mint = await settled(kafka, SETTLED_BY_MINT)
    by_wallet = await settled(kafka, SETTLED_BY_WALLET)
    in_gaps = {s for gap in await gaps(kafka) for s in range(gap.first_slot, gap.last_slot + 1)}
    partitions = [*by_mint.values(), *by_wallet.values()]
    slots = sorted(set.intersection(*({batch.slot for batch in each} for each in partitions)))
    assert slots, "something was settled"
    for batches in partitions:
        own = [batch.slot for batch in batches]
        assert own == sorted(set(own))
        # Killed in the middle of a slot that nobody has any more: a part of it is in the log.
        assert set(own) - set(slots) <= in_gaps, "every partition has every slot"
    truth = dict(node.expected())
    if complete:
        assert slots == [slot for slot in truth if slot >= slots[0]]
    parents = {slot.slot: slot.parent for slot in node.canonical}
    for topic, lane in ((SETTLED_BY_MINT, by_mint), (SETTLED_BY_WALLET, by_wallet)):
        swaps: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for partition, batches in lane.items():
            for batch in batches:
                if batch.slot not in slots:
                    continue
                assert batch.complete or not complete
                order = [(e.swap.tx_index, e.swap.event_index) for e in batch.events]
                assert order == sorted(order)
                if batch.complete:
                    assert batch.parent == parents[batch.slot]
                    assert batch.blockhash == f"hash{batch.slot}"
                    assert batch.transactions == len(truth[batch.slot])
                    assert batch.outcomes.decoded == len(truth[batch.slot])
                    assert sum(each.outcomes.decoded for each in batch.venues) == len(
                        truth[batch.slot]
                    )
                for event in batch.events:
                    swap = event.swap
                    assert swap.commitment == tape_pb2.CONFIRMED
                    assert swap.slot == batch.slot
                    assert swap.block_time_ms == batch.block_time_ms
                    owner = swap.mint if topic.key == "mint" else swap.wallet
                    assert topic.partition(owner) == partition
                    swaps[batch.slot].append((swap.signature, swap.tx_index))
        whole = {batch.slot for batch in lane[0] if batch.complete}
        for slot in slots:
            if slot in whole:
                assert sorted(swaps[slot]) == sorted(truth[slot]), slot
            else:
                assert set(swaps[slot]) <= set(truth[slot])
                assert len(swaps[slot]) == len(set(swaps[slot]))
    return slots


async def gaps(kafka: str) -> list[tape_pb2.SlotGap]:
    values = await values_of(kafka, GAPS)
    return [tape_pb2.SlotGap.FromString(value) for value in values[0]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
async def test_killed_repeatedly_it_loses_and_doubles_nothing(
    kafka: str, make_node: MakeNode, make_role: MakeRole, seed: int
) -> None:
    random = Random(seed)
    node = make_node(seed=seed, slots=360, disconnect_chance=0.03)
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka})
        live = asyncio.create_task(node.live())
        role.start()
        await until_settled(kafka, node.chain[0].slot)  # from here on, a tape must be continued
        kills = 0
        while not node.done.is_set():
            await eventually_async(lambda: role.has_said("stream open") or node.done.is_set())
            await asyncio.sleep(random.uniform(0, 2))
            await asyncio.to_thread(role.stop, signal.SIGKILL)
            kills += 1
            role.start()
        await live
        assert kills >= 3
        await eventually_async(lambda: role.has_said("active "))
        await until_settled(kafka, node.canonical[-1].slot)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    slots = await check_lanes(kafka, node)
    assert len(slots) > 150
    assert await gaps(kafka) == []


@pytest.mark.slow
async def test_what_the_node_no_longer_has_comes_from_rpc(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=3, slots=240, replay_slots=3, held_slots=160)
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka})
        live = asyncio.create_task(node.live())
        role.start()
        priced = node.chain[20].slot  # by now: a busy machine may fetch the first slots as well
        await until_settled(kafka, priced)
        await asyncio.to_thread(role.stop, signal.SIGKILL)
        head = node.log[-1][0]
        node.go_on.set()
        await eventually_async(lambda: node.log[-1][0] > head + 4 * node.replay_slots)
        node.running.clear()  # a chain that is over has no head to be learned from
        asked = len(node.requests)
        role.start()
        await eventually_async(
            lambda: any(not each.HasField("from_slot") for each in node.requests[asked:])
        )
        node.running.set()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        await asyncio.to_thread(role.stop, signal.SIGTERM)
    assert node.refused >= 3, "from_slot is asked for before it is given up"
    await check_lanes(kafka, node)
    assert await gaps(kafka) == []
    # What the stream did not bring is on the live lane too, and said to be confirmed.
    late = set()
    for values in (await values_of(kafka, LIVE)).values():
        for value in values:
            batch = tape_pb2.LiveBatch.FromString(value)
            swaps = [event.swap for event in batch.events if event.HasField("swap")]
            assert all(swap.sol_value_lamports == swap.quote_amount_raw for swap in swaps)
            confirmed = [swap for swap in swaps if swap.commitment == tape_pb2.CONFIRMED]
            late |= {swap.slot for swap in confirmed if swap.slot > priced}
            if any(swap.slot > priced for swap in confirmed):  # valued, also after the restart
                assert 140 < float(batch.sol_usd) < 160
            assert all(swap.usd_value_micros for swap in confirmed if swap.slot > priced)
    assert late


@pytest.mark.slow
async def test_what_nobody_has_is_a_gap(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=4, slots=240, replay_slots=3, held_slots=60, rpc_serves=False)
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka})
        live = asyncio.create_task(node.live())
        role.start()
        await until_settled(kafka, node.chain[20].slot)
        await asyncio.to_thread(role.stop, signal.SIGKILL)
        await node.held.wait()
        before = len(node.requests)
        role.start()
        # It gives up asking for what the node no longer has: only new slots can show the gap.
        await eventually_async(
            lambda: any(not request.HasField("from_slot") for request in node.requests[before:])
        )
        node.go_on.set()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        await asyncio.to_thread(role.stop, signal.SIGTERM)
    slots = await check_lanes(kafka, node, complete=False)
    recorded = await gaps(kafka)
    assert recorded
    # A slot that is on the lane may still be named as one whose end is not known.
    lost = [gap for gap in recorded if gap.reason != finality.NOT_KNOWN]
    missing = {s for gap in lost for s in range(gap.first_slot, gap.last_slot + 1)}
    wanted = {slot.slot for slot in node.canonical if slot.slot >= slots[0]}
    lane = (await settled(kafka, SETTLED_BY_MINT))[0]
    whole = {batch.slot for batch in lane if batch.complete and batch.slot in slots}
    assert wanted - whole <= missing
    assert not whole & missing
    assert "RPC_ENDPOINT" in lost[0].reason


async def test_it_speaks_as_a_node_expects_and_survives_garbage(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=5, slots=60)
    garbage = b"\x22\xff\xff\xff\xff\x0f no protobuf"
    async with node.serve() as environment:
        role = make_role(
            environment
            | {
                "KAFKA_BOOTSTRAP": kafka,
                "GEYSER_X_TOKEN": "not-for-the-log",
                "GEYSER_PING_INTERVAL_S": "1",
            }
        )
        live = asyncio.create_task(node.live())
        role.start()
        await until_settled(kafka, node.chain[10].slot)
        node.send_garbage(garbage)
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        assert await asyncio.to_thread(role.stop, signal.SIGINT) == 0
    await check_lanes(kafka, node)
    assert node.tokens == ["not-for-the-log"]
    assert node.pings >= 2
    assert "not-for-the-log" not in role.log
    (request,) = node.requests
    assert not request.HasField("from_slot")
    undecoded = [
        tape_pb2.Undecoded.FromString(value)
        for values in (await values_of(kafka, UNDECODED)).values()
        for value in values
    ]
    assert [each.data for each in undecoded] == [garbage]
    assert undecoded[0].reason == tape_pb2.Undecoded.MALFORMED
    # Every slot that users saw events of is confirmed or taken back, in the live lane itself.
    seen, confirmed, orphaned = set(), set(), set()
    for values in (await values_of(kafka, LIVE)).values():
        for value in values:
            for event in tape_pb2.LiveBatch.FromString(value).events:
                status = event.slot_status
                if event.HasField("swap"):
                    seen.add(event.swap.slot)
                elif status.status == tape_pb2.SlotStatus.CONFIRMED:
                    confirmed.add(status.slot)
                elif status.status == tape_pb2.SlotStatus.ORPHANED:
                    orphaned.add(status.slot)
    first = min(confirmed)
    assert {slot for slot in seen if slot >= first} <= confirmed | orphaned
    assert confirmed == {slot.slot for slot in node.canonical if slot.slot >= first}


async def test_a_settled_slot_that_is_rolled_back_is_announced_with_its_wallets(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=8, slots=60)
    at = next(n for n, slot in enumerate(node.canonical) if n >= 10 and slot.transactions)
    *before, back, other = node.chain = node.canonical[: at + 2]
    other.parent = back.parent  # and not `back`, which was confirmed all the same
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka})
        role.start()
        await node.subscribed.wait()
        for slot in (*before, back):
            node.send_slot(slot, geyser_pb2.SLOT_CONFIRMED)
        await until_settled(kafka, back.slot)
        node.send_slot(other, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED)

        async def recorded() -> list[tape_pb2.SlotGap]:
            return [gap for gap in await gaps(kafka) if gap.reason == finality.ROLLED_BACK]

        await eventually_async(recorded, lambda: role.log)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    [gap] = await recorded()
    assert (gap.first_slot, gap.last_slot) == (back.slot, back.slot)
    batches = [
        batch
        for lane in (await settled(kafka, SETTLED_BY_WALLET)).values()
        for batch in lane
        if batch.slot == back.slot
    ]
    traded = {event.swap.wallet for batch in batches for event in batch.events}
    assert traded
    assert traded <= set(gap.wallets)
    said: dict[int, list[int]] = defaultdict(list)
    for value in (await values_of(kafka, LIVE))[LIVE.partition(str(back.slot))]:
        for event in tape_pb2.LiveBatch.FromString(value).events:
            if event.HasField("slot_status"):
                said[event.slot_status.slot].append(event.slot_status.status)
    status = tape_pb2.SlotStatus
    assert said[back.slot] == [status.PROCESSED, status.CONFIRMED, status.ORPHANED]


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
async def test_the_stream_over_tls(
    kafka: str, make_node: MakeNode, make_role: MakeRole, tmp_path: Path
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    roots = tmp_path / "roots.pem"
    authority.cert_pem.write_to_path(str(roots))
    node = make_node(seed=7, slots=30)
    pair = (issued.private_key_pem.bytes(), chain)
    async with node.serve(grpc.ssl_server_credentials([pair])) as environment:
        role = make_role(
            environment
            | {
                "KAFKA_BOOTSTRAP": kafka,
                "GEYSER_X_TOKEN": "over-tls",
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(roots),
            }
        )
        live = asyncio.create_task(node.live())
        role.start()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    await check_lanes(kafka, node)
    assert node.tokens == ["over-tls"]


@pytest.mark.slow
async def test_a_broker_that_stops_answering_is_waited_for(
    broker: Any, kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=6, slots=160)
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka})
        live = asyncio.create_task(node.live())
        role.start()
        await until_settled(kafka, node.chain[20].slot)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(3)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    assert role.log.count(" starting ") == 1
    await check_lanes(kafka, node)
