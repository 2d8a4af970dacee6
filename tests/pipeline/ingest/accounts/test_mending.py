"""Nothing counts as mended, or as covered, that a hole may have changed since."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from infra.settings import Settings
from pipeline.ingest.accounts import service

# private `_answers`: one step of the settler, so that what comes between is chosen.
# private `_ask_changed`: one step of the settler, so that what comes between is chosen.
# private `_asking`: one step of the settler, so that what comes between is chosen.
# private `_blocks`: one step of the settler, so that what comes between is chosen.
# private `_carry_out`: one step of the settler, so that what comes between is chosen.
# private `_coverage`: one step of the settler, so that what comes between is chosen.
# private `_lost_by_agent`: what the watch calls, so that no Redis is needed.
# private `_mend`: one step of the settler, so that what comes between is chosen.
# private `_mending`: one step of the settler, so that what comes between is chosen.
# private `_parts`: one step of the settler, so that what comes between is chosen.
# private `_requests`: one step of the settler, so that what comes between is chosen.
# private `_settled`: one step of the settler, so that what comes between is chosen.
# private `_tasks`: the bound on what is under way.
# private `_withdraw`: one step of the settler, so that what comes between is chosen.
# private `_write`: one step of the settler, so that what comes between is chosen.
from pipeline.ingest.accounts.asked import Answer
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.ledger import Hole, Late, SettledAccounts, Undone, Update
from pipeline.ingest.accounts.mending import Mending
from pipeline.ingest.accounts.service import FETCHES, AccountIngest
from pipeline.ingest.accounts.tail import AccountTail
from pipeline.ingest.accounts.takeover import Taken
from pipeline.ingest.accounts.tracked import Tracked
from pipeline.ingest.backfill import Block, Unavailable
from schemas.proto.tape_pb2 import Covered, SlotBatch
from schemas.protocols.registry import KINDS
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM
from tests.support.waiting import eventually_async

WALLET, OTHER, MINT, ACCOUNT = (bytes([n]) * 32 for n in range(1, 5))
ALL = Covered(kind=Covered.ALL, reason="slots were lost")


class Lane:
    """Takes slots in place of Kafka; `meanwhile` comes while it does."""

    def __init__(self) -> None:
        self.slots: list[SlotBatch] = []  # one partition's
        self.meanwhile: Callable[[], None] = lambda: None

    async def settle(self, _: int, batches: list[SlotBatch]) -> None:
        self.slots.append(batches[0])
        self.meanwhile()

    async def acknowledged(self, _: int) -> None:
        return

    async def run(self) -> None:
        return


class Asked:
    """Takes what is asked of RPC, and answers nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[set[bytes], int]] = []

    async def accounts(self, addresses: set[bytes], least_slot: int, mending: Mending) -> bool:
        mending.begin()
        self.calls.append((addresses, least_slot))
        return True


class Requests:
    """Takes what is asked again."""

    def __init__(self) -> None:
        self.subjects: list[bytes] = []

    def again(self, subjects: Iterable[bytes]) -> None:
        self.subjects += subjects

    async def withdrawn(self, _: Any) -> None:
        return


def ingest(
    tail: AccountTail | None = None, *, known: tuple[Covered, ...] = ()
) -> tuple[AccountIngest, Lane, Asked]:
    kinds = KINDS[STAKE_PROGRAM]
    lane: Any = Lane()
    none: Any = None
    tail = tail or AccountTail(settled=9, some_empty=False)
    tracked = Tracked(10, [(WALLET, 1)])
    settings = Settings(_env_file=None)
    taken = Taken(lane, tail, [], none, tracked, Coverage(kinds, known))
    made = AccountIngest(settings, taken)
    requests: Any = Requests()
    asked: Any = Asked()
    made._requests, made._asking = requests, asked
    return made, lane, asked


def settled(slot: int, *updates: Update) -> SettledAccounts:
    return SettledAccounts(slot, slot - 1, "h", 400 * slot, updates, True)


def token(owner: bytes, address: bytes = ACCOUNT) -> Update:
    data = MINT + owner + (5).to_bytes(8, "little") + bytes(93)
    return Update(address, TOKEN_PROGRAM, 2_039_280, data, 1)


def of_wallet(slot: int) -> Covered:
    return Covered(kind=Covered.WALLET, address=WALLET, slot=slot)


