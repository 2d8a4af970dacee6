"""Programs being bootstrapped: what a node is asked, and which slots cover them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from infra.redis.client import connect
from infra.settings import Settings
from infra.solana_rpc import client
from pipeline.ingest.accounts import bootstrap, parts, tools
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.bootstrap import OF_PROGRAM, REQUESTS, Bootstrap
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.parts import PARTS, SAMPLE
from pipeline.ingest.accounts.rpc import AccountsRpc
from schemas.protocols.contract import Kind
from schemas.redis_keys import BOOTSTRAP
from schemas.solana import base58
from schemas.solana.addresses import text
from tests.support.rpc_server import serving
from tests.support.systems import running_valkey
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.processes

CONTEXT_SLOT = 9
PROGRAMS = [bytes([n]) * 32 for n in range(1, 25)]
OWNER_AT = 8


def kind(program: bytes) -> Kind:
    return Kind("Deposit", program, b"deposits", wallets=(OWNER_AT,))


class Node:
    """A node with `count` accounts of each byte of a wallet's key, of each program."""

    def __init__(self) -> None:
        self.count = 0
        self.asked: list[tuple[str, int | None]] = []  # program, first byte of the wallets
        self.refuses: set[str] = set()
        self.hangs: set[str] = set()
        self.padding = b""  # of an answer that is not of a part
        self.holds: asyncio.Event | None = None
        self.under_way: Counter[str] = Counter()
        self.most_of_one = self.most_of_all = 0

    def of(self, program: bytes) -> list[int | None]:
        return [byte for name, byte in self.asked if name == text(program)]

    async def __call__(self, method: str, params: list[Any]) -> Any:
        assert method == "getProgramAccounts"
        program, filters = params[0], [each["memcmp"] for each in params[1]["filters"]]
        byte = next((base58.decode(f["bytes"])[0] for f in filters if f["offset"]), None)
        self.asked.append((program, byte))
        self.under_way[program] += 1
        self.most_of_one = max(self.most_of_one, self.under_way[program])
        self.most_of_all = max(self.most_of_all, self.under_way.total())
        try:
            return await self._answer(program, byte)
        finally:
            self.under_way[program] -= 1

    async def _answer(self, program: str, byte: int | None) -> Any:
        if program in self.refuses:
            error = {"code": -32010, "message": "excluded from account secondary indexes"}
            return web.json_response({"error": error})
        if program in self.hangs:
            await asyncio.Event().wait()
        if self.holds is not None:
            await self.holds.wait()
        wanted = range(PARTS) if byte is None else [byte]
        value = [
            {
                "pubkey": text(bytes([each, number]) + bytes(30)),
                "account": {
                    "data": [b64encode(b"deposits" + bytes([each]) * 32).decode(), "base64"],
                    "owner": program,
                    "lamports": 5,
                },
            }
            for each in wanted
            for number in range(self.count)
        ]
        if byte is None and self.padding:
            context = {"context": {"slot": CONTEXT_SLOT}, "value": value}
            return web.json_response({"result": context, "padding": self.padding.decode()})
        return value


class Lane:
    """Settles a slot whenever a test wants it."""

    def __init__(self, *programs: bytes) -> None:
        self.answers = AnswerQueue()
        self.coverage = Coverage([kind(each) for each in programs], [])
        self.slot = CONTEXT_SLOT - 2
        self.given: dict[bytes, tuple[int, int]] = {}  # program: as of, in which slot

    def settle(self) -> list[Answer]:
        self.slot += 1
        taken = self.answers.take(self.slot, 1 << 30)
        for answer in taken:
            assert answer.taken is not None
            answer.taken.set_result(self.slot)
            self.coverage.note(answer.covered)
            self.given |= {each.address: (each.slot, self.slot) for each in answer.covered}
        return taken

    async def settled(self) -> int:
        return min(self.slot, CONTEXT_SLOT)  # the node gets no further

    async def acknowledged(self, slot: int) -> None:
        assert slot <= self.slot

    def holds(self, count: int) -> bool:
        return len(self.answers) == count

    async def until(self, *programs: bytes) -> None:
        """Settle slots until programs are covered."""

        def settles() -> bool:
            self.settle()
            return self.given.keys() >= set(programs)

        await eventually_async(settles, lambda: (self.given, self.coverage.lacking()))


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with running_valkey(tmp_path) as port:
        yield Settings(
            _env_file=None, redis_url=f"redis://127.0.0.1:{port}/0", account_boot_mib_s=1000.0
        )


