"""Still accounts of bets against pools: what their script writes is what the readings find."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from infra.chain.demo_wallets import ADDRESSES
from schemas.protocols import adrena, jupiter_perps
from schemas.protocols.contract import Account, Held, Position, Protocol, World
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor, npm

SCRIPT = Path(__file__).parent / "still_worlds"
DAY_S = 86_400
PROTOCOLS = (jupiter_perps.PROTOCOL, adrena.PROTOCOL)

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    if not anchor.IDLS.exists():
        pytest.skip("the IDLs of the facts are not here")
    folder = npm.installed(request, "still-worlds", SCRIPT, "@coral-xyz/anchor")
    wallets = {name: text(address) for name, address in ADDRESSES.items()}
    done = subprocess.run(
        ["node", "still.cjs"],
        cwd=folder,
        input=json.dumps({"idls": str(anchor.IDLS), "wallets": wallets, "more": ["perps"]}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def chain(rows: list[dict[str, Any]]) -> dict[bytes, Account]:
    found = {}
    for row in rows:
        if "data" in row:
            data, address = b64decode(row["data"]), key(row["address"])
            if kind := kind_of(address, key(row["owner"]), data):
                found[address] = Account(address, kind, 1, data, 1)
    return found


def positions(
    protocol: Protocol, wallet: str, time_s: int, there: dict[bytes, Account]
) -> list[Position]:
    own = [each for each in there.values() if key(wallet) in each.kind.found_by(each.data)]
    assert protocol.read is not None
    reading = protocol.read(Held(key(wallet), own), World(1, time_s, 1))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_the_readings_of_demo_wallets_are_what_the_script_noted(
    rows: list[dict[str, Any]], protocol: Protocol
) -> None:
    there, start_s = chain(rows), rows[0]["time_s"]
    noted = [each for each in rows if each.get("protocol") == protocol.name]
    assert {each["route"] for each in noted} == {each.path for each in protocol.routes}
    for wallet in {each["wallet"] for each in noted}:
        wanted = [[each["route"], each["assets"]] for each in noted if each["wallet"] == wallet]
        found = positions(protocol, wallet, start_s, there)
        assert not [each for each in found if each.missing or each.unsupported_fields]
        lines = [
            [
                each.route,
                [[line.role, text(line.mint), f"{line.amount_raw}"] for line in each.assets],
            ]
            for each in found
        ]
        assert sorted(lines) == sorted(wanted)
        later = positions(protocol, wallet, start_s + DAY_S, there)
        assert not [each for each in later if each.missing or each.unsupported_fields]
        fees = [
            sum(each.perp.funding_usd or 0 for each in at if each.perp) for at in (found, later)
        ]
        assert fees[1] <= fees[0]  # they grow while the chain runs
