"""The lane of accounts from the simulated market, badly delivered, equals what RPC says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from infra.kafka.topics import TopicsWrong
from infra.local.process import free_port
from infra.solana_rpc import client as solana_rpc
from pipeline.ingest.accounts.rpc import AccountsRpc
from pipeline.ingest.accounts.subscription import OWNERS_A_FILTER
from schemas.accounts import decompress
from schemas.proto.tape_pb2 import Covered, SlotBatch
from schemas.protocols.registry import KINDS
from schemas.redis_keys import ASKED_ACCOUNTS
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key, text
from schemas.topics import SETTLED_ACCOUNTS, SETTLED_BY_WALLET
from tests.support.systems import bound, running_valkey
from tests.support.topics import values_of
from tests.support.waiting import eventually_async

pytestmark = [pytest.mark.processes, pytest.mark.slow]

WALLETS = 20


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    with running_valkey(tmp_path) as port:
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def child(arguments: list[str], environment: dict[str, str], log: Path) -> Iterator[Any]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            bound([sys.executable, "-m", "infra.cli", *arguments]),
            env=os.environ | environment,
            stdout=out,
            stderr=out,
            cwd=log.parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


async def tokens_at(kafka: str, wallet: bytes, slot: int) -> dict[bytes, tuple[int, bytes]] | None:
    """What the lane says that a wallet has of tokens at the end of a slot.

    None: the lane is not complete, not there yet, mends a hole, or was asked for something after
    that slot.
    """
    found: dict[bytes, tuple[int, bytes]] = {}
    for records in (await values_of(kafka, SETTLED_ACCOUNTS)).values():
        stored: dict[bytes, tuple[int, Any]] = {}
        since, reached, is_whole = None, -1, False
        for value in records:
            batch = SlotBatch.FromString(value)
            reached = batch.slot
            if batch.slot > slot:
                break
            is_whole = batch.complete  # else a hole is being asked for
            for version in batch.accounts:
                at = version.asked_slot if version.HasField("asked_slot") else batch.slot
                if at >= stored.get(version.address, (-1, None))[0]:
                    stored[version.address] = at, version
            for each in batch.covered:
                if each.kind == Covered.WALLET and each.address == wallet:
                    since = each.slot if each.HasField("slot") else None
        if reached < slot or since is None or not is_whole:
            return None
        for address, (at, version) in stored.items():
            if at > slot and (version.closed or wallet in version.found_by):
                return None  # what it was before is not known
            is_token = version.program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)  # a wallet has others
            if at >= since and not version.closed and is_token and wallet in version.found_by:
                found[address] = version.lamports, decompress(version.data, version.size)
    return found


def place(kafka: str, redis_url: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the ports of a chain, and the settings that lead to it and the stores."""
    grpc_port, rpc_port = free_port(), free_port()
    environment = {
        "KAFKA_BOOTSTRAP": kafka,
        "REDIS_URL": redis_url,
        "SOLTAPE_DATA": str(folder),
        "GEYSER_ENDPOINT": f"http://127.0.0.1:{grpc_port}",
        "RPC_ENDPOINT": f"http://127.0.0.1:{rpc_port}",
        "GEYSER_BACKOFF_MAX_S": "0.5",
        "METRICS_PORT_CHAIN": str(free_port()),
        "METRICS_PORT_INGEST": str(free_port()),
        "METRICS_PORT_INGEST_ACCOUNTS": str(free_port()),
    }
    return [f"--port={grpc_port}", f"--rpc-port={rpc_port}"], environment


async def traders(kafka: str) -> list[bytes]:
    """Return some who trade, once enough do."""
    try:
        values = await values_of(kafka, SETTLED_BY_WALLET)
    except TopicsWrong:
        return []
    wallets = {
        balance.owner
        for records in values.values()
        for value in records
        for balance in SlotBatch.FromString(value).balances
    }
    return sorted(key(each) for each in wallets)[:WALLETS] if len(wallets) > 100 else []


async def follow(redis_url: str, wallets: list[bytes]) -> None:
    async with Redis.from_url(redis_url) as redis:
        for wallet in wallets:
            await redis.xadd(ASKED_ACCOUNTS.make(), {"wallet": wallet})


