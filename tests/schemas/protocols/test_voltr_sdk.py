"""Shares of Voltr's vaults and requested withdrawals, as Voltr's SDK computes them.

20 answers are recorded; `VOLTR_SDK=1 pytest -m node <this file>` asks the SDK about 200 worlds. To
record them anew: `node worlds.cjs 20 > worlds.jsonl` in `voltr_sdk`, after `npm install` there.

The SDK is not asked where it differs: of a management fee above a vault's assets it takes none, and
before a vault's last report it locks more profit than was reported. By us the first pays nothing,
and what was reported is locked.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import voltr
from schemas.protocols.contract import Account, Held, Kind, Position, World
from schemas.protocols.mint import MINT
from tests.support import npm
from tests.support.judging import judged

SDK = Path(__file__).parent / "voltr_sdk"


def account(kind: Kind, address: str, data: str) -> Account:
    found = Account(bytes.fromhex(address), kind, 1, base64.b64decode(data), 9)
    assert kind.matches(found.address, kind.program, found.data)
    return found


def positions(world: dict[str, Any]) -> list[Position]:
    vault = account(voltr.VAULT, world["address"], world["vault"])
    mint = account(MINT, world["lp_mint"], world["mint"])
    request = account(voltr.REQUEST, "77" * 32, world["request"])
    user = bytes.fromhex(world["user"])
    assert voltr.REQUEST.found_by(request.data) == [user]
    assert voltr.VAULT.found_by(vault.data) == [mint.address]
    held = Held(user, [request, vault], {mint.address: int(world["shares"])})
    there = {each.address: each for each in (vault, mint)}
    reading = voltr.read(held, World(9, world["now_s"], 9))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def differences(worlds: list[str]) -> list[str]:
    """Return the worlds that are read otherwise than the SDK says."""
    found = []
    for line in worlds:
        world = json.loads(line)
        shares, request = positions(world)
        [of_shares] = shares.assets
        [of_request] = request.assets
        same = (
            of_shares.mint.hex() == of_request.mint.hex() == world["asset"]
            and of_shares.amount_raw == int(world["worth"])
            and shares.stands_for == {bytes.fromhex(world["lp_mint"]): int(world["shares"])}
            and not (request.stands_for or request.missing or shares.missing)
        )
        if (pending := world["pending"]) is not None:
            ends_s = pending["withdrawable_from_s"]
            same = (
                same
                and of_request.amount_raw == int(pending["effective"])
                and request.locks[0].ends_ms == ends_s * 1000
                and of_request.role == ("supply" if ends_s <= world["now_s"] else "pending")
            )
        if not same:
            found.append(line)
    return found


def test_amounts_are_those_that_the_sdk_was_recorded_with() -> None:
    worlds = (SDK / "worlds.jsonl").read_text().splitlines()
    assert len(worlds) == 20
    assert differences(worlds) == []


@pytest.mark.node
@pytest.mark.skipif(os.environ.get("VOLTR_SDK") != "1", reason="70 MB: with VOLTR_SDK=1 only")
def test_amounts_are_those_of_the_sdk(request: pytest.FixtureRequest) -> None:
    folder = npm.installed(request, "voltr-sdk", SDK, "@voltr/vault-sdk")
    done = subprocess.run(
        ["node", "worlds.cjs", "200"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    worlds = done.stdout.splitlines()
    assert len(worlds) == 200
    said = [json.loads(each) for each in worlds]
    pending = [each["pending"] for each in said if each["pending"] is not None]
    assert len(pending) == 150
    capped = [each for each in pending if each["effective"] < each["at_present"]]
    assert 30 < len(capped) < 120  # both ways are asked for
    assert len({each["worth"] for each in said}) > 150
    assert differences(worlds) == []
    judged(worlds=len(worlds))
