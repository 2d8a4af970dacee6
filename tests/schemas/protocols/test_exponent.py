"""Exponent's yield and principal tokens, and liquidity of both.

Anchor's coder writes accounts with random fields, by the program's IDL; the sums are those of the
program's source over the fields that the coder reads, in fractions where the program has 10**-12.
"""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import exponent_yield
from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.exponent_number import ONE
from schemas.protocols.mint import MINT
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import key, text
from tests.support import anchor

IDL = "p14-exponent_core.json"
WALLET = bytes(range(1, 33))
NOW = 1_790_000_000
WORLD = World(100, NOW, 900)
WORLDS = range(100)


class Written:
    """An account that the coder wrote, and its fields."""

    def __init__(self, kind: Kind, address: bytes, answer: Mapping[str, Any]) -> None:
        self.fields: Mapping[str, Any] = answer["fields"]
        data = base64.b64decode(answer["data"])
        assert kind.matches(address, kind.program, data)
        self.account = Account(address, kind, 1, data, 9)


def address_of(number: int) -> bytes:
    return struct.pack("<I", number + 1).ljust(32, b"\7")


def number_of(field: Mapping[str, Any] | list[Any]) -> int:
    words = field["0"] if isinstance(field, Mapping) else field[0]
    return sum(int(word) << 64 * at for at, word in enumerate(words))


def small(value: int) -> dict[str, str]:
    """Return a number of at most 128 bits as the coder takes it."""
    return {str(at): str(value >> 64 * at & (1 << 64) - 1) for at in range(4)}


def at_path(path: str, value: int) -> dict[str, str]:
    return {f"{path}.0.{word}": raw for word, raw in small(value).items()}


def token_account(address: bytes, mint: bytes) -> Account:
    return Account(address, TOKEN, 1, mint + bytes(76) + b"\1" + bytes(56), 9)


def mint_account(address: bytes, supply: int) -> Account:
    return Account(address, MINT, 1, bytes(36) + struct.pack("<Q", supply) + b"\6\1" + bytes(36), 8)


