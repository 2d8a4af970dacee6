"""Accounts that Anchor's coder wrote with random fields, read as it reads them.

The coder judges offsets; the sums beside it are those of kvault's, klend's and tuna-sdk's sources
in fractions.
"""

from __future__ import annotations

import base64
import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import defituna
from schemas.protocols.contract import Account, Held, Kind, Position, Reading, World
from schemas.protocols.kamino_parts import vaults
from schemas.protocols.kamino_parts.reserve import RESERVE
from tests.support import npm
from tests.support.judging import judged

IDLS = Path(__file__).parents[4] / "shared" / "facts" / "positions" / "idl"
CODERS = Path(__file__).parent / "vault_coders"
WORLDS = range(200)
WORLD = World(100, 1_700_000_000, 5)
ONE = 1 << 60

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not IDLS.exists(), reason="the IDLs of the facts are not here"),
]


class Written:
    """An account that the coder wrote, and what it reads."""

    def __init__(self, kind: Kind, answer: dict[str, Any], number: int) -> None:
        self.data = base64.b64decode(answer["data"])
        self.fields: dict[str, Any] = answer["account"]
        self.size: int = answer["written"]
        address = bytes([number % 256, number // 256, len(kind.name)]) + bytes(29)
        self.account = Account(address, kind, 1, self.data, 9)

    def __getitem__(self, name: str) -> int:
        return int(self.fields[name])


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "vault-coders", CODERS, "@coral-xyz/anchor")


def written(folder: Path, kind: Kind, name: str, size: int, sets: list[Any]) -> list[Written]:
    idl = "p06-defituna.json"
    if kind is vaults.VAULT or kind is RESERVE:
        idl = "p01-kamino_vault.json" if kind is vaults.VAULT else "p01-kamino_lend.json"
    lines = (
        json.dumps({"idl": str(IDLS / idl), "name": name, "size": size, "seed": n, "set": values})
        for n, values in enumerate(sets)
    )
    done = subprocess.run(
        ["node", "coders.cjs"],
        cwd=folder,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(sets)
    judged(worlds=len(sets))
    return [Written(kind, answer, n) for n, answer in enumerate(answers)]


def drive(reading: Reading, chain: dict[bytes, Account]) -> list[Position]:
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: chain[each] for each in wanted if each in chain})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def test_vaults_and_reserves(folder: Path) -> None:
    slot = {"slot": WORLD.slot}  # without interest: SDKs judge that elsewhere
    few = {  # fees below what it has, as the program keeps them
        "accumulated_protocol_fees_sf": "5000000000000000000000",
        "accumulated_referrer_fees_sf": "7000000000000000000000",
        "pending_referrer_fees_sf": "11000000000000000000000",
    }
    reserves = written(
        folder,
        RESERVE,
        "Reserve",
        8624,
        [{"liquidity": {**few, "mint_decimals": 6}, "last_update": slot}] * len(WORLDS),
    )
    assert {each.size for each in reserves} == {8624}
    sets = []
    for n in WORLDS:
        used = n % 26  # none, to all of them
        allocations = [
            {"reserve": reserves[(n + at) % len(reserves)].account.address.hex()}
            if at < used
            else {"reserve": bytes(32).hex()}
            for at in range(25)
        ]
        sets.append(
            {
                "token_mint_decimals": n % 19,
                "vault_allocation_strategy": allocations,
                "pending_fees_sf": str(n * 12345678901234567890),
            }
        )
    made = written(folder, vaults.VAULT, "VaultState", vaults.SIZE, sets)
    assert {each.size for each in made} == {vaults.SIZE}
    by_address = {each.account.address.hex(): each for each in reserves}
    chain = {each.account.address: each.account for each in reserves}
    for vault in made:
        whole = Fraction(vault["token_available"]) - Fraction(vault["pending_fees_sf"], ONE)
        for allocation in vault.fields["vault_allocation_strategy"]:
            if allocation["reserve"] == bytes(32).hex():
                continue
            reserve = by_address[allocation["reserve"]].fields
            of = {name: int(value) for name, value in reserve["liquidity"].items() if "_sf" in name}
            fees = sum(of[name] for name in few)
            total = int(reserve["liquidity"]["total_available_amount"])
            liquidity = total + Fraction(of["borrowed_amount_sf"] - fees, ONE)
            rate = liquidity / int(reserve["collateral"]["mint_total_supply"])
            whole += Fraction(int(int(allocation["ctoken_allocation"]) * rate * ONE), ONE)
        mint = bytes.fromhex(vault.fields["shares_mint"])
        shares = vault["shares_issued"] // 3
        held = Held(bytes(32), [vault.account], {mint: shares})
        [found] = drive(vaults.read(held, WORLD), chain)
        [asset] = found.assets
        assert asset.mint.hex() == vault.fields["token_mint"]
        assert asset.decimals == vault["token_mint_decimals"]
        assert asset.amount_raw == int(whole * shares / vault["shares_issued"])
        assert found.stands_for == {mint: shares}
        assert vault.account.kind.found_by(vault.data) == [mint]


