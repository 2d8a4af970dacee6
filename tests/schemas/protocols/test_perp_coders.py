"""Anchor's coder reads the accounts of `perp_worlds`, and writes stakes that are read as it does.

Adrena's layout is stated here as an IDL: the program is `repr(C)`, whose gaps are fields of it.
"""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import flash_staking, jupiter_perps
from schemas.protocols.contract import Account, Held, Kind, Position, Reading, World
from schemas.protocols.flash_staking import FAF
from schemas.protocols.jupiter_perps import CUSTODY, FEED, POSITION
from schemas.solana.addresses import key, text
from tests.support import anchor
from tests.support.perp_worlds import (
    NOW_S,
    adrena_custody,
    adrena_oracle,
    adrena_position,
    adrena_stakes,
    jupiter_custody,
    jupiter_feed,
    jupiter_position,
    jupiter_world,
)

pytestmark = pytest.mark.node

WORLD = World(100, NOW_S, 5)
WORLDS = 60
KEYS = [bytes([n]) * 32 for n in range(1, 6)]


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


def decoded(folder: Path, idl: str, name: str, accounts: list[bytes]) -> list[dict[str, Any]]:
    asked = [
        {"decode": name, "idl": idl, "data": base64.b64encode(data).decode()} for data in accounts
    ]
    return [each["fields"] for each in anchor.asked(folder, asked)]


