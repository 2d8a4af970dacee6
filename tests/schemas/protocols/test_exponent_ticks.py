"""Liquidity between two rates, as Exponent's SDK computes what a withdrawal of it pays.

20 answers are recorded; `EXPONENT_SDK=1 pytest -m node <this file>` asks the SDK about 400 worlds.
To record them anew: `node worlds.cjs 20 > worlds.jsonl` in `exponent_sdk`, after `npm install`
there. The SDK judges the arithmetic alone: its package that reads accounts is not published with
it, so that the bytes are written here at the offsets of public readers of the chain.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import exponent_ticks
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable
from tests.support import npm
from tests.support.judging import judged

SDK = Path(__file__).parent / "exponent_sdk"
WALLET, MARKET, TICKS, POSITION, PT, SY = (bytes([n]) * 32 for n in range(1, 7))
NONE = 0xFFFFFFFF


def account(kind: Kind, address: bytes, body: bytes, slot: int = 50) -> Account:
    found = Account(address, kind, 1, kind.tag + body, slot)
    assert kind.matches(address, kind.program, found.data)
    return found


def number(value: int) -> bytes:
    return value.to_bytes(32, "little")


def market() -> Account:
    keys = [bytes(32), bytes(32), PT, SY, *[bytes(32)] * 8, TICKS]
    return account(exponent_ticks.MARKET, MARKET, b"".join(keys) + bytes(1300), 40)


def node(row: list[Any], *, is_old: bool) -> bytes:
    _, left, right, parent, rate, pt, sy, shares, epoch, split_parent, split_epoch = row
    data = struct.pack("<IIIII4x", left, right, parent, 0, 1)
    data += bytes(16 + 16 + 16 + 8) + struct.pack("<dQQ", rate, int(pt), int(sy))
    data += number(int(shares)) + bytes(2 * 32 + 2 * 64)
    if is_old:
        return data + struct.pack("<QQ", int(epoch), 0)
    return data + struct.pack("<QQQI4x", int(epoch), int(split_epoch), 0, split_parent)


def ticks(root: int, rows: list[list[Any]], *, is_old: bool = False, of: bytes = MARKET) -> Account:
    size = 344 if is_old else 360
    nodes = bytearray(size * 1000)
    for row in rows:
        nodes[size * (row[0] - 1) : size * row[0]] = node(row, is_old=is_old)
    header = struct.pack("<I12xQII", root, len(rows), len(rows) + 1, 0)
    return account(exponent_ticks.TICKS, TICKS, header + nodes + of + bytes(64), 45)


def position(shares: list[list[Any]], liquidity: int = 1, owner: bytes = WALLET) -> Account:
    body = owner + MARKET + bytes(32) + struct.pack("<Q", liquidity) + bytes(24)
    body += struct.pack("<I", 1) + bytes(40)  # a farm
    body += struct.pack("<I", len(shares))
    for left, right, epoch, raw in shares:
        body += struct.pack("<IIQ", left, right, int(epoch)) + number(int(raw))
        body += struct.pack("<I", 2) + bytes(80)  # emissions
    return account(exponent_ticks.POSITION, POSITION, body + bytes(40))


def read(own: Account, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = exponent_ticks.read(Held(WALLET, [own]))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def is_read_as_the_sdk_says(world: dict[str, Any]) -> bool:
    is_old = world["is_old"]
    there = market(), ticks(world["root"], world["ticks"], is_old=is_old)
    try:
        [found] = read(position(world["shares"]), *there)
    except Unreadable:
        return world["pt"] is None
    supplied = {each.mint: each.amount_raw for each in found.assets if each.role == "supply"}
    return world["pt"] is not None and supplied == {
        mint: int(world[name]) for mint, name in ((PT, "pt"), (SY, "sy")) if int(world[name])
    }


def test_recorded_worlds() -> None:
    worlds = [json.loads(line) for line in (SDK / "worlds.jsonl").read_text().splitlines()]
    assert len(worlds) == 20
    assert any(len(each["ticks"]) > 8 for each in worlds)
    assert [each for each in worlds if not is_read_as_the_sdk_says(each)] == []


@pytest.mark.node
@pytest.mark.skipif(not os.environ.get("EXPONENT_SDK"), reason="EXPONENT_SDK is not set")
def test_worlds_that_the_sdk_answers_now(request: pytest.FixtureRequest) -> None:
    folder = npm.installed(request, "exponent-sdk", SDK, "@exponent-labs/market-three-math")
    done = subprocess.run(
        ["node", "worlds.cjs", "400"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[:20] == (SDK / "worlds.jsonl").read_text().splitlines()
    worlds = [json.loads(line) for line in lines]
    assert [each for each in worlds if not is_read_as_the_sdk_says(each)] == []
    assert sum(each["pt"] is None for each in worlds) < len(worlds) // 4
    judged(worlds=len(worlds))


def three(shares: int = 100) -> list[list[Any]]:
    """Return ticks 2 < 1 < 3, the middle one on top."""
    return [
        [1, 2, 3, 0, 1.2, 1_000, 500, shares, 0, NONE, 0],
        [2, 0, 0, 1, 1.1, 0, 700, shares, 0, NONE, 0],
        [3, 0, 0, 1, 1.3, 0, 0, 0, 0, NONE, 0],
    ]


def test_shares_of_intervals_are_pt_and_sy_and_fees_are_not_known() -> None:
    own = position([[2, 1, 0, 25], [1, 3, 0, 10]])
    [found] = read(own, market(), ticks(1, three()))
    assert [(each.role.value, each.mint, each.amount_raw) for each in found.assets] == [
        ("supply", PT, 100),
        ("supply", SY, 175 + 50),
        ("reward", PT, None),
        ("reward", SY, None),
    ]
    assert (found.route, found.market, found.reference_slot) == ("v2/liquidity", MARKET, 40)
    assert [each.split(":")[0] for each in found.unsupported_fields] == ["fees"]


def test_what_is_not_there_is_missing() -> None:
    own = position([[2, 1, 0, 25]])
    [found] = read(own)
    assert (found.missing, found.assets) == ([MARKET], [])
    [found] = read(own, market())
    assert found.missing == [TICKS]
    assert {each.amount_raw for each in found.assets} == {None}
    assert len(found.unsupported_fields) == 2


def test_no_liquidity_and_the_liquidity_of_others_is_no_position() -> None:
    assert read(position([[2, 1, 0, 25]], liquidity=0)) == []
    assert read(position([[2, 1, 0, 25]], owner=SY)) == []


def changed(at: int, column: int, value: int) -> list[list[Any]]:
    rows = three()
    rows[at][column] = value
    return rows


@pytest.mark.parametrize(
    ("shares", "rows", "detail"),
    [
        ([[9, 1, 0, 5]], three(), "there is no tick 9"),
        ([[2, 1, 0, 101]], three(), "more than all shares of tick 2"),
        ([[2, 1, 0, 5]], changed(1, 1, 2), "no tree, at node 2"),
        ([[2, 1, 0, 5]], changed(2, 2, 1001), "no tree, at node 1001"),
        ([[2, 1, 0, 5]], changed(1, 8, 1), "nothing splits tick 2"),
    ],
)
def test_ticks_that_cannot_be_are_unreadable(
    shares: list[list[Any]], rows: list[list[Any]], detail: str
) -> None:
    with pytest.raises(Unreadable, match=detail) as error:
        read(position(shares), market(), ticks(1, rows))
    assert error.value.account == POSITION


def test_ticks_of_another_market_or_size_are_unreadable() -> None:
    own = position([[2, 1, 0, 25]])
    with pytest.raises(Unreadable, match="of another"):
        read(own, market(), ticks(1, three(), of=SY))
    short = ticks(1, three())
    with pytest.raises(Unreadable, match="ticks of 360135 bytes"):
        read(own, market(), short._replace(data=short.data[:-97] + short.data[-96:]))


def test_a_rate_that_is_no_number_is_unreadable() -> None:
    rows = three()
    rows[1][8] = 1
    added = [4, 0, 0, 2, float("nan"), 0, 0, 100, 0, 2, 0]
    rows[1][2] = 4
    with pytest.raises(Unreadable, match="a rate is no number"):
        read(position([[2, 1, 0, 5]]), market(), ticks(1, [*rows, added]))