@pytest.fixture
def node() -> Node:
    return Node()


@asynccontextmanager
async def bootstrapping(settings: Settings, node: Node, lane: Lane) -> AsyncIterator[None]:
    async with serving(node, CONTEXT_SLOT) as url, client.session() as session:
        rpc = AccountsRpc(session, url, client.Pace(5_000))
        made = Bootstrap(
            settings, rpc, lane.answers, lane.coverage, lane.settled, lane.acknowledged
        )
        task = asyncio.create_task(made.run())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_small_programs_are_covered_with_two_slots_however_many_they_are(
    settings: Settings, node: Node
) -> None:
    lane = Lane(*PROGRAMS)
    async with bootstrapping(settings, node, lane):
        await eventually_async(lambda: lane.holds(len(PROGRAMS)), lambda: node.asked, 30)
        assert lane.settle() == [], "no slot that the answers' slot is not settled with has them"
        assert len(lane.settle()) == len(PROGRAMS), "what they have"
        await eventually_async(lambda: lane.holds(len(PROGRAMS)), within_s=30)
        assert lane.given == {}
        lane.settle()
    assert lane.given == dict.fromkeys(PROGRAMS, (CONTEXT_SLOT, CONTEXT_SLOT + 1))
    assert lane.coverage.lacking() == []
    assert all(node.of(each) == [SAMPLE, None] for each in PROGRAMS)
    assert node.most_of_all <= REQUESTS


