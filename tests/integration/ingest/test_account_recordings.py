"""A recording of accounts made by one process, loaded into the lane of another, and shown."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from infra.local.process import free_port
from infra.settings import Settings
from schemas.accounts import unpack
from schemas.redis_keys import ACCOUNT, ASKED_ACCOUNTS, WATERMARK, account_tags
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM, key, text
from schemas.topics import SETTLED_ACCOUNTS
from tests.support.account_node import LEAN, WALLETS, AccountNode, Held
from tests.support.agents.committing import until_committed
from tests.support.forked import Forked
from tests.support.systems import running_stores
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.processes


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Settings]:
    with running_stores(tmp_path) as settings:
        yield settings


async def soltape(arguments: list[str], environment: dict[str, str], folder: Path) -> list[str]:
    """Run `soltape accounts` from a folder of its own; return the lines that it prints."""
    printed, log = folder / "printed", folder / "said"
    printed.unlink(missing_ok=True)
    given = os.environ | environment | {"SOLTAPE_DATA": str(folder)}
    process = Forked(("accounts", *arguments), given, log, printed)
    code = await asyncio.to_thread(process.wait, timeout=240)
    assert code == 0, log.read_text()[-2000:]
    return printed.read_text().splitlines()


class AgentState:
    """What the agent keeps."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def slots(self) -> list[int]:
        """Return how far each partition is."""
        names = [WATERMARK.make(tag=tag, group="accounts") for tag in account_tags()]
        return [int(await self._redis.hget(name, "slot") or 0) for name in names]

    async def accounts(self) -> dict[bytes, Held]:
        """Return all accounts that are not closed."""
        found = {}
        async for name in self._redis.scan_iter(match=ACCOUNT.make(tag="{*}", address="*")):
            stored = unpack(await self._redis.get(name))
            if not stored.closed:
                address = key(name.decode().rsplit(":", 1)[1])
                found[address] = Held(stored.program, stored.lamports, stored.data())
        return found


async def test_a_recording_is_loaded_elsewhere_and_what_is_kept_is_shown(kafka, stores, tmp_path):
    node = AccountNode(14)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    wallet, program = WALLETS[0], text(STAKE_PROGRAM)
    with ExitStack() as stack:
        async with node.serve() as served, Redis.from_url(stores.redis_url) as redis:
            log = tmp_path / "roles.log"
            given = served | {
                "KAFKA_BOOTSTRAP": kafka,
                "REDIS_URL": stores.redis_url,
                "CLICKHOUSE_URL": stores.clickhouse_url,
                "SOLTAPE_DATA": str(there),
                "RPC_ENDPOINT": served["RPC_ENDPOINT"] + LEAN,
            }

            def start(*arguments: str, **ports: str) -> Forked:
                process = Forked(arguments, os.environ | given | ports, log)
                stack.callback(process.send_signal, signal.SIGKILL)
                return process

            ingest = start("ingest", "accounts", METRICS_PORT_INGEST_ACCOUNTS=str(free_port()))
            start("agents", "accounts", METRICS_PORT_BOOKS=str(free_port()))
            await redis.xadd(ASKED_ACCOUNTS.make(), {"wallet": wallet})
            state = AgentState(redis)

            async def has_begun() -> bool:
                return min(await state.slots()) > 0

            await eventually_async(has_begun, lambda: log.read_text()[-3000:])
            shown = await soltape(["show", text(STAKE_PROGRAM)], given, there)
            assert "not complete" in shown[0], "this node has no getProgramAccounts"

            # What is refused goes as what is loaded does: nothing reads it again.
            refused = there / "recordings" / "refused.zst"
            refused.parent.mkdir()
            refused.write_bytes(b"no recording")
            await redis.xadd(ASKED_ACCOUNTS.make(), {"file": refused.name})

            async def is_gone() -> bool:
                return not refused.exists()

            await eventually_async(is_gone, lambda: log.read_text()[-3000:])
            assert "a recording is refused" in log.read_text()
            refused.parent.rmdir()

            # Recorded by a process that has a folder and a node of its own, and carried over.
            await soltape(["record", "accounts.zst", "--program", program], served, here)
            assert not (there / "recordings").exists()
            shutil.move(here / "accounts.zst", tmp_path / "carried.zst")
            await soltape(["bootstrap", "--from", str(tmp_path / "carried.zst")], given, there)
            shown = await soltape(["show", text(STAKE_PROGRAM)], given, there)
            assert "complete since slot" in shown[0]
            loaded = max(await state.slots())
            shown = await soltape(["show", text(wallet)], given, there)
            assert any("complete since slot" in line for line in shown)

            # Ten slots later all of it is what the chain has.
            async def is_later() -> bool:
                return min(await state.slots()) > loaded + 10

            await eventually_async(is_later, lambda: log.read_text()[-3000:])
            ingest.send_signal(signal.SIGTERM)
            assert ingest.wait(timeout=240) == 0

            settings = stores.model_copy(update={"kafka_bootstrap": kafka})
            await until_committed(settings, "soltape-accounts", SETTLED_ACCOUNTS)
            [slot] = {*await state.slots()}
            truth = node.at(slot).accounts
            found = await state.accounts()
            for of in (STAKE_PROGRAM, TOKEN_PROGRAM):
                ours = {a: h for a, h in found.items() if h.owner == of}
                theirs = {a: h for a, h in truth.items() if h.owner == of}
                if of == TOKEN_PROGRAM:  # of the one wallet alone
                    theirs = {a: h for a, h in theirs.items() if h.data[32:64] == wallet}
                    ours = {a: h for a, h in ours.items() if h.data[32:64] == wallet}
                assert ours == theirs, slot

            of_wallet = {
                text(address): held
                for address, held in truth.items()
                if wallet in (held.data[32:64], held.data[12:44])
            }
            shown = await soltape(["show", text(wallet)], given, there)
            heading, *lines = shown[-1 - len(of_wallet) :]
            assert heading.endswith(f"as of slot {slot}")
            assert {line.split()[0] for line in lines} == {*of_wallet}
            address, held = min(of_wallet.items())
            shown = await soltape(["show", address], given, there)
            kind = "stake" if held.owner == STAKE_PROGRAM else "token"
            assert shown[0] == f"{address}: {kind}"
            assert f"{held.lamports} lamports, {len(held.data)} bytes" in shown[1]
            assert shown[2].split() == ["program", text(held.owner)]
            assert f"  found by {text(wallet)}" in shown
