"""What a share of a Kamino vault is worth, against klend-sdk 8.0.2's getTokensPerShareSingleVault.

The SDK is large: KAMINO_SDK names a folder where npm has installed kamino_sdks/package.json.
Without it, its answers to 20 worlds are checked that are recorded beside the test. To record anew:
`KAMINO_SDK=<folder> KAMINO_RECORD=1 pytest tests/schemas/protocols/test_vault_sdk.py`.

Where reserves are as they were last refreshed, our amount is the SDK's rounded down. Interest since
then the program computes in steps of 1/2**60, as we do, and the SDK in decimals: the second term of
its series loses up to slots**2 / 2 of these steps.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols.contract import Account, Held, World
from schemas.protocols.kamino_parts import vaults
from schemas.protocols.kamino_parts.reserve import RESERVE
from schemas.solana.addresses import key

HERE = Path(__file__).parent / "vault_sdk"
RECORDED = HERE / "recorded.json"
IDLS = Path(__file__).parents[4] / "shared" / "facts" / "positions" / "idl"
SDK = os.environ.get("KAMINO_SDK")


def asked(seeds: range) -> list[dict[str, Any]]:
    idls = [str(IDLS / name) for name in ("p01-kamino_lend.json", "p01-kamino_vault.json")]
    done = subprocess.run(
        ["node", str(HERE / "worlds.cjs"), str(SDK)],
        input=json.dumps({"idls": idls, "seeds": [*seeds]}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def unpacked(data: str) -> bytes:
    return zlib.decompress(base64.b64decode(data))


def check(world: dict[str, Any]) -> None:
    vault = Account(bytes(31) + b"\1", vaults.VAULT, 1, unpacked(world["vault"]), 9)
    reserves = {
        key(address): Account(key(address), RESERVE, 1, unpacked(data), 8)
        for address, data in world["reserves"].items()
    }
    tokens = {key(world["shares_mint"]): int(world["shares"])}
    reading = vaults.read(Held(bytes(32), [vault], tokens), World(int(world["slot"]), 0, 0))
    assert set(next(reading)) == set(reserves)
    with pytest.raises(StopIteration) as end:
        reading.send(reserves)
    [found] = end.value.value
    [asset] = found.assets
    theirs = Fraction(world["worth"])
    assert asset.mint == key(world["mint"])
    assert asset.amount_raw is not None
    lost = theirs * 2 * world["elapsed"] ** 2 / 2**60  # twice the bound
    assert 0 <= theirs - asset.amount_raw < 1 + lost


@pytest.mark.node
@pytest.mark.skipif(SDK is None or not IDLS.exists(), reason="KAMINO_SDK names no folder")
def test_random_vaults_are_worth_what_klend_sdk_says() -> None:
    worlds = asked(range(200))
    assert len(worlds) == 200
    assert len({each["worth"] for each in worlds}) > 190
    for each in worlds:
        check(each)
    if os.environ.get("KAMINO_RECORD"):
        RECORDED.write_text(json.dumps(worlds[:20], indent=1) + "\n")


def test_recorded_vaults_are_worth_what_klend_sdk_said() -> None:
    worlds = json.loads(RECORDED.read_text())
    assert len(worlds) == 20
    for each in worlds:
        check(each)