async def test_no_slot_between_a_failed_mending_and_its_withdrawal_is_complete():
    made, lane, _ = ingest(known=(of_wallet(5),))
    answered = asyncio.Event()

    async def fails() -> None:
        await answered.wait()
        raise RuntimeError("nobody thought of it")

    async def writes() -> None:
        await answered.wait()
        await made._write(settled(10))

    made._mend(14, fails)
    await asyncio.sleep(0)
    writing = asyncio.create_task(writes())
    await asyncio.sleep(0)
    answered.set()  # the mending goes on first, and the slot is written in the same turn
    await writing
    [batch] = lane.slots
    assert not batch.complete or ALL in batch.covered
    await made._write(settled(11))
    assert any(ALL in batch.covered for batch in lane.slots)
    # As of no slot below what was not asked for.
    assert await made._settled() >= 14


async def test_what_is_covered_while_slots_are_lost_is_withdrawn_or_not_said():
    made, lane, _ = ingest()
    made._answers.put(Answer.of([(8, token(WALLET))], [of_wallet(8)], WALLET, 8))
    lane.meanwhile = lambda: made._withdraw(12, "slots are lost")
    await made._write(settled(10))
    assert of_wallet(8) in lane.slots[0].covered
    lane.meanwhile = lambda: None
    await made._write(settled(11))
    assert ALL in lane.slots[1].covered


async def test_what_slots_that_are_lost_while_an_answer_is_composed_may_have_changed():
    made, lane, _ = ingest(known=(of_wallet(5),))
    made._answers.put(Answer.of([(8, token(WALLET))], [of_wallet(8)], WALLET, 8))
    writing = asyncio.create_task(made._write(settled(10)))
    await asyncio.sleep(0)  # the answer is looked through
    made._withdraw(12, "slots are lost")
    await writing
    assert [*lane.slots[0].covered] == [ALL]


async def test_all_is_asked_again_after_the_agent_lost_slots_and_as_of_no_slot_before():
    program = Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=5)
    made, lane, _ = ingest(known=(of_wallet(5), program))
    await made._write(settled(10))
    # On its way meanwhile: of a program some accounts may have gone with a slot that was lost.
    amid = Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=9)
    made._answers.put(Answer.of((), [amid], ready_slot=10))
    made._lost_by_agent(8)
    requests: Any = made._requests
    assert requests.subjects == [WALLET]
    assert await made._settled() == 11
    await made._write(settled(11))
    assert [*lane.slots[1].covered] == [ALL]
    assert made._coverage.lacking() == [STAKE_PROGRAM]
    assert made._coverage.is_void(STAKE_PROGRAM)
    assert made._coverage.floor == 11, "that the agent applies it is no other loss"


async def test_slots_that_the_agent_lost_before_the_first_slot_of_a_process():
    made, lane, _ = ingest(known=(of_wallet(5),))
    made._lost_by_agent(8)
    await made._write(settled(10))
    assert ALL in lane.slots[0].covered
    assert await made._settled() == 10


async def test_who_is_tracked_after_a_block_is_asked_for_as_of_it_at_least():
    made, _, _ = ingest()
    await made._write(settled(10))
    await made._ask_changed(Block(20, 19, "h", 0, []))
    assert await made._settled() == 20


@pytest.mark.parametrize("is_written", [True, False], ids=["goes on", "just begun"])
async def test_what_a_lost_fork_wrote_is_asked_for_above_it(is_written):
    made, _, asked = ingest()
    if is_written:
        await made._write(settled(10))
    await made._carry_out(Undone(9, frozenset({ACCOUNT})))
    await asyncio.sleep(0)
    assert asked.calls == [({ACCOUNT}, 11 if is_written else 10)]


async def test_accounts_that_come_late_share_calls_of_which_one_is_under_way(monkeypatch):
    monkeypatch.setattr(service, "LATE_S", 0.0)
    made, lane, asked = ingest()
    answered = asyncio.Event()
    calls: list[tuple[set[bytes], int]] = []

    async def accounts(addresses: set[bytes], least_slot: int, mending: Mending) -> bool:
        calls.append((addresses, least_slot))
        await answered.wait()
        return True

    asked.accounts = accounts  # type: ignore[method-assign]
    await made._write(settled(20))
    late = [n.to_bytes(32, "big") for n in range(1, 301)]
    for address in late[:200]:
        await made._carry_out(Late(10 + address[-1] % 8, address))
    for _ in range(10):
        await asyncio.sleep(0)
    assert calls == [({*late[:200]}, 17)]
    for address in late[200:]:
        await made._carry_out(Late(18, address))
        await asyncio.sleep(0)
    assert len(calls) == 1
    assert len(made._tasks) == 2
    await made._write(settled(21))
    assert not lane.slots[-1].complete
    answered.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert calls[1:] == [({*late[200:]}, 18)]
    assert not made._tasks
    await made._write(settled(22))
    assert lane.slots[-1].complete
    assert await made._settled() == 22