def test_deposits_in_lending_vaults(folder: Path) -> None:
    mint = bytes(range(32)).hex()
    funds = written(folder, defituna.VAULT, "Vault", 355, [{"mint": mint}] * len(WORLDS))
    sets = [{"mint": mint, "vault": each.account.address.hex()} for each in funds]
    made = written(folder, defituna.LENDING, "LendingPosition", 155, sets)
    assert {each.size for each in made} == {155}
    assert {each.size for each in funds} == {355}
    chain = {each.account.address: each.account for each in funds}
    for position, vault in zip(made, funds, strict=True):
        owner = bytes.fromhex(position.fields["authority"])
        assert position.account.kind.found_by(position.data) == [owner]
        [found] = drive(defituna.read(Held(owner, [position.account]), WORLD), chain)
        rate = Fraction(vault["deposited_funds"], vault["deposited_shares"])
        assert [each.amount_raw for each in found.assets] == [
            int(position["deposited_shares"] * rate)
        ]
        assert found.market == vault.account.address


def test_leveraged_positions(folder: Path) -> None:
    mints = {"mint_a": bytes(range(32)).hex(), "mint_b": bytes(range(1, 33)).hex()}
    vaults_a = written(
        folder, defituna.VAULT, "Vault", 355, [{"mint": mints["mint_a"]}] * len(WORLDS)
    )
    vaults_b = written(
        folder, defituna.VAULT, "Vault", 355, [{"mint": mints["mint_b"]}] * (len(WORLDS) + 1)
    )[1:]
    pools = written(folder, defituna.POOL, "FusionPool", 423, [{}] * len(WORLDS))
    assert {each.size for each in pools} <= {423}
    markets = written(
        folder,
        defituna.MARKET,
        "Market",
        348,
        [{"vault_a": a.account.address.hex(), "vault_b": bytes([9] * 32).hex()} for a in vaults_a],
    )
    lp_sets = [
        {**mints, "pool": pool.account.address.hex(), "tick_lower_index": -5 * n - 1}
        | {"tick_upper_index": 3 * n, "leftovers_a": n, "liquidity": str(n * 10**9)}
        for n, pool in enumerate(pools)
    ]
    liquid = written(folder, defituna.LP, "TunaLpPosition", 339, lp_sets)
    spot_sets = [{**mints, "pool": pool.account.address.hex()} for pool in pools]
    spots = written(folder, defituna.SPOT, "TunaSpotPosition", 346, spot_sets)
    assert {each.size for each in liquid} == {339}
    assert {each.size for each in spots} == {346}
    for n in WORLDS:
        pool, market = pools[n], markets[n]
        vault_a, vault_b = vaults_a[n], vaults_b[n]
        for position in (liquid[n], spots[n]):
            chain = {pool.account.address: pool.account}
            held = Held(bytes.fromhex(position.fields["authority"]), [position.account])
            reading = defituna.read(held, WORLD)
            [of_market] = set(next(reading)) - {pool.account.address}
            chain[of_market] = market.account
            chain[vault_a.account.address] = vault_a.account
            chain[bytes([9] * 32)] = vault_b.account
            [found] = drive(defituna.read(held, WORLD), chain)
            assert found.market == of_market
            owed = {
                each.mint.hex(): each.amount_raw for each in found.assets if each.role == "borrow"
            }
            is_spot = "amount" in position.fields
            if is_spot:
                token = "b" if "A" in position.fields["position_token"] else "a"
                loans = {token: position["loan_shares"]}
                [kept] = [each for each in found.assets if each.role == "supply"]
                assert kept.amount_raw == position["amount"]
                assert kept.mint.hex() == mints["mint_b" if token == "a" else "mint_a"]
            else:
                loans = {"a": position["loan_shares_a"], "b": position["loan_shares_b"]}
            for token, shares in loans.items():
                vault = vault_a if token == "a" else vault_b
                whole = Fraction(shares * vault["borrowed_funds"], vault["borrowed_shares"])
                assert owed.pop(mints[f"mint_{token}"]) == -(-whole // 1)
            assert not owed
            if not is_spot and n:
                assert found.range is not None
                assert found.range.lower_index == position["tick_lower_index"]
                assert found.range.upper_index == position["tick_upper_index"] - 1
                assert found.range.current_index == pool["tick_current_index"]
            if found.health is not None and found.health.liquidation_ltv is not None:
                threshold = Fraction(market["liquidation_threshold"], 1_000_000)
                assert found.health.liquidation_ltv == threshold
