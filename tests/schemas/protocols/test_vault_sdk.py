"""What a share of a Kamino vault is worth, against klend-sdk 8.0.2's getTokensPerShareSingleVault.

The SDK is large: with KLEND_SDK=1 it is installed and answers 200 worlds. Without it, its answers
to 20 worlds are checked that are recorded beside the test. To record anew:
`KLEND_SDK=1 KAMINO_RECORD=1 pytest tests/schemas/protocols/test_vault_sdk.py`.

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
from tests.support import npm
from tests.support.judging import judged

HERE = Path(__file__).parent / "vault_sdk"
RECORDED = HERE / "recorded.json"
IDLS = Path(__file__).parents[4] / "shared" / "facts" / "positions" / "idl"
SDKS = Path(__file__).parent / "kamino_sdks"
needs_sdk = pytest.mark.skipif(
    not os.environ.get("KLEND_SDK") or not IDLS.exists(),
    reason="KLEND_SDK is not set, or there are no IDLs here",
)


def asked(request: pytest.FixtureRequest, seeds: range) -> list[dict[str, Any]]:
    folder = npm.installed(request, "kamino-sdks", SDKS, "@kamino-finance/klend-sdk")
    idls = [str(IDLS / name) for name in ("p01-kamino_lend.json", "p01-kamino_vault.json")]
    done = subprocess.run(
        ["node", str(HERE / "worlds.cjs"), str(folder)],
        input=json.dumps({"idls": idls, "seeds": [*seeds]}),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
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
@needs_sdk
def test_random_vaults_are_worth_what_klend_sdk_says(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, range(200))
    assert len(worlds) == 200
    assert len({each["worth"] for each in worlds}) > 190
    for each in worlds:
        check(each)
    judged(worlds=len(worlds))
    if os.environ.get("KAMINO_RECORD"):
        RECORDED.write_text(json.dumps(worlds[:20], indent=1) + "\n")


def test_recorded_vaults_are_worth_what_klend_sdk_said() -> None:
    worlds = json.loads(RECORDED.read_text())
    assert len(worlds) == 20
    for each in worlds:
        check(each)
