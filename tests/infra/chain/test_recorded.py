from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infra.chain.recorded import (
    LEAD_IN_SLOTS,
    RecordedTransactions,
    UnreadableFile,
    read_transactions,
    slot_at,
)
from infra.chain.source import (
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.rpc_json import transaction_to_json


@pytest.fixture
def lines(transactions: list[ChainTransaction]) -> list[dict[str, Any]]:
    """Answers of two original slots, the later one first."""
    out = []
    for number, item in enumerate(transactions[:40]):
        info = SubscribeUpdateTransactionInfo.FromString(item.info)
        slot = 300 if number >= 20 else 500
        out.append({"slot": slot, "blockTime": 7, "source": "x", **transaction_to_json(info)})
    return out


def written(path: Path, lines: list[Any]) -> Path:
    file = path / "answers.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return file


async def slots(source: RecordedTransactions, count: int) -> list[SlotEvent]:
    events = []
    async for event in source.events():
        events.append(event)
        if isinstance(event, SlotCompleted):
            count -= 1
        if not count:
            break
    return events


def played(events: list[SlotEvent]) -> list[ChainTransaction]:
    return [t for e in events if isinstance(e, SlotTransactions) for t in e.transactions]


def test_lines_come_in_chain_order(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    read = read_transactions(written(tmp_path, lines))
    assert read.problems == []
    expected = [line["transaction"]["signatures"][0] for line in (*lines[20:], *lines[:20])]
    infos = [SubscribeUpdateTransactionInfo.FromString(item.info) for item in read.transactions]
    assert [transaction_to_json(info)["transaction"]["signatures"][0] for info in infos] == expected


def test_unreadable_lines_are_named_and_left_out(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    given = [lines[0], {"slot": 1}, "x", lines[1], lines[0]]
    read = read_transactions(written(tmp_path, given))
    assert len(read.transactions) == 2
    assert read.problems[2] == "line 5: its transaction was in an earlier line"
    assert read.problems[0] == "line 2: transaction: missing"
    assert read.problems[1].startswith("line 3: an object is expected")


@pytest.mark.parametrize(("content", "reason"), [("", "it is empty"), ("{nope\n", "line 1")])
def test_a_file_without_transactions_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(content)
    with pytest.raises(UnreadableFile, match=reason):
        read_transactions(file)


@pytest.mark.slow
async def test_transactions_fill_consecutive_slots(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    recorded = read_transactions(written(tmp_path, lines)).transactions
    events = await slots(RecordedTransactions(recorded, rate=40, first_slot=1000), 7)
    assert [e.slot for e in events if isinstance(e, SlotStarted)] == list(range(1000, 1007))
    assert [t.signature for t in played(events)] == [t.signature for t in recorded]
    # Three empty slots lead in: a follower must know what came before to know a slot whole.
    assert min(e.slot for e in events if isinstance(e, SlotTransactions)) == 1003
    for slot in (1003, 1004):
        of_slot = played([e for e in events if isinstance(e, SlotTransactions) and e.slot == slot])
        assert [t.index for t in of_slot] == list(range(16))  # 40 a second, 0.4 s a slot
        for item in of_slot:
            info = SubscribeUpdateTransactionInfo.FromString(item.info)
            assert info.index == item.index
            assert info.SerializeToString(deterministic=True) == item.info
    headers = [e.header for e in events if isinstance(e, SlotCompleted)]
    assert all(a.blockhash == b.parent_blockhash for a, b in pairwise(headers))
    assert [e.slot for e in events if isinstance(e, SlotConfirmed)] == list(range(1000, 1004))
    assert not any(isinstance(e, SlotFinalized) for e in events)


@pytest.mark.slow
async def test_a_loop_never_repeats_a_signature(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    recorded = read_transactions(written(tmp_path, lines)).transactions
    source = RecordedTransactions(recorded, rate=400, loop=True, first_slot=1000)
    seen = played(await slots(source, LEAD_IN_SLOTS + 1))
    assert len(seen) == 160
    assert len({t.signature for t in seen}) == 160
    first, later = (SubscribeUpdateTransactionInfo.FromString(seen[n].info) for n in (0, 40))
    assert later.signature == later.transaction.signatures[0] == seen[40].signature
    assert later.transaction.message == first.transaction.message
    assert later.meta == first.meta


def test_the_default_slot_is_about_mainnets() -> None:
    # Mainnet slot 301,807,437 was at 1,731,789,673 (slots have been a little slower than 0.4 s).
    assert slot_at(1_731_789_673) == pytest.approx(301_807_437, rel=0.25)
