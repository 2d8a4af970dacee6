"""Sub-accounts and insurance stakes of Drift, as Drift's SDK computes them.

20 answers are recorded; `DRIFT_SDK=1 pytest -m node <this file>` asks the SDK about 200 worlds and
about all users of the corpus. To record them anew: `node worlds.cjs 20 | gzip -9n >
worlds.jsonl.gz` in `drift_sdk`, after `npm install` there.

Where SDK and program differ, the program's source decides, and these are the differences:

- A debt is worth its value rounded up to a millionth of a dollar, not down.
- USDC counts in full, without the weights of its market.
- What a profit may back is discounted by its size in units of 9 decimals, by the imbalance of all
  users without the market's pools, and at 100 dollars it ends.
- Of spot orders, the value after a fill is the value before it without what was paid, not the new
  amount at the worse price.
- `decodeUser` reads a bet's margin ratio two bytes too early; Anchor's coder reads it here.
- A market that is settled liquidates at no price; the SDK goes on with its oracle's.
- It counts no fee for closing a bet on a settled market, so the fee is 0 here.

So what backs new bets (`free_usd`) is compared where no bet has a profit and no spot order is open.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import struct
import subprocess
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import drift
from schemas.protocols.contract import Account, Held, Kind, Margin, Position, World
from schemas.protocols.drift_parts import layout
from schemas.protocols.token import TOKEN
from tests.support import npm
from tests.support.judging import judged

SDK = Path(__file__).parent / "drift_sdk"
CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p08-drift"
MICROS = 10**6
ROUNDED_UP = 2  # millionths that a debt may count above the SDK's, by value and by weight


def account(kind: Kind, address: bytes, data: bytes) -> Account:
    found = Account(address, kind, 1, data, 9)
    assert kind.matches(address, kind.program, data)
    return found


def reference_accounts(world: dict[str, Any]) -> dict[bytes, Account]:
    spots = [base64.b64decode(each) for each in world["spots"]]
    perps = [base64.b64decode(each) for each in world["perps"]]
    no_fee = layout.STATE.tag + bytes(160) + struct.pack("<II", 0, 1) + bytes(992 - 176)
    found = {layout.STATE_ADDRESS: account(layout.STATE, layout.STATE_ADDRESS, no_fee)}
    for data in spots:
        address = layout.spot_market_address(int.from_bytes(data[684:686], "little"))
        found[address] = account(layout.SPOT_MARKET, address, data)
    for data in perps:
        address = layout.perp_market_address(int.from_bytes(data[1160:1162], "little"))
        found[address] = account(layout.PERP_MARKET, address, data)
    return found


def positions(own: list[Account], there: dict[bytes, Account], now_s: int) -> list[Position]:
    reading = drift.read(Held(own[0].data[8:40], own), World(9, now_s, 9))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def unknown(position: Position) -> list[str]:
    return position.unsupported_fields if position.route == "health" else []


def amounts(position: Position) -> dict[str, int | None]:
    return {each.role.value: each.amount_raw for each in position.assets}


def signed(position: Position, at: int) -> int:
    line = position.assets[at]
    assert line.amount_raw is not None
    return -line.amount_raw if line.role == "borrow" else line.amount_raw


def micros(value: Fraction | None) -> int:
    assert value is not None
    assert (value * MICROS).denominator == 1
    return int(value * MICROS)


def same_margin(
    margin: Margin | None, says: dict[str, Any], debts: int, *, has_orders: bool, may_open: bool
) -> bool:
    """Whether a margin is as the SDK says, but for what is rounded up of debts."""
    assert margin is not None
    # A large debt's weight is many times 1, and so is what a millionth of it requires.
    within = max(ROUNDED_UP, int(says["initial"]) // 10**11) * debts + (4 if has_orders else 0)
    health = margin.health_pct
    assert health is not None
    same = (
        abs(micros(margin.collateral_usd) - int(says["collateral"])) <= (4 if has_orders else 0)
        and abs(micros(margin.maintenance_usd) - int(says["maintenance"])) <= within
    )
    if says["health"] is not None:
        same = same and abs(int(health + Fraction(1, 2)) - says["health"]) <= (1 if within else 0)
    if not has_orders:
        same = same and 0 <= micros(margin.initial_usd) - int(says["initial"]) <= within
        if may_open:
            same = same and 0 <= int(says["free"]) - micros(margin.free_usd) <= within
    if says["leverage"] is not None and margin.leverage is not None:
        bps = int(margin.leverage * 10_000)
        same = same and abs(bps - int(says["leverage"])) <= debts * max(1, bps // 1000)
    return same


def complaints(user: Account, world: dict[str, Any], says: dict[str, Any]) -> Iterator[str]:
    """Yield what of a sub-account is read otherwise than the SDK says."""
    found = positions([user], reference_accounts(world), 1_785_000_000)
    state = layout.user_of(user)
    assert not [each.missing for each in found if each.missing]
    [spots] = [each for each in found if each.route == "positions" and each.id is None] or [None]
    expected = [int(each["amount"]) for each in says["deposits"] if each["amount"] != "0"]
    read = [signed(spots, at) for at in range(len(spots.assets))] if spots else []
    if read != expected:
        yield f"spot: {read}, not {expected}"
    bets = {each.market: each for each in found if each.route == "positions" and each.id}
    apart = {each.market: each for each in found if each.route == "health" and each.id}
    [whole] = [each for each in found if each.route == "health" and each.id is None] or [None]
    # The SDK takes what the retired AMM shares left in a bet's bytes for an isolated deposit.
    early = {each.market_index for each in state.perps if each.is_early}
    active = {each.market_index for each in state.perps if each.is_active}
    is_early = bool(early & active)
    assert is_early == any("before the AMM" in text for each in found for text in unknown(each))
    for each in says["bets"]:
        address = bytes.fromhex(each["address"])
        if each["market"] in active:
            yield from _bet(bets[address], each, is_early=is_early)
        else:
            assert address not in bets
        if each["margin"] is not None and not is_early and each["market"] in active:
            margin = apart[address].margin
            if not same_margin(
                margin, each["margin"], 0, has_orders=False, may_open=int(each["profit"]) <= 0
            ):
                yield f"isolated margin: {margin}, not {each['margin']}"
    if whole is not None and not is_early:
        margin = whole.margin
        debts = sum(each.is_borrow for each in state.spots)
        has_orders = any(each.open_orders for each in state.spots)
        may_open = all(int(each["profit"]) <= 0 or each["margin"] for each in says["bets"])
        if not same_margin(margin, says["margin"], debts, has_orders=has_orders, may_open=may_open):
            yield f"margin: {margin}, not {says['margin']}"


def _bet(found: Position, says: dict[str, Any], *, is_early: bool) -> Iterator[str]:
    lines = amounts(found)
    profit, deposit = int(says["profit"]), int(says["deposit"])
    if (lines.get("pending") or 0) - (lines.get("borrow") or 0) != profit:
        yield f"profit: {lines}, not {profit}"
    if not is_early and (lines.get("supply") or 0) != deposit:
        yield f"deposit: {lines}, not {deposit}"
    if found.perp is None:
        return
    perp = found.perp
    assert perp.entry_price_usd is not None
    said = [int(says[name]) for name in ("notional", "funding", "entry")]
    read = [micros(perp.notional_usd), micros(perp.funding_usd), int(perp.entry_price_usd * MICROS)]
    if read != said:
        yield f"bet: {read}, not {said}"
    if not (is_early or says["isSettled"]):
        end = -1 if perp.liquidation_price_usd is None else micros(perp.liquidation_price_usd)
        if not _same_end(end, int(says["liquidation"])):
            yield f"liquidation: {end}, not {says['liquidation']}"


def _same_end(end: int, said: int) -> bool:
    """A debt that is rounded up moves the price by as much as it is of the bet."""
    return end == said or abs(end - said) <= max(2, said // 100_000)


def differences(worlds: Iterable[str]) -> list[str]:
    found = []
    for number, line in enumerate(worlds):
        world = json.loads(line)
        address = bytes.fromhex(world["address"])
        user = account(layout.USER, address, base64.b64decode(world["user"]))
        found += [f"{number}: {each}" for each in complaints(user, world, world["says"])]
        found += [f"{number}: {each}" for each in _stakes(world)]
    return found


def _stakes(world: dict[str, Any]) -> Iterator[str]:
    """Yield whether what stays and leaves of a stake is another sum than the SDK says."""
    stake = account(layout.STAKE, b"\7" * 32, base64.b64decode(world["stake"]))
    there = reference_accounts(world)
    market = there[layout.spot_market_address(int.from_bytes(stake.data[120:122], "little"))].data
    vault = market[72:104] + b"\1" * 32 + int(world["vault"]).to_bytes(8, "little")
    there[market[304:336]] = account(
        TOKEN, market[304:336], vault.ljust(108, b"\0") + b"\1" + bytes(56)
    )
    [found] = positions([stake], there, world["now_s"])
    total = sum(each.amount_raw or 0 for each in found.assets)
    if total != int(world["stake_says"]):
        yield f"stake: {total}, not {world['stake_says']}"


def test_figures_are_those_that_the_sdk_was_recorded_with() -> None:
    worlds = gzip.decompress((SDK / "worlds.jsonl.gz").read_bytes()).decode().splitlines()
    assert len(worlds) == 20
    assert differences(worlds) == []


def asked(request: pytest.FixtureRequest, script: str, *arguments: str, given: str = "") -> str:
    folder = npm.installed(request, "drift-sdk", SDK, "@drift-labs/sdk")
    done = subprocess.run(
        ["node", script, *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


needs_sdk = pytest.mark.skipif(
    os.environ.get("DRIFT_SDK") != "1", reason="300 MB: with DRIFT_SDK=1 only"
)


@pytest.mark.node
@needs_sdk
def test_figures_are_those_of_the_sdk(request: pytest.FixtureRequest) -> None:
    worlds = asked(request, "worlds.cjs", "200").splitlines()
    assert len(worlds) == 200
    says = [json.loads(each)["says"] for each in worlds]
    bets = [bet for each in says for bet in each["bets"]]
    assert len([bet for bet in bets if bet["margin"]]) > 80
    assert len([bet for bet in bets if bet["liquidation"] != "-1"]) > 100
    assert len({each["margin"]["health"] for each in says}) > 20
    assert differences(worlds) == []
    judged(worlds=len(worlds))


def corpus_worlds() -> list[dict[str, Any]]:
    """All users of the corpus, each with the newest market of each index that the corpus has.

    An index that it lacks has the market of index 1, with an oracle of its own.
    """
    kept: dict[str, list[bytes]] = {"User": [], "SpotMarket": [], "PerpMarket": []}
    for path in sorted(CORPUS.iterdir()):
        if (kind := path.name.partition("-")[0]) in kept:
            data = json.loads(path.read_text())["account"]["data"][0]
            kept[kind].append(base64.b64decode(data))
    spots = newest(kept["SpotMarket"], 684, 208)
    perps = newest(kept["PerpMarket"], 1160, 112)
    worlds = []
    for data in kept["User"]:
        user = layout.user_of(account(layout.USER, b"\3" * 32, data))
        slots = range(424 + 92, 424 + 8 * 96, 96)  # those that the program left, too
        named = {int.from_bytes(data[at : at + 2], "little") for at in slots}
        worlds.append(
            {
                "address": "03" * 32,
                "user": base64.b64encode(data).decode(),
                "spots": [
                    base64.b64encode(market(spots, index, 684)).decode()
                    for index in sorted({0} | {each.market_index for each in user.spots})
                ],
                "perps": [base64.b64encode(market(perps, each, 1160)).decode() for each in named],
            }
        )
    return worlds


def newest(markets: list[bytes], index_at: int, time_at: int) -> dict[int, bytes]:
    """The markets by index, each as it was last seen."""
    markets = sorted(
        markets, key=lambda each: int.from_bytes(each[time_at : time_at + 8], "little")
    )
    return {int.from_bytes(each[index_at : index_at + 2], "little"): each for each in markets}


def market(known: dict[int, bytes], index: int, index_at: int) -> bytes:
    if index in known:
        return known[index]
    data = bytearray(known[1])
    data[index_at : index_at + 2] = data[40:42] = index.to_bytes(2, "little")  # and its oracle
    return bytes(data)


@pytest.mark.node
@needs_sdk
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_figures_of_real_users_are_those_of_the_sdk(request: pytest.FixtureRequest) -> None:
    worlds = corpus_worlds()
    assert len(worlds) == 103
    lines = "\n".join(json.dumps(each) for each in worlds)
    answers = asked(request, "corpus.cjs", given=lines).splitlines()
    found = []
    for number, (world, answer) in enumerate(zip(worlds, answers, strict=True)):
        user = account(layout.USER, b"\3" * 32, base64.b64decode(world["user"]))
        found += [f"{number}: {each}" for each in complaints(user, world, json.loads(answer))]
    assert found == []
    judged(accounts=len(worlds))