def field(fields: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        fields = fields[int(name)] if isinstance(fields, list) else fields[name]
    return fields


def check(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert {path: field(fields, path) for path in wanted} == wanted


def test_accounts_of_jupiter_are_where_its_idl_has_them(folder: Path) -> None:
    idl = anchor.idl("p09-jupiter_perpetuals.json")
    owner, pool, mint, custody, lender = KEYS
    worlds = [jupiter_world(seed) for seed in range(WORLDS)]
    keys = {"owner": owner, "pool": pool, "custody": custody, "lender": lender}
    entry = {"entry": 77 << 32, "kept": 88 << 32, "side": 2}
    bets = [jupiter_position({**world, **keys, **entry}) for world in worlds]
    for world, fields in zip(worlds, decoded(folder, idl, "Position", bets), strict=True):
        wanted = {"owner": text(owner), "pool": text(pool), "custody": text(custody)}
        wanted |= {"collateral_custody": text(lender), "side": {"Short": {}}}
        wanted |= {"price": f"{77 << 32}", "collateral_usd": f"{88 << 32}"}
        wanted |= {"size_usd": f"{world['size']}"}
        wanted |= {"cumulative_interest_snapshot": f"{world['snapshot']}"}
        check(fields, wanted)
    keys = {"pool": pool, "mint": mint, "feed": lender}
    custodies = [jupiter_custody({**world, **keys, "most_leverage": 9 << 40}) for world in worlds]
    for world, fields in zip(worlds, decoded(folder, idl, "Custody", custodies), strict=True):
        wanted = {"pool": text(pool), "mint": text(mint), "decimals": "9"}
        wanted |= {"doves_ag_oracle": text(lender), "pricing.max_leverage": f"{9 << 40}"}
        figures = {
            "pricing.trade_impact_fee_scalar": "scalar",
            "assets.owned": "owned",
            "assets.locked": "locked",
            "funding_rate_state.cumulative_interest_rate": "rate",
            "funding_rate_state.last_update": "updated_s",
            "funding_rate_state.hourly_funding_dbps": "hourly_dbps",
            "decrease_position_bps": "decrease_bps",
            "price_impact_buffer.last_updated": "impact_updated_s",
            "price_impact_buffer.fee_factor": "factor",
            "price_impact_buffer.delta_imbalance_threshold_decimal": "threshold",
            "debt": "debt",
            "borrow_lend_interests_accured": "accrued",
        }
        wanted |= {path: f"{world[name]}" for path, name in figures.items()}
        names = ("min_rate_bps", "max_rate_bps", "target_rate_bps", "target_utilization_rate")
        rates = zip(names, world["jump"], strict=True)
        wanted |= {f"jump_rate_state.{name}": f"{value}" for name, value in rates}
        changes = world["changes"].items()
        path = "price_impact_buffer.open_interest"
        wanted |= {f"{path}.{second}": f"{change}" for second, change in changes}
        check(fields, wanted)
    feeds = [jupiter_feed(7**20 + n, -n, NOW_S - n) for n in range(20)]
    doves = anchor.idl("p09-jupiter_doves_oracle.json")
    for n, fields in enumerate(decoded(folder, doves, "AgPriceFeed", feeds)):
        check(fields, {"price": f"{7**20 + n}", "expo": f"{-n}", "timestamp": f"{NOW_S - n}"})


def test_bets_that_the_coder_writes_are_read(folder: Path) -> None:
    idl = anchor.idl("p09-jupiter_perpetuals.json")
    sets = [
        {"side": "Long", "price": f"{3**seed % 2**60 + 1}", "size_usd": f"{7**seed % 2**60 + 1}"}
        for seed in range(WORLDS)
    ]
    asked = [
        {"encode": "Position", "idl": idl, "seed": seed, "fields": fields, "size": 216}
        for seed, fields in enumerate(sets)
    ]
    for seed, answer in enumerate(anchor.asked(folder, asked)):
        fields = answer["fields"]
        account = written(POSITION, answer, seed)
        [owner] = POSITION.found_by(account.data)
        assert text(owner) == fields["owner"]
        [found] = drive(jupiter_perps.read(Held(owner, [account]), WORLD))
        assert found.missing == [key(fields[name]) for name in ("custody", "collateral_custody")]
        assert found.perp is not None
        assert found.perp.size == Fraction(int(fields["size_usd"]), int(fields["price"]))
        assert found.perp.entry_price_usd == Fraction(int(fields["price"]), 10**6)
    for kind, name in ((CUSTODY, "Custody"), (FEED, "AgPriceFeed")):
        of = idl if kind is CUSTODY else anchor.idl("p09-jupiter_doves_oracle.json")
        [answer] = anchor.asked(folder, [{"encode": name, "idl": of, "seed": 5}])
        assert base64.b64decode(answer["data"]).startswith(kind.tag)


def _fields(named: str) -> list[dict[str, Any]]:
    """Return fields from `name type` in lines; `name n` is a gap of n bytes, `n*Type` an array."""
    found = []
    for line in named.split(","):
        name, of = line.split()
        if of.isdecimal():
            kind: Any = {"array": ["u8", int(of)]}
        elif "*" in of:
            count, each = of.split("*")
            kind = {"array": [{"defined": each}, int(count)]}
        else:
            kind = {"defined": of} if of[0].isupper() else of
        found.append({"name": name, "type": kind})
    return found


def _keys(*names: str) -> str:
    return ",".join(f"{name} publicKey" for name in names)


def _u64s(*names: str) -> str:
    return ",".join(f"{name} u64" for name in names)


ADRENA = {
    "accounts": {
        "Position": ",".join(
            (
                "bump u8, side u8, flags 6",
                _keys("owner", "pool", "custody", "collateral_custody"),
                "open_time i64, update_time i64",
                _u64s("price", "size_usd", "borrow_size_usd", "collateral_usd", "unrealized_usd"),
                "cumulative_interest_snapshot Split",
                _u64s("locked_amount", "collateral_amount", "exit_fee_usd", "liquidation_fee_usd"),
                _u64s("id", "take_profit", "paid_interest_usd", "stop_loss", "stop_loss_close"),
            )
        ),
        "Custody": ",".join(
            (
                "bumps 2, permissions 2, decimals u8, is_stable u8, gap 2",
                _keys("pool", "mint", "token_account"),
                "oracle Text, trade_oracle Text",
                "max_initial_leverage u32, max_leverage u32",
                _u64s("max_position_locked_usd", "max_short_usd"),
                "fees 32, max_hourly_rate u64",
                "collected_fees 48, volume 48, trades 32",
                _u64s("collateral", "owned", "locked"),
                "longs 200, shorts 200",
                "current_rate u64, last_update i64, cumulative_interest Split",
            )
        ),
        "Oracle": "bump u8, gap 7, updated_at i64, prices 20*Price",
        "UserStaking": "head 8, counter u64, liquid Liquid, locked 32*Locked",
    },
    "types": {
        "Split": _u64s("high", "low"),
        "Text": "value 31, length u8",
        "Price": "price u64, confidence u64, timestamp i64, exponent i32, feed 4, name Text",
        "Liquid": "amount u64, stake_time i64, claim_time i64, overlap_time i64, overlap u64",
        "Locked": "amount u64, stake_time i64, claim_time i64, end_time i64, lock_duration u64,"
        "multipliers 12, rounds u32, with_reward u64, with_lm_reward u64, resolved u8, gap2 7,"
        "id u64, early_exit u8, gap3 7, early_exit_fee u64, is_genesis u8, gap4 7, genesis i64",
    },
}


def adrena_idl(folder: Path) -> str:
    def structs(of: dict[str, str]) -> list[dict[str, Any]]:
        return [
            {"name": name, "type": {"kind": "struct", "fields": _fields(fields)}}
            for name, fields in of.items()
        ]

    path = folder / "adrena.json"
    idl = {"version": "1.3.8", "name": "adrena", "instructions": []}
    sections = {section: structs(of) for section, of in ADRENA.items()}
    path.write_text(json.dumps({**idl, **sections}))
    return str(path)


def test_accounts_of_adrena_are_where_the_program_has_them(folder: Path, tmp_path: Path) -> None:
    idl = adrena_idl(tmp_path)
    owner, pool, mint, custody, lender = KEYS
    names = ("entry", "size", "borrowed", "kept", "booked", "locked", "collateral", "exit_fee")
    figures = {name: (n + 3) << 40 for n, name in enumerate((*names, "liquidation_fee", "paid"))}
    of = {"owner": owner, "pool": pool, "custody": custody, "lender": lender, **figures}
    of |= {"opened_s": NOW_S, "side": 2, "snapshot": (5 << 64) + 7}
    [fields] = decoded(folder, idl, "Position", [adrena_position(of)])
    wanted = {"side": "2", "owner": text(owner), "pool": text(pool), "custody": text(custody)}
    wanted |= {"collateral_custody": text(lender), "open_time": f"{NOW_S}"}
    paths = ("price", "size_usd", "borrow_size_usd", "collateral_usd", "unrealized_usd")
    paths += ("locked_amount", "collateral_amount", "exit_fee_usd", "liquidation_fee_usd")
    paths += ("paid_interest_usd",)
    wanted |= {path: f"{value}" for path, value in zip(paths, figures.values(), strict=True)}
    wanted |= {"cumulative_interest_snapshot": {"high": "5", "low": "7"}}
    check(fields, wanted)
    of = {"pool": pool, "mint": mint, "oracle": "SOLUSD", "trade_oracle": "JITOSOLUSD"}
    of |= {"decimals": 6, "most_leverage": 99, "hourly": 3 << 40, "updated_s": NOW_S}
    of |= {"cumulative": (8 << 64) + 9}
    [fields] = decoded(folder, idl, "Custody", [adrena_custody(of)])
    wanted = {"decimals": "6", "pool": text(pool), "mint": text(mint), "max_leverage": "99"}
    wanted |= {"current_rate": f"{3 << 40}", "last_update": f"{NOW_S}"}
    wanted |= {"cumulative_interest": {"high": "8", "low": "9"}}
    wanted |= {"oracle.length": "6", "trade_oracle.length": "10"}
    check(fields, wanted)
    prices = {f"P{n}": (n << 33, n << 34, NOW_S - n, -n) for n in range(20)}
    [fields] = decoded(folder, idl, "Oracle", [adrena_oracle(prices)])
    for n, each in enumerate(fields["prices"]):
        wanted = {"price": f"{n << 33}", "confidence": f"{n << 34}", "exponent": f"{-n}"}
        check(each, {**wanted, "timestamp": f"{NOW_S - n}"})
    some = {
        n: {"amount": n << 40, "ends_s": NOW_S + n, "early_exit": n % 2, "fee": n << 20}
        for n in range(32)
    }
    [fields] = decoded(folder, idl, "UserStaking", [adrena_stakes(6 << 40, some)])
    assert field(fields, "liquid.amount") == f"{6 << 40}"
    for n, each in enumerate(fields["locked"]):
        wanted = {"amount": f"{n << 40}", "end_time": f"{NOW_S + n}", "early_exit": f"{n % 2}"}
        check(each, {**wanted, "early_exit_fee": f"{n << 20}"})


def written(kind: Kind, answer: dict[str, Any], number: int) -> Account:
    data = base64.b64decode(answer["data"])
    account = Account(bytes([number, len(kind.name)]) + bytes(30), kind, 1, data, 9)
    assert kind.matches(account.address, kind.program, data)
    return account


def drive(reading: Reading, chain: dict[bytes, Account] | None = None) -> list[Position]:
    there = chain or {}
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def test_stakes_of_flash(folder: Path) -> None:
    idl = anchor.idl("p10-flash_perpetuals.json")

    def asked(name: str, sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
        questions = [
            {"encode": name, "idl": idl, "seed": seed, "fields": fields}
            for seed, fields in enumerate(sets)
        ]
        return anchor.asked(folder, questions)

    sets = [{"withdraw_request_count": n % 4} for n in range(WORLDS)]
    for seed, answer in enumerate(asked("TokenStake", sets)):
        account = written(flash_staking.TOKEN_STAKE, answer, seed)
        [owner] = account.kind.found_by(account.data)
        assert text(owner) == answer["fields"]["owner"]
        [found] = drive(flash_staking.read_stakes(Held(owner, [account])))
        requests = answer["fields"]["withdraw_request"][: seed % 4]
        locked = [int(each["locked_amount"]) for each in requests]
        free = [int(each["withdrawable_amount"]) for each in requests]
        amounts = {"supply": int(answer["fields"]["active_stake_amount"]) + sum(free)}
        amounts |= {"pending": sum(locked)}
        assert {each.role.value: each.amount_raw for each in found.assets} == {
            role: amount for role, amount in amounts.items() if amount
        }
        assert {each.mint for each in found.assets} == {FAF}
        assert [(each.locked_raw, each.claimable_raw) for each in found.locks] == [
            pair for pair in zip(locked, free, strict=True) if any(pair)
        ]
    pools = asked("Pool", [{}] * WORLDS)
    chain = {
        each.address: each
        for seed, answer in enumerate(pools)
        for each in [written(flash_staking.POOL, answer, seed)]
    }
    sets = [{"pool": text(address)} for address in chain]
    for seed, answer in enumerate(asked("FlpStake", sets)):
        account = written(flash_staking.FLP_STAKE, answer, seed)
        [owner] = account.kind.found_by(account.data)
        stats = {name: int(value) for name, value in answer["fields"]["stake_stats"].items()}
        [found] = drive(flash_staking.read_stakes(Held(owner, [account])), chain)
        leaving = stats.pop("pending_deactivation")
        amounts = {"supply": sum(stats.values()), "pending": leaving}
        assert {each.role.value: each.amount_raw for each in found.assets} == {
            role: amount for role, amount in amounts.items() if amount
        }
        assert {text(each.mint) for each in found.assets} == {pools[seed]["fields"]["lp_mint"]}
        assert found.reference_slot == 9
        [missing] = drive(flash_staking.read_stakes(Held(owner, [account])))
        assert [text(each) for each in missing.missing] == [answer["fields"]["pool"]]