def drive(held: Held, chain: Iterable[Account]) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = exponent_yield.read(held, WORLD)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def without_fee(raw: int, fee_bps: int) -> int:
    return raw - -(-raw * fee_bps // 10_000)


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    anchor.idl(IDL)
    return anchor.coder(request)


def written(folder: Path, kind: Kind, name: str, sets: list[dict[str, Any]]) -> list[Written]:
    answers = anchor.asked(
        folder,
        [
            {"encode": name, "idl": anchor.idl(IDL), "seed": seed, "fields": fields}
            for seed, fields in enumerate(sets)
        ],
    )
    return [Written(kind, address_of(1000 * len(name) + n), of) for n, of in enumerate(answers)]


@pytest.mark.node
def test_yield_that_is_deposited(folder: Path) -> None:
    chance = random.Random(14)
    rates = [ONE + chance.randrange(ONE) for _ in WORLDS]
    vaults = written(
        folder,
        exponent_yield.VAULT,
        "Vault",
        [
            {
                **at_path("final_sy_exchange_rate", rate),
                **at_path("last_seen_sy_exchange_rate", rate + chance.choice((0, 10**9))),
                **at_path("all_time_high_sy_exchange_rate", rate - chance.choice((0, 10**9))),
                "interest_bps_fee": chance.randrange(10_001),
                "start_ts": NOW - 1000,
                "duration": chance.randrange(2000),
                "emissions": 2,
                "emissions.0.fee_bps": chance.randrange(10_001),
                "emissions.1.fee_bps": 0,
                **at_path("emissions.0.final_index", chance.randrange(ONE)),
                **at_path("emissions.1.final_index", chance.randrange(ONE)),
            }
            for rate in rates
        ],
    )
    deposits = written(
        folder,
        exponent_yield.YIELD,
        "YieldTokenPosition",
        [
            {
                "owner": text(WALLET),
                "vault": text(vault.account.address),
                "yt_balance": str(chance.randrange(1 << 50)),
                **at_path("interest.last_seen_index", rate - chance.randrange(-9, ONE // 2)),
                "interest.staged": str(chance.randrange(1 << 40)),
                "emissions": 1,
                **at_path("emissions.0.last_seen_index", chance.randrange(ONE)),
                "emissions.0.staged": str(chance.randrange(1 << 40)),
            }
            for vault, rate in zip(vaults, rates, strict=True)
        ],
    )
    for deposit, vault in zip(deposits, vaults, strict=True):
        assert deposit.account.kind.found_by(deposit.account.data) == [WALLET]
        of, fields = vault.fields, deposit.fields
        paid_from = [key(each["token_account"]) for each in of["emissions"]]
        mints = [bytes([n]) * 32 for n in (201, 202)]
        chain = [vault.account, *map(token_account, paid_from, mints)]
        [found] = drive(Held(WALLET, [deposit.account]), chain)
        yt, final = int(fields["yt_balance"]), number_of(of["final_sy_exchange_rate"])
        last = number_of(of["last_seen_sy_exchange_rate"])
        seen = number_of(fields["interest"]["last_seen_index"])
        earned = 0
        if seen < final and number_of(of["all_time_high_sy_exchange_rate"]) <= last:
            half = ONE // 2
            grown = (ONE * ONE + half) // seen - (ONE * ONE + half) // final
            earned = grown * yt // ONE
            if last > final:
                earned = (final * ONE + half) // last * earned // ONE
        earned += int(fields["interest"]["staged"])
        in_sy = earned + (yt * ONE * ONE + ONE // 2) // final // ONE
        trackers = [*fields["emissions"], {"last_seen_index": [[0]], "staged": 0}]
        expected = [("supply", key(of["mint_yt"]), yt)]
        expected.append(
            ("reward", key(of["mint_sy"]), without_fee(earned, int(of["interest_bps_fee"])))
        )
        for emission, tracker, mint in zip(of["emissions"], trackers, mints, strict=True):
            grown = number_of(emission["final_index"]) - number_of(tracker["last_seen_index"])
            raw = int(tracker["staged"]) + max(grown, 0) * in_sy // ONE
            expected.append(("reward", mint, without_fee(raw, int(emission["fee_bps"]))))
        lines = [(each.role.value, each.mint, each.amount_raw) for each in found.assets]
        assert lines == [each for each in expected if each[2] or each[1] in mints]
        over = int(of["start_ts"]) + int(of["duration"]) < NOW
        assert found.assets[0].is_worthless == over
        assert found.market == vault.account.address
        assert not found.missing


@pytest.mark.node
def test_tokens_of_a_vault_before_and_after_maturity(folder: Path) -> None:
    chance = random.Random(15)
    sets = [
        {
            "start_ts": NOW - 500,
            "duration": chance.randrange(1000),
            **at_path("last_seen_sy_exchange_rate", ONE),
            **at_path("all_time_high_sy_exchange_rate", ONE + chance.randrange(2)),
        }
        for _ in WORLDS
    ]
    for vault in written(folder, exponent_yield.VAULT, "Vault", sets):
        of = vault.fields
        pt, yt = (key(of[name]) for name in ("mint_pt", "mint_yt"))
        assert vault.account.kind.represented_by(vault.account.data) == sorted((pt, yt))
        raw = chance.randrange(1, 1 << 60)
        [principal, future] = drive(Held(WALLET, [vault.account], {pt: raw, yt: 7}), [])
        assert (principal.stands_for, future.stands_for) == ({pt: raw}, {yt: 7})
        assert (principal.id, future.id) == (pt, yt)
        [line], [other] = principal.assets, future.assets
        assert (other.mint, other.amount_raw) == (yt, 7)
        ends_s = int(of["start_ts"]) + int(of["duration"])
        highest = number_of(of["all_time_high_sy_exchange_rate"])
        is_emergency = highest > number_of(of["last_seen_sy_exchange_rate"])
        if ends_s < NOW:
            role = Role.LOCKED if is_emergency else Role.SUPPLY
            assert (line.role, line.mint, line.amount_raw) == (role, pt, raw)
        else:
            assert (line.role, line.mint, line.amount_raw) == (Role.SUPPLY, pt, raw)
        [lock] = principal.locks
        if ends_s >= NOW:
            assert lock == Lock("term", raw, 0, ends_s * 1000)
        else:
            assert lock == (
                Lock("term", raw, 0) if is_emergency else Lock("term", 0, raw, ends_s * 1000)
            )


@pytest.mark.node
def test_liquidity_that_is_deposited_or_held(folder: Path) -> None:
    chance = random.Random(16)
    markets = written(
        folder,
        exponent_yield.MARKET,
        "MarketTwo",
        [
            {
                "financials.pt_balance": str(chance.randrange(1 << 60)),
                "financials.sy_balance": str(chance.randrange(1 << 60)),
                "emissions.trackers": 1,
                **at_path("emissions.trackers.0.lp_share_index", chance.randrange(ONE)),
                "lp_farm.last_seen_timestamp": NOW - chance.randrange(-5, 1000),
                "lp_farm.farm_emissions": 2,
                "lp_farm.farm_emissions.0.expiry_timestamp": NOW + chance.randrange(-900, 900),
                "lp_farm.farm_emissions.0.token_rate": str(chance.randrange(1 << 30)),
                **at_path("lp_farm.farm_emissions.0.index", chance.randrange(ONE)),
                "lp_farm.farm_emissions.1.expiry_timestamp": NOW + 9,
                "lp_farm.farm_emissions.1.token_rate": str(chance.randrange(1 << 30)),
                **at_path("lp_farm.farm_emissions.1.index", chance.randrange(ONE)),
                "lp_escrow_amount": str(chance.choice((0, chance.randrange(1 << 50)))),
            }
            for _ in WORLDS
        ],
    )
    deposits = written(
        folder,
        exponent_yield.LIQUIDITY,
        "LpPosition",
        [
            {
                "owner": text(WALLET),
                "market": text(market.account.address),
                "lp_balance": str(chance.randrange(1, 1 << 50)),
                "emissions.trackers": 1,
                **at_path("emissions.trackers.0.last_seen_index", chance.randrange(ONE)),
                "emissions.trackers.0.staged": str(chance.randrange(1 << 40)),
                "farms.trackers": 1,
                **at_path("farms.trackers.0.last_seen_index", chance.randrange(ONE)),
                "farms.trackers.0.staged": str(chance.randrange(1 << 40)),
            }
            for market in markets
        ],
    )
    for deposit, market in zip(deposits, markets, strict=True):
        of, fields = market.fields, deposit.fields
        pt, sy, lp = (key(of[name]) for name in ("mint_pt", "mint_sy", "mint_lp"))
        assert market.account.kind.represented_by(market.account.data) == [lp]
        own = int(fields["lp_balance"])
        supply = own + chance.randrange(1, 1 << 50)
        loose = supply - own
        [emission] = of["emissions"]["trackers"]
        chain = [
            market.account,
            mint_account(lp, supply),
            token_account(key(emission["token_escrow"]), bytes([201]) * 32),
        ]
        held = Held(WALLET, [market.account, deposit.account], {lp: loose})
        tokens, staked = drive(held, chain)
        assert (tokens.stands_for, staked.stands_for) == ({lp: loose}, {})
        balances = [(pt, "pt_balance"), (sy, "sy_balance")]
        for position, raw in ((tokens, loose), (staked, own)):
            assert [(each.mint, each.amount_raw) for each in position.assets[:2]] == [
                (mint, int(of["financials"][name]) * raw // supply) for mint, name in balances
            ]
            may_leave = int(of["status_flags"]) & 2
            roles = {each.role.value for each in position.assets[:2]}
            assert roles == {"supply" if may_leave else "locked"}
            assert position.reference_slot == 8
        assert len(tokens.assets) == 2
        [tracker] = fields["emissions"]["trackers"]
        grown = number_of(emission["lp_share_index"]) - number_of(tracker["last_seen_index"])
        expected = {bytes([201]) * 32: int(tracker["staged"]) + max(grown, 0) * own // ONE}
        trackers = [*fields["farms"]["trackers"], {"last_seen_index": [[0]], "staged": 0}]
        for farm, tracker in zip(of["lp_farm"]["farm_emissions"], trackers, strict=True):
            until = min(NOW, int(farm["expiry_timestamp"]))
            past_s = max(until - int(of["lp_farm"]["last_seen_timestamp"]), 0)
            whole = int(of["lp_escrow_amount"])
            more = int(farm["token_rate"]) * past_s
            index = number_of(farm["index"])
            index += (more * ONE * ONE + ONE // 2) // (whole * ONE) if whole else 0
            grown = max(index - number_of(tracker["last_seen_index"]), 0)
            expected[key(farm["mint"])] = int(tracker["staged"]) + grown * own // ONE
        rewards = {each.mint: each.amount_raw for each in staked.assets[2:]}
        assert rewards == {mint: raw for mint, raw in expected.items() if raw}
        assert {each.role for each in staked.assets[2:]} <= {"reward"}


def yield_position(yt: int) -> Account:
    data = WALLET + bytes([8]) * 32 + struct.pack("<Q", yt) + bytes(44)
    return Account(address_of(1), exponent_yield.YIELD, 1, exponent_yield.YIELD.tag + data, 9)


PT, YT, SY, LP, PAID = (bytes([n]) * 32 for n in range(101, 106))


def market_head(status: int = 63) -> bytes:
    """Return a market up to its balances; in `status` 2 is the bit that lets liquidity leave."""
    data = exponent_yield.MARKET.tag + bytes(32) + PT + SY + bytes(32) + LP
    return (data.ljust(331, b"\0") + bytes([status])).ljust(372, b"\0")


def vault_of(ends_s: int, rate: int = ONE) -> Account:
    """Return a vault without emissions, whose SY was worth `ONE` once."""
    data = exponent_yield.VAULT.tag + bytes(32) + SY + YT + PT + bytes(128)
    data += struct.pack("<II", ends_s - 1000, 1000)
    data = data.ljust(337, b"\0") + rate.to_bytes(32, "little") + ONE.to_bytes(32, "little")
    data = data.ljust(441, b"\0") + struct.pack("<QQ", 300, 400)  # sy_for_pt, pt_supply
    return Account(address_of(2), exponent_yield.VAULT, 1, data.ljust(528, b"\0"), 9)


@pytest.mark.parametrize("mint", [PT, YT], ids=["principal", "yield"])
def test_of_a_vaults_tokens_those_that_the_wallet_has_are_positions(mint: bytes) -> None:
    [found] = drive(Held(WALLET, [vault_of(NOW + 500)], {mint: 5}), [])
    assert found.assets == [Asset(Role.SUPPLY, mint, 5)]
    assert (found.id, found.stands_for) == (mint, {mint: 5})
    assert found.locks == [Lock("term", 5, 0, (NOW + 500) * 1000)]


def test_after_maturity_principal_has_no_unknown_amount_and_yield_is_worth_nothing() -> None:
    """`merge` sees the rate of SY before it pays: 300 SY for 400 PT is what it was at the last.

    Anybody can send a matured PT: SY without an amount would null all sums of the wallet.
    """
    [principal, future] = drive(Held(WALLET, [vault_of(NOW - 1)], {PT: 8, YT: 5}), [])
    assert principal.assets == [Asset(Role.SUPPLY, PT, 8)]
    [named] = principal.unsupported_fields
    assert "has not seen" in named
    assert principal.stands_for == {PT: 8}
    [line] = future.assets
    assert (line.mint, line.amount_raw) == (YT, 5)
    assert line.is_worthless
    assert principal.locks == [Lock("term", 0, 8, (NOW - 1) * 1000)]
    assert future.locks == [Lock("term", 0, 5, (NOW - 1) * 1000)]


def test_a_vault_whose_sy_has_lost_pays_no_matured_principal() -> None:
    """`merge` fails in emergency mode: the highest rate is above the last that was seen."""
    held = {PT: 8, YT: 5}
    [principal, future] = drive(Held(WALLET, [vault_of(NOW - 1, ONE - 1)], held), [])
    assert principal.assets == [Asset(Role.LOCKED, PT, 8)]
    assert principal.locks == [Lock("term", 8, 0)]
    assert len(principal.unsupported_fields) == 2
    assert future.locks == [Lock("term", 0, 5, (NOW - 1) * 1000)]
    [principal, _] = drive(Held(WALLET, [vault_of(NOW, ONE - 1)], held), [])
    assert principal.assets == [Asset(Role.SUPPLY, PT, 8)]


def test_lp_tokens_are_all_of_a_market_at_most() -> None:
    data = market_head() + struct.pack("<QQ", 1000, 3000) + bytes(52)
    market = Account(address_of(3), exponent_yield.MARKET, 1, data, 9)
    [found] = drive(Held(WALLET, [market], {LP: 100}), [mint_account(LP, 100)])
    assert [(each.mint, each.amount_raw) for each in found.assets] == [(PT, 1000), (SY, 3000)]
    with pytest.raises(Unreadable, match="101 of 100 LP tokens") as error:
        drive(Held(WALLET, [market], {LP: 101}), [mint_account(LP, 100)])
    assert error.value.account == market.address


@pytest.mark.parametrize(("status", "role"), [(61, Role.LOCKED), (2, Role.SUPPLY)])
def test_liquidity_is_locked_while_its_market_lets_none_leave(status: int, role: Role) -> None:
    data = market_head(status) + struct.pack("<QQ", 1000, 3000) + bytes(52)
    market = Account(address_of(3), exponent_yield.MARKET, 1, data, 9)
    [found] = drive(Held(WALLET, [market], {LP: 50}), [mint_account(LP, 100)])
    assert found.assets == [Asset(role, PT, 500), Asset(role, SY, 1500)]
    named = [each for each in found.unsupported_fields if "paused" in each]
    assert len(named) == (role is Role.LOCKED)


def test_a_deposit_of_lp_tokens_has_its_shares_and_a_line_of_each_farm_that_paid() -> None:
    def farm(mint: bytes, per_second: int) -> bytes:
        return mint + struct.pack("<QI", per_second, NOW + 10) + bytes(32)

    data = market_head() + struct.pack("<QQ24xIII", 1000, 3000, 0, NOW - 20, 2)
    data += farm(PAID, 5) + farm(SY, 0) + struct.pack("<8xQ", 50)
    market = Account(address_of(3), exponent_yield.MARKET, 1, data, 9)
    tag = exponent_yield.LIQUIDITY.tag
    own = tag + WALLET + market.address + struct.pack("<QII32xQ", 40, 0, 1, 7)
    deposit = Account(address_of(4), exponent_yield.LIQUIDITY, 1, own, 9)
    [found] = drive(Held(WALLET, [deposit]), [market, mint_account(LP, 100)])
    # 5 a second for 20 seconds to 50 tokens are 2 of each; 40 of them, and 7 from before
    assert [(each.role, each.mint, each.amount_raw) for each in found.assets] == [
        (Role.SUPPLY, PT, 400),
        (Role.SUPPLY, SY, 1200),
        (Role.REWARD, PAID, 87),
    ]


def test_an_emission_is_asked_for_where_the_account_that_pays_it_is_not_known() -> None:
    """The rest of the deposit is known all the same: what is left out can only be more."""
    data = market_head() + struct.pack("<QQ24xI", 1000, 3000, 1) + PAID + bytes(40)
    data += struct.pack("<II8xQ", NOW, 0, 50)
    market = Account(address_of(3), exponent_yield.MARKET, 1, data, 9)
    own = exponent_yield.LIQUIDITY.tag + WALLET + market.address
    own += struct.pack("<QI32xQI", 40, 1, 9, 0)
    held = Held(WALLET, [Account(address_of(4), exponent_yield.LIQUIDITY, 1, own, 9)])
    known = [market, mint_account(LP, 100)]
    [found] = drive(held, known)
    assert [each.amount_raw for each in found.assets] == [400, 1200]
    assert (found.missing, found.lacking) == ([], [PAID])
    assert "asked for" in found.unsupported_fields[0]
    [found] = drive(held, [*known, token_account(PAID, bytes([201]) * 32)])
    assert found.assets[2] == Asset(Role.REWARD, bytes([201]) * 32, 9)
    assert (found.lacking, found.unsupported_fields) == ([], [])


def test_a_deposit_without_its_vault_says_so() -> None:
    [found] = drive(Held(WALLET, [yield_position(5)]), [])
    assert found.missing == [bytes([8]) * 32]
    assert (found.assets, len(found.unsupported_fields)) == ([], 1)


def test_too_many_trackers_are_unreadable() -> None:
    account = yield_position(5)
    data = account.data[:120] + struct.pack("<I", 65)
    with pytest.raises(Unreadable, match="65 elements at 120"):
        drive(Held(WALLET, [account._replace(data=data)]), [])


def test_a_vault_that_ends_early_is_unreadable_for_its_deposit_alone() -> None:
    vault = Account(bytes([8]) * 32, exponent_yield.VAULT, 1, exponent_yield.VAULT.tag, 9)
    with pytest.raises(Unreadable, match="vault of 8 bytes") as error:
        drive(Held(WALLET, [yield_position(5)]), [vault])
    assert error.value.account == yield_position(5).address