async def test_token_accounts_of_tracked_wallets_are_what_rpc_says(kafka, redis_url, tmp_path):
    chain = ["chain", "--seed=3", "--rate=60", "--slot-ms=200", "--forks=0.1", "--skipped=0.05"]
    # No rolled-back slots: what these wrote is undone once a slot is final, not at once (`chaos`).
    chain += ["--duplicates=0.1", "--reorder=8", "--disconnect-every=3000"]
    chain += ["--account-duplicates=0.1", "--account-late=0.02", "--account-reorder"]
    ports, environment = place(kafka, redis_url, tmp_path)
    log = tmp_path / "accounts.log"
    with (
        child(chain + ports, environment, tmp_path / "chain.log"),
        child(["ingest"], environment, tmp_path / "ingest.log") as swaps,
        child(["ingest", "accounts"], environment, log) as role,
    ):
        wallets = await eventually_async(partial(traders, kafka), lambda: log.read_text()[-2000:])
        swaps.send_signal(signal.SIGKILL)
        await follow(redis_url, wallets)
        async with solana_rpc.session() as session:
            rpc = AccountsRpc(session, environment["RPC_ENDPOINT"], solana_rpc.Pace(1_000))
            for _ in range(2):
                for wallet in wallets:
                    await is_equal(rpc, kafka, wallet, log)
        assert role.poll() is None


async def test_a_node_that_allows_one_account_filter_is_read_by_owners(kafka, redis_url, tmp_path):
    chain = ["chain", "--seed=4", "--rate=60", "--slot-ms=200"]
    chain += ["--max-account-filters=1", f"--max-filter-owners={OWNERS_A_FILTER}"]
    ports, environment = place(kafka, redis_url, tmp_path)
    log = tmp_path / "accounts.log"
    programs = {kind.program for of in KINDS.values() for kind in of}
    needed = -(-len(programs) // OWNERS_A_FILTER)
    tried = (
        ({"ACCOUNT_FILTERS": "kind"}, "allows 1 account filter; set ACCOUNT_FILTERS=owner"),
        (
            {"ACCOUNT_FILTERS": "owner"},
            f"allows 1 account filter, {needed} are needed; set ACCOUNT_STREAMS={needed}",
        ),
    )
    with child(chain + ports, environment, tmp_path / "chain.log"):
        for settings, said in tried:
            with child(["ingest", "accounts"], environment | settings, log) as role:
                await eventually_async(
                    lambda said=said: f"this endpoint {said}" in log.read_text(),
                    lambda: log.read_text()[-2000:],
                )
                assert role.poll() is None
        # What it says to set is enough: all programs are covered, and wallets are as RPC says.
        settings = {"ACCOUNT_FILTERS": "owner", "ACCOUNT_STREAMS": str(needed)}
        with (
            child(["ingest"], environment, tmp_path / "ingest.log") as swaps,
            child(["ingest", "accounts"], environment | settings, log) as role,
        ):
            wallets = await eventually_async(
                partial(traders, kafka), lambda: log.read_text()[-2000:]
            )
            swaps.send_signal(signal.SIGKILL)
            await follow(redis_url, wallets[:4])
            async with solana_rpc.session() as session:
                rpc = AccountsRpc(session, environment["RPC_ENDPOINT"], solana_rpc.Pace(1_000))
                for _ in range(2):
                    for wallet in wallets[:4]:
                        await is_equal(rpc, kafka, wallet, log)
            await eventually_async(
                partial(is_covered, kafka, STAKE_PROGRAM), lambda: log.read_text()[-2000:]
            )
            assert role.poll() is None
        assert "closed accounts are read from the balances of transactions" in log.read_text()


async def is_covered(kafka: str, program: bytes) -> bool:
    """Return whether all partitions say that a program is covered."""
    for records in (await values_of(kafka, SETTLED_ACCOUNTS)).values():
        said = [
            each.HasField("slot")
            for value in records
            for each in SlotBatch.FromString(value).covered
            if each.kind == Covered.PROGRAM and each.address == program
        ]
        if not said or not said[-1]:
            return False
    return True


async def is_equal(rpc: AccountsRpc, kafka: str, wallet: bytes, log: Path) -> None:
    truth: dict[bytes, tuple[int, bytes]] = {}
    slots = []
    seen: list[Any] = []

    async def agree() -> bool:
        truth.clear()
        slots.clear()
        for program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
            slot, found = await rpc.token_accounts(wallet, program, 0)
            slots.append(slot)
            truth.update({each.address: (each.lamports, each.data) for each in found})
        if slots[0] != slots[1]:
            return False
        lane = None
        while lane is None:
            lane = await eventually_async(lambda: reached(kafka, slots[0]))
            lane = await tokens_at(kafka, wallet, slots[0])
            if lane is None:
                return False  # not covered yet
        seen[:] = [
            (text(a), truth.get(a, (0, b""))[0], lane.get(a, (0, b""))[0])
            for a in truth.keys() | lane.keys()
            if truth.get(a) != lane.get(a)
        ]
        assert not seen, (text(wallet), slots, seen)
        return True

    await eventually_async(agree, lambda: (seen, log.read_text()[-2000:]))


async def reached(kafka: str, slot: int) -> Any:
    values = await values_of(kafka, SETTLED_ACCOUNTS)
    return all(r and SlotBatch.FromString(r[-1]).slot >= slot for r in values.values())
