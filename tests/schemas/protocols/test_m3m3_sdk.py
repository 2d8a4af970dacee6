"""Fees of stakes in Stake2Earn, as Meteora's SDK computes them from accounts that it wrote.

20 answers are recorded; `M3M3_SDK=1 pytest -m node <this file>` asks the SDK about 200 worlds. To
record them anew: `node worlds.cjs 20 > worlds.jsonl` in `m3m3_sdk`, after `npm install` there.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from schemas.protocols import meteora_s2e as s2e
from schemas.protocols.contract import Account, Held, World
from tests.support import npm
from tests.support.judging import judged

SDK = Path(__file__).parent / "m3m3_sdk"


def differences(worlds: list[str]) -> list[str]:
    """Return the worlds whose fees are read otherwise than the SDK says."""
    found = []
    for line in worlds:
        world = json.loads(line)
        escrow, vault = (base64.b64decode(world[name]) for name in ("escrow", "vault"))
        mine = Account(bytes([1]) * 32, s2e.ESCROW, 1, escrow, 9)
        at = Account(escrow[40:72], s2e.VAULT, 1, vault, 9)
        for account in (mine, at):
            assert account.kind.matches(account.address, account.kind.program, account.data)
        reading = s2e.read(Held(escrow[8:40], [mine]), World(9, world["now_s"], 9))
        assert next(reading) == (at.address,)
        with pytest.raises(StopIteration) as end:
            reading.send({at.address: at})
        [position] = end.value.value
        fees = {each.mint: each.amount_raw for each in position.assets if each.role == "reward"}
        expected = {vault[40:72]: int(world["feeA"]), vault[72:104]: int(world["feeB"])}
        if fees != {mint: fee for mint, fee in expected.items() if fee}:
            found.append(line)
    return found


def test_fees_are_those_that_the_sdk_was_recorded_with() -> None:
    worlds = (SDK / "worlds.jsonl").read_text().splitlines()
    assert len(worlds) == 20
    assert differences(worlds) == []


@pytest.mark.node
@pytest.mark.skipif(os.environ.get("M3M3_SDK") != "1", reason="72 MB: with M3M3_SDK=1 only")
def test_fees_are_those_of_the_sdk(request: pytest.FixtureRequest) -> None:
    folder = npm.installed(request, "m3m3-sdk", SDK, "@meteora-ag/m3m3")
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
    assert differences(worlds) == []
    judged(worlds=len(worlds))
