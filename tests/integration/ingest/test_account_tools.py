"""Audit, recordings and commands of the lane of accounts, against a node and a Valkey."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import zstandard
from redis.asyncio import Redis

from infra.local.process import free_port
from infra.settings import Settings
from infra.solana_rpc import client as solana_rpc
from pipeline.ingest.accounts import tools
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import Asking
from pipeline.ingest.accounts.audit import ACCOUNTS, Audit
from pipeline.ingest.accounts.counting import Counted
from pipeline.ingest.accounts.recorded import (
    BadRecording,
    file_of,
    read_recording,
    recording,
    updates_of,
)
from pipeline.ingest.accounts.rpc import AccountsRpc
from pipeline.ingest.accounts.tracked import Tracked
from schemas.accounts import StoredAccount, compress, pack
from schemas.proto.geyser_pb2 import SubscribeUpdate
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.redis_keys import ACCOUNT, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import STAKE_PROGRAM, text
from tests.support.account_node import AccountNode, Held
from tests.support.systems import bound, running_valkey
from tests.support.waiting import WITHIN_S

pytestmark = pytest.mark.processes


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    with running_valkey(tmp_path) as port:
        yield f"redis://127.0.0.1:{port}/0"


def stored(slot: int, held: Held, *, closed: bool = False) -> bytes:
    data = b"" if closed else held.data
    lamports = 0 if closed else held.lamports
    return pack(StoredAccount(slot, lamports, held.owner, len(data), compress(data), closed))


def name(address: bytes) -> str:
    return ACCOUNT.make(tag=account_tag(text(address)), address=text(address))


async def test_the_audit_finds_what_differs_and_asks_for_it_again(redis_url):
    node = AccountNode(1)
    stakes = [a for a, h in node.tip.accounts.items() if h.owner == STAKE_PROGRAM]
    truth = node.tip.accounts
    wrong, gone, newer, risen, *right = stakes
    slot = node.tip.slot
    other = Held(STAKE_PROGRAM, 1, bytes(200))
    values = {
        wrong: stored(slot, other),
        gone: stored(slot, other, closed=True),
        newer: stored(slot + 1, other),
        risen: stored(slot - 1, other),
        **{address: stored(slot, truth[address]) for address in right},
        bytes([9]) * 32: stored(slot, other),  # not on the chain
    }
    async with node.serve() as served, Redis.from_url(redis_url) as redis:
        node.slot_s = 1e9
        for address, value in values.items():
            await redis.set(name(address), value)
        for tag in account_tags():
            mark = WATERMARK.make(tag=tag, group="accounts")
            await redis.hset(mark, "slot", node.tip.slot + 5)
        settings = Settings(_env_file=None, redis_url=redis_url)
        answers = AnswerQueue()
        async with solana_rpc.session() as session:
            rpc = AccountsRpc(session, served["RPC_ENDPOINT"], solana_rpc.Pace(1_000))

            async def settled() -> int:
                return slot

            tracked = Tracked(1)
            audit = Audit(settings, rpc, Asking(rpc, answers, settled, tracked), tracked)
            assert await audit.compare(list(values)) == 4
        [answer] = answers.take(node.tip.slot, 1 << 20)
    mended = {update.address: update.lamports for _, update in answer.updates}
    assert mended == {
        wrong: truth[wrong].lamports,
        gone: truth[gone].lamports,
        risen: truth[risen].lamports,
        bytes([9]) * 32: 0,
    }


async def test_the_audit_draws_others_each_time_whatever_else_redis_has(redis_url):
    addresses = [bytes([7, *divmod(number, 256)]) + bytes(29) for number in range(300)]
    settings = Settings(_env_file=None, redis_url=redis_url)
    held = Held(STAKE_PROGRAM, 1, bytes(200))
    async with Redis.from_url(redis_url) as redis, solana_rpc.session() as session:
        rpc = AccountsRpc(session, "http://127.0.0.1:9", solana_rpc.Pace(1_000))
        asking: Any = None
        audits = [Audit(settings, rpc, asking, Tracked(1)) for _ in range(2)]  # as after a start
        assert await audits[0].draw() == []
        await redis.mset({name(address): stored(5, held) for address in addresses})
        await redis.mset({f"pos:{number}": b"" for number in range(1_500)})
        first, second = [await audit.draw() for audit in audits]
        assert len({*first}) == len({*second}) == ACCOUNTS
        assert {*first} | {*second} <= {*addresses}
        assert first != second
        seen = {*first, *second}
        for _ in range(20):
            seen.update(await audits[0].draw())
        assert len(seen) > 250, "no part of them waits for its turn"
        await redis.delete(*map(name, addresses[20:]))
        assert 0 < len({*await audits[0].draw()}) <= 20, "where there are few, these"


def soltape(arguments: list[str], environment: dict[str, str], folder: Path) -> Any:
    return subprocess.Popen(
        bound([sys.executable, "-m", "infra.cli", "accounts", *arguments]),
        env=os.environ | environment | {"SOLTAPE_DATA": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
    )


async def test_a_recording_has_all_accounts_of_its_programs(tmp_path):
    node = AccountNode(2)
    file = tmp_path / "accounts.zst"
    async with node.serve() as served:
        node.slot_s = 1e9
        truth = dict(node.tip.accounts)
        process = soltape(["record", str(file), "--program", text(STAKE_PROGRAM)], served, tmp_path)
        _, said = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, said
    found = {
        update.address: Held(update.owner, update.lamports, update.data)
        for part in read_recording(file)
        for _, update in updates_of(part)
    }
    assert found == {a: h for a, h in truth.items() if h.owner == STAKE_PROGRAM}
    *_, last = read_recording(file)
    assert [each.address for each in last.covered] == [STAKE_PROGRAM]
    cut = tmp_path / "cut.zst"
    cut.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadRecording, match=r"cut\.zst"):
        list(read_recording(cut))
    cut.write_bytes(b"something else")
    with pytest.raises(BadRecording, match="no recording of accounts"):
        list(read_recording(cut))


async def test_a_recording_where_no_node_answers_ends_and_says_so(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    file = tmp_path / "accounts.zst"
    process = soltape(["record", str(file)], {"RPC_ENDPOINT": url}, tmp_path)
    _, said = await asyncio.to_thread(process.communicate, timeout=120)
    assert process.returncode == 1
    assert f"Error: RPC_ENDPOINT: getMultipleAccounts: {url}: " in said
    assert not file.exists()


async def test_count_shows_kinds_and_ends_by_ctrl_c(tmp_path):
    node = AccountNode(3)
    async with node.serve() as served:
        process = soltape(["count", "--seconds", "2"], served, tmp_path)
        shown, said = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, said
        kinds = {line.split()[0] for line in shown.splitlines()[1:]}
        assert {"clock", "token", "stake", "all"} <= kinds, shown
        process = soltape(["count", "--seconds", "3600"], served, tmp_path)
        assert process.stderr is not None
        await asyncio.to_thread(process.stderr.readline)
        process.send_signal(signal.SIGINT)
        shown, said = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, said
        assert "slots in" in shown


async def test_count_where_no_node_answers_ends_and_says_so(monkeypatch):
    monkeypatch.setattr(tools, "BEGINS_WITHIN_S", 0.0)
    url = f"http://127.0.0.1:{free_port()}"
    settings = Settings(_env_file=None, geyser_endpoint=url, account_streams=2)
    # private `_count`: the command itself waits for seconds
    counting = asyncio.wait_for(tools._count(settings, Counted(), 1), WITHIN_S)
    with pytest.raises(click.ClickException, match=f"over 2 of 2 connections to {url}"):
        await counting


def test_updates_are_counted_once_all_connections_have_some():
    update = SubscribeUpdate()
    update.account.account.lamports = 0
    counted = Counted()
    counted.silent = 2
    for _ in range(2):
        counted.take(update.SerializeToString())
        assert (counted.updates.total(), counted.seconds) == (0, 0.0)
        counted.heard()
    counted.take(update.SerializeToString())
    assert counted.updates.total() == 1
    assert counted.seconds > 0


async def test_an_address_that_is_none_is_refused(tmp_path):
    process = soltape(["show", "abc"], {}, tmp_path)
    _, said = await asyncio.to_thread(process.communicate)
    assert process.returncode == 2
    assert "must be a Solana address" in said


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", ".hidden", "a\0b", "x" * 101])
def test_ingest_reads_names_and_no_paths(tmp_path, name):
    with pytest.raises(BadRecording, match="no name of a recording"):
        file_of(Settings(_env_file=None, soltape_data=tmp_path), name)


def test_only_a_regular_file_is_a_recording(tmp_path):
    file = tmp_path / "real.zst"
    with recording(file) as writer:
        writer.part(1, [])
        writer.covered({STAKE_PROGRAM: 1})
    assert len(list(read_recording(file))) == 2
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="link"):
        list(read_recording(tmp_path / "link"))
    with pytest.raises(BadRecording, match="no regular file"):
        list(read_recording(tmp_path / "pipe"))


@pytest.mark.parametrize(
    "batch",
    [
        SlotBatch(covered=[Covered(kind=Covered.WALLET, address=bytes(32), slot=1)]),
        SlotBatch(covered=[Covered(kind=Covered.PROGRAM, address=bytes(32))]),
        SlotBatch(slot=1, accounts=[AccountVersion(address=b"short", program=bytes(32))]),
    ],
)
def test_a_recording_says_nothing_of_wallets_or_short_addresses(tmp_path, batch):
    file = tmp_path / "accounts.zst"
    raw = batch.SerializeToString()
    file.write_bytes(zstandard.compress(struct.pack("<I", len(raw)) + raw))
    with pytest.raises(BadRecording, match=r"not 32 bytes|something else than programs"):
        list(read_recording(file))