async def test_late_accounts_that_cannot_be_asked_for_withdraw_up_to_the_last_of_their_slots(
    monkeypatch,
):
    monkeypatch.setattr(service, "LATE_S", 0.0)
    made, lane, asked = ingest(known=(of_wallet(5),))

    async def accounts(*_: Any) -> bool:
        raise RuntimeError("nobody thought of it")

    asked.accounts = accounts  # type: ignore[method-assign]
    await made._write(settled(10))
    for slot in (11, 14, 12):  # another stream has yet to let them go
        await made._carry_out(Late(slot, bytes([slot]) * 32))
    for _ in range(10):
        await asyncio.sleep(0)
    await made._write(settled(11))
    assert ALL in lane.slots[-1].covered
    assert await made._settled() == 14


async def test_an_answer_about_a_hole_that_a_later_version_outdates_is_asked_for_again():
    """The account became the wallet's in a hole, and left it in a slot that let nothing through."""
    made, lane, asked = ingest()
    await made._write(settled(10, token(OTHER)))
    made._mending.begin()
    made._answers.put(Answer.of([(9, token(WALLET))], mends=True))
    await made._write(settled(11))
    await asyncio.sleep(0)
    assert asked.calls == [({ACCOUNT}, 11)]
    made._answers.put(Answer.of([(11, token(OTHER))], mends=True))
    await made._write(settled(12))
    await made._write(settled(13))
    assert [batch.complete for batch in lane.slots] == [True, False, True, True]
    assert len(asked.calls) == 1


async def test_of_many_holes_a_few_blocks_are_fetched_at_a_time():
    made, _, asked = ingest()
    under_way: list[int] = []
    most = 0

    class Blocks:
        async def block(self, slot: int) -> Block:
            nonlocal most
            under_way.append(slot)
            most = max(most, len(under_way))
            await asyncio.sleep(0)
            under_way.remove(slot)
            return Block(slot, slot - 1, "h", 0, [])

    blocks: Any = Blocks()
    made._blocks = blocks
    for slot in range(10, 40):
        await made._carry_out(Hole(slot, slot, "a stream stalls", is_lost=False))
    for _ in range(100):
        await asyncio.sleep(0)
    assert most == FETCHES
    assert {least for _, least in asked.calls} == {*range(10, 40)}


async def test_slots_that_cannot_be_had_are_withdrawn_once():
    made, lane, _ = ingest(known=(of_wallet(5),))
    reasons: list[tuple[int, str]] = []
    withdraw = made._withdraw

    class Blocks:
        async def block(self, slot: int) -> Block:
            if slot % 2:
                raise Unavailable("it is too old")
            return Block(slot, slot - 1, "h", 0, [])

    def withdrawn(lost_to: int, reason: str) -> None:
        reasons.append((lost_to, reason))
        withdraw(lost_to, reason)

    any_made: Any = made
    any_made._blocks, any_made._withdraw = Blocks(), withdrawn
    await made._carry_out(Hole(9, 72, "a stream stalls", is_lost=False))
    await eventually_async(lambda: reasons)
    await asyncio.sleep(0)
    assert reasons == [(71, "slot 71 and 31 before: it is too old")]
    await made._write(settled(80))
    assert [*lane.slots[0].covered] == [ALL]


@pytest.mark.parametrize(
    "tail",
    [
        AccountTail(settled=9, some_empty=False, unmended=(8, 9), is_all_unmended=True),
        AccountTail(settled=9, some_empty=False, unmended=(9,)),
        AccountTail(settled=9, some_empty=False, broken=[of_wallet(9)]),
    ],
    ids=["all unmended", "unmended", "broken"],
)
async def test_without_rpc_a_restart_withdraws_what_it_cannot_mend(tail):
    made, lane, _ = ingest(tail, known=(of_wallet(5),))
    session: Any = None
    parts = made._parts(session)
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await made._write(settled(10))
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
    assert [each.kind for each in lane.slots[0].covered if not each.HasField("slot")]