async def test_a_large_kind_is_asked_for_in_parts(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.count = 2
    monkeypatch.setattr(parts, "SMALL_BYTES", 2 * PARTS * parts.ACCOUNT_BYTES)
    [program, *_] = PROGRAMS
    lane = Lane(program)
    async with bootstrapping(settings, node, lane):
        await lane.until(program)
    first, *others = node.of(program)
    assert (first, Counter(others)) == (SAMPLE, Counter(range(PARTS)))
    assert node.most_of_one <= OF_PROGRAM


async def test_a_kind_that_is_larger_than_its_sample_says_is_asked_for_in_parts(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.padding = b" " * 2_000
    monkeypatch.setattr(parts, "SMALL_ANSWER_BYTES", 1_000)
    [program, *_] = PROGRAMS
    lane = Lane(program)
    async with bootstrapping(settings, node, lane):
        await lane.until(program)
    first, second, *others = node.of(program)
    assert (first, second, Counter(others)) == (SAMPLE, None, Counter(range(PARTS)))


async def test_a_process_that_is_killed_amid_a_large_program_leaves_its_parts_to_the_next(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.count = 1
    monkeypatch.setattr(parts, "SMALL_BYTES", 0)
    [program, *_] = PROGRAMS
    redis: Any = connect(settings)
    name = BOOTSTRAP.make(program=text(program))
    lane = Lane(program)
    async with bootstrapping(settings, node, lane):
        await eventually_async(lambda: len(lane.answers) > 20)
        while not any(each.updates for each in lane.settle()):
            pass
        await eventually_async(lambda: redis.hgetall(name))
        assert not lane.given
    first, node.asked = node.asked, []
    noted = {int(field.decode().rpartition(":")[2], 16) for field in await redis.hgetall(name)}
    assert noted <= {byte for _, byte in first}
    after = Lane(program)
    async with bootstrapping(settings, node, after):
        await after.until(program)
        await eventually_async(partial(_is_gone, redis, name))
    assert Counter(node.of(program)) == Counter(set(range(PARTS)) - noted), "no part twice"
    assert after.given[program][0] == CONTEXT_SLOT
    await redis.aclose()


async def test_parts_that_may_have_gone_with_slots_that_the_agent_lost_are_asked_for_again(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.count = 1
    monkeypatch.setattr(parts, "SMALL_BYTES", 0)
    [program, *_] = PROGRAMS
    redis: Any = connect(settings)
    name = BOOTSTRAP.make(program=text(program))
    for byte, part in enumerate(parts.parts_of(kind(program))):
        at = CONTEXT_SLOT - 1 if byte == 7 else CONTEXT_SLOT
        await redis.hset(name, parts.part_name(part), at)
    lane = Lane(program)
    lane.coverage = Coverage([kind(program)], [], floor=CONTEXT_SLOT)
    async with bootstrapping(settings, node, lane):
        await lane.until(program)
    assert node.of(program) == [7]
    assert lane.given[program][0] == CONTEXT_SLOT
    await redis.aclose()


async def _is_gone(redis: Any, name: str) -> bool:
    return not await redis.exists(name)


async def test_programs_that_the_node_refuses_or_hangs_on_hold_up_no_other(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "REFUSED_AGAIN_S", 0.2)
    refused, hung, *others = PROGRAMS
    node.refuses, node.hangs = {text(refused)}, {text(hung)}
    lane = Lane(*PROGRAMS)
    async with bootstrapping(settings, node, lane):
        await lane.until(*others)
        assert set(lane.coverage.lacking()) == {refused, hung}
        assert lane.given.keys() == set(others)
        node.refuses.clear()
        await lane.until(refused)
        assert lane.coverage.lacking() == [hung]


async def test_a_node_that_is_away_for_a_while_is_asked_again(
    settings: Settings, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "AGAIN_S", 0.1)
    monkeypatch.setattr(bootstrap, "REQUEST_TIMEOUT_S", 0.1)
    monkeypatch.setattr(bootstrap, "TRIES", 1)
    [program, *_] = PROGRAMS
    node.hangs = {text(program)}
    lane = Lane(program)
    async with bootstrapping(settings, node, lane):
        await eventually_async(lambda: len(node.asked) > 2)
        assert not len(lane.answers)
        node.hangs.clear()
        await lane.until(program)


async def test_what_was_asked_before_slots_were_lost_covers_nothing(
    settings: Settings, node: Node
) -> None:
    [program, *_] = PROGRAMS
    lane = Lane(program)
    node.holds = asyncio.Event()
    async with bootstrapping(settings, node, lane):
        await eventually_async(lambda: node.asked)
        lane.coverage.withdraw()
        lane.slot = CONTEXT_SLOT  # all up to it are lost
        node.holds.set()
        await lane.until(program)
    assert node.of(program).count(None) == 2, "asked again"
    assert list(lane.given) == [program]


async def test_no_more_bytes_are_asked_for_than_the_setting_allows(
    settings: Settings, node: Node
) -> None:
    node.count = 4
    mib_s = 0.4
    slow = settings.model_copy(update={"account_boot_mib_s": mib_s})
    lane = Lane(*PROGRAMS[: 2 * REQUESTS])
    began_s = asyncio.get_running_loop().time()
    async with bootstrapping(slow, node, lane):
        await lane.until(*PROGRAMS[: 2 * REQUESTS])
    took_s = asyncio.get_running_loop().time() - began_s
    asked = (2 * REQUESTS - REQUESTS) * PARTS * node.count * (len(b"deposits") + 32)
    assert took_s >= asked / (mib_s * (1 << 20)), "the first requests are let through at once"


def test_what_is_asked_for_where_nothing_runs_says_what_may_be_missing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines: list[str] = []

    def heard(line: str) -> None:
        lines.append(line)
        if "soltape ingest accounts" in line:
            raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tools, "HINT_AFTER_S", 1.0)
    monkeypatch.setattr(tools, "progress", heard)
    program = "Stake11111111111111111111111111111111111111"
    done = CliRunner().invoke(
        tools.accounts, ["bootstrap", "--program", program], env={"REDIS_URL": settings.redis_url}
    )
    assert done.exit_code == 130
    assert lines == [
        f"{program}: 0 answers are in the lane",
        "nothing new for 1 s: do `soltape ingest accounts` and `soltape agents accounts` run on "
        "this Redis and Kafka? What is asked for waits for them",
    ]
