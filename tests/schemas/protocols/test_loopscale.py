"""Loopscale: worlds built by hand, and layouts as Anchor's coder writes them from the IDL.

There is no SDK: what is judged is where each field is, not what the program computes of it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import loopscale
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor

WALLET, OTHER, MINT, SOL_MINT, LP, VAULT, MARKET = (bytes([n]) * 32 for n in range(1, 8))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
WORLDS = 200
ONE = 10**18


def account(kind: Kind, fields: dict[int, bytes], at: bytes = b"a" * 32, size: int = 0) -> Account:
    data = bytearray(size or {"loopscale_loan": 1658}.get(kind.name) or SIZES[kind.name])
    data[:8] = kind.tag
    for offset, value in fields.items():
        data[offset : offset + len(value)] = value
    assert kind_of(at, loopscale.PROGRAM, bytes(data)) is kind
    return Account(at, kind, 1, bytes(data), 90)


SIZES = {
    "loopscale_loan": 1634,
    "loopscale_strategy": 8460,
    "loopscale_vault": 162,
    "loopscale_vault_stake": 150,
    "loopscale_user_rewards": 322,
    "loopscale_vault_rewards": 901,
}


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def decimal(value: int) -> bytes:
    return value.to_bytes(24, "little")


def ledger(
    number: int, *, due: int, repaid: int = 0, interest: int = 0, counted_s: int = NOW_S, rate: int
) -> dict[int, bytes]:
    at = 59 + 182 * number
    return {
        at + 33: MINT,
        at + 65: MARKET,
        at + 97: u64(due),
        at + 105: u64(repaid),
        at + 113: u64(interest),
        at + 121: u64(counted_s),
        at + 134: decimal(rate),
        at + 158: u64(NOW_S - 1000),
    }


def collateral(number: int, mint: bytes, amount: int, kind: int = 0) -> dict[int, bytes]:
    return {969 + 73 * number: mint + u64(amount) + bytes([kind]) + mint}


def read(
    *own: Account, tokens: dict[bytes, int] | None = None, others: tuple[Account, ...] = ()
) -> list[Position]:
    known = {each.address: each for each in others}
    reading = loopscale.read(Held(WALLET, own, tokens or {}), WORLD)
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def loan(status: int = 0, **of: int) -> Account:
    fields = {10: bytes([status]), 11: WALLET, **collateral(0, SOL_MINT, 7)}
    return account(loopscale.LOAN, fields | ledger(0, **of))


def test_a_loan_owes_what_is_stored_and_an_unknown_amount_since() -> None:
    [position] = read(loan(due=100, repaid=30, interest=4, rate=0))
    assert (position.route, position.market) == ("loans", MARKET)
    assert lines(position) == [
        (Role.SUPPLY, SOL_MINT, 7),
        (Role.BORROW, MINT, 70),
        (Role.BORROW, MINT, 4),
    ]
    assert not any(each.startswith("interest") for each in position.unsupported_fields)
    [later] = read(loan(due=100, repaid=30, interest=4, counted_s=NOW_S - 1, rate=ONE))
    assert lines(later)[-1] == (Role.BORROW, MINT, None)
    assert any(each.startswith("interest since") for each in later.unsupported_fields)
    [repaid] = read(loan(due=100, repaid=100, counted_s=NOW_S - 1, rate=ONE))
    assert lines(repaid) == [(Role.SUPPLY, SOL_MINT, 7)]


def test_interest_of_a_ledger_of_the_older_layout_is_not_read() -> None:
    [position] = read(loan(due=100, interest=40, counted_s=25, rate=ONE))
    assert lines(position)[1:] == [(Role.BORROW, MINT, 100), (Role.BORROW, MINT, None)]
    assert any("older layout" in each for each in position.unsupported_fields)


def test_a_loan_is_in_one_of_loans_and_loops() -> None:
    routes = [each.route for status in range(4) for each in read(loan(status, due=1, rate=0))]
    assert routes == ["loans", "loans", "loops", "loans"]


def test_collateral_that_is_no_token_has_no_amount() -> None:
    fields = {11: WALLET, **collateral(0, SOL_MINT, 7, kind=1), **collateral(4, MINT, 5)}
    [position] = read(account(loopscale.LOAN, fields))
    assert lines(position) == [(Role.SUPPLY, SOL_MINT, None), (Role.SUPPLY, MINT, 5)]
    assert any("no token" in each for each in position.unsupported_fields)


def test_a_loan_that_repaid_more_than_it_owed_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="principal_repaid 2 at 164 is more than 1") as error:
        read(loan(due=1, repaid=2, rate=0))
    assert error.value.account == b"a" * 32


def strategy(at: bytes, lender: bytes, *, of: tuple[int, ...]) -> Account:
    balance, external, deployed, interest, fee = of
    fields = {
        42: MINT,
        74: lender,
        132: u64(NOW_S - 9),
        148: u64(balance),
        188: u64(external),
        196: u64(deployed),
        204: u64(interest),
        212: u64(fee),
        268: MARKET,
    }
    return account(loopscale.STRATEGY, fields, at)


def test_a_strategy_is_its_lenders_principal_and_interest() -> None:
    [position] = read(strategy(b"s" * 32, WALLET, of=(1, 2, 3, 4, 5)))
    assert (position.route, position.market) == ("advanced-lending", MARKET)
    assert lines(position) == [
        (Role.SUPPLY, MINT, 1),
        (Role.SUPPLY, MINT, 2),
        (Role.LOCKED, MINT, 3),
        (Role.PENDING, MINT, 4),
    ]
    assert read(strategy(b"s" * 32, OTHER, of=(1, 2, 3, 4, 5))) == []


VAULT_ACCOUNT = account(loopscale.VAULT, {73: u64(1000), 81: LP, 113: MINT}, VAULT)
SHARE = "assets.price_usd: what a share is worth in the vault's token is not published"


def test_shares_that_are_held_are_lp_tokens_and_leave_no_amount_unknown() -> None:
    """Anybody can send one: an amount of the vault's token without a number would null all sums."""
    [position] = read(VAULT_ACCOUNT, tokens={LP: 333})
    assert lines(position) == [(Role.SUPPLY, LP, 333)]
    assert position.stands_for == {LP: 333}
    assert position.unsupported_fields == [SHARE]
    assert read(VAULT_ACCOUNT) == []


def test_staked_shares_are_locked_until_their_end_and_need_the_vault() -> None:
    fields = {8: VAULT, 73: WALLET, 105: u64(500), 126: u64(NOW_S + 60)}
    stake = account(loopscale.VAULT_STAKE, fields)
    [position] = read(stake, others=(VAULT_ACCOUNT,))
    assert lines(position) == [(Role.LOCKED, LP, 500)]
    assert (position.unsupported_fields, position.reference_slot) == ([SHARE], 90)
    assert [(each.locked_raw, each.ends_ms) for each in position.locks] == [
        (500, (NOW_S + 60) * 1000)
    ]
    assert position.stands_for == {}
    [without] = read(stake)
    assert (without.assets, without.missing) == ([], [VAULT])


@pytest.mark.parametrize("ends_s", [0, NOW_S - 86_400, NOW_S])
def test_staked_shares_whose_term_is_over_are_not_shown_as_free(ends_s: int) -> None:
    fields = {8: VAULT, 73: WALLET, 105: u64(500), 126: u64(ends_s)}
    [position] = read(account(loopscale.VAULT_STAKE, fields), others=(VAULT_ACCOUNT,))
    assert lines(position) == [(Role.LOCKED, LP, 500)]
    [lock] = position.locks
    assert (lock.locked_raw, lock.claimable_raw) == (500, None)
    assert lock.ends_ms == (ends_s * 1000 or None)
    assert [each for each in position.unsupported_fields if "the term is over" in each]


def rewards_info(**of: int) -> Account:
    at = 41 + 172
    fields = {
        8: VAULT,
        at: MINT,
        at + 64: u64(of.get("ends_s", 0)),
        at + 80: decimal(of.get("rate", 0)),
        at + 104: decimal(of.get("index", 0)),
        at + 128: u64(of.get("counted_s", 0)),
    }
    return account(loopscale.VAULT_REWARDS, fields, loopscale.rewards_of(VAULT))


def test_rewards_are_those_that_are_stored() -> None:
    fields = {8: VAULT, 81: WALLET, 113: u64(5), 242 + 8: u64(77)}
    own = account(loopscale.REWARDS, fields)
    [position] = read(own, others=(rewards_info(),))
    assert (position.route, lines(position)) == ("rewards", [(Role.REWARD, MINT, 77)])
    for behind in (
        rewards_info(index=1),
        rewards_info(rate=1, counted_s=NOW_S - 1, ends_s=NOW_S + 9),
    ):
        [position] = read(own, others=(behind,))
        assert lines(position) == [(Role.REWARD, MINT, 77), (Role.REWARD, MINT, None)]
        assert position.unsupported_fields
    [over] = read(own, others=(rewards_info(rate=1, counted_s=NOW_S - 5, ends_s=NOW_S - 5),))
    assert lines(over) == [(Role.REWARD, MINT, 77)]
    [missing] = read(own)
    assert missing.missing == [loopscale.rewards_of(VAULT)]


@pytest.mark.parametrize("kind", loopscale.PROTOCOL.kinds, ids=lambda kind: kind.name)
def test_bytes_that_end_early_are_unreadable(kind: Kind) -> None:
    short = account(kind, {}, size=SIZES[kind.name] - 1)
    with pytest.raises(Unreadable, match=f"{len(short.data)} bytes") as error:
        read(short)
    assert error.value.account == short.address


def test_the_slug() -> None:
    assert SLUGS["p03"] is loopscale.PROTOCOL


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


def written(
    coder: Path, name: str, fields: Callable[[int], dict[str, Any]]
) -> list[tuple[bytes, dict[str, Any]]]:
    """Return accounts of random values but for some, which a seed decides, and their fields."""
    idl = anchor.idl("p03-loopscale.json")
    answers = anchor.asked(
        coder,
        [
            {"encode": name, "idl": idl, "seed": seed, "fields": fields(seed)}
            for seed in range(WORLDS)
        ],
    )
    return [(base64.b64decode(each["data"]), each["fields"]) for each in answers]


def loan_fields(seed: int) -> dict[str, Any]:
    """Return fields of a loan that are rare at random: known times, types and repayments."""
    fields: dict[str, Any] = {
        "borrower": text(WALLET),
        "loan_status": str(seed % 4),
        f"collateral.{seed % 5}.asset_type": "0",
        "ledgers.1.start_time.0": u64(seed).hex(),
        "ledgers.1.last_interest_updated_time.0": u64(NOW_S - 100 + seed).hex(),
    }
    few = 5 if seed % 10 else 4  # of ten loans one has repaid more than it owed, or may have
    return fields | {f"ledgers.{n}.principal_repaid.0": u64(seed + n).hex() for n in range(few)}


def pod(value: dict[str, Any]) -> int:
    """Return a number that the IDL has as bytes in a tuple."""
    return int.from_bytes(bytes(int(each) for each in value["0"]), "little")


@pytest.mark.node
def test_loans_are_laid_out_as_in_the_idl(coder: Path) -> None:
    unreadable = 0
    for data, fields in written(coder, "Loan", loan_fields):
        assert len(data) == 1634
        assert loopscale.LOAN.found_by(data) == [WALLET]
        expected: list[tuple[Role, bytes, int | None]] = []
        for each in fields["collateral"]:
            is_token = each["asset_type"] == "0"
            amount = pod(each["amount"]) if is_token else None
            expected.append((Role.SUPPLY, key(each["asset_mint"]), amount))
        bad = False
        for each in fields["ledgers"]:
            mint = key(each["principal_mint"])
            due, repaid = pod(each["principal_due"]), pod(each["principal_repaid"])
            bad = bad or repaid > due
            owed = due - repaid
            expected += [(Role.BORROW, mint, owed)] if owed else []
            counted_s = pod(each["last_interest_updated_time"])
            interest = pod(each["interest_outstanding"])
            if counted_s < pod(each["start_time"]):
                expected.append((Role.BORROW, mint, None))
            else:
                expected.append((Role.BORROW, mint, interest))
                if pod(each["interest_per_second"]) and counted_s < NOW_S:
                    expected.append((Role.BORROW, mint, None))
        own = Account(b"a" * 32, loopscale.LOAN, 1, data, 9)
        if bad:
            with pytest.raises(Unreadable, match="principal_repaid"):
                read(own)
            unreadable += 1
            continue
        [position] = read(own)
        assert lines(position) == expected
        assert position.route == ("loops" if fields["loan_status"] == "2" else "loans")
    assert 0 < unreadable <= WORLDS // 10


@pytest.mark.node
def test_strategies_vaults_stakes_and_rewards_are_laid_out_as_in_the_idl(coder: Path) -> None:
    wallet = text(WALLET)
    for data, fields in written(coder, "Strategy", lambda _: {"lender": wallet}):
        assert len(data) == 8460
        [position] = read(Account(b"a" * 32, loopscale.STRATEGY, 1, data, 9))
        names = ("token_balance", "external_yield_amount", "current_deployed_amount")
        mint = key(fields["principal_mint"])
        found = [each[2] for each in lines(position) if each[1] == mint]
        stored = [pod(fields[name]) for name in (*names, "outstanding_interest_amount")]
        assert found[: len(stored)] == stored
        assert position.market == key(fields["market_information"])
        is_old = pod(fields["last_accrued_timestamp"]) < NOW_S
        assert (found[len(stored) :] == [None]) is (
            is_old and pod(fields["interest_per_second"]) > 0
        )
    for data, fields in written(coder, "VaultStake", lambda _: {"user": wallet}):
        assert len(data) == 150
        [position] = read(Account(b"a" * 32, loopscale.VAULT_STAKE, 1, data, 9))
        assert position.missing == [position.market] == [key(fields["vault"])]
        assert position.locks[0].locked_raw == pod(fields["amount"])
        end_ms = pod(fields["end_time"]) * 1000
        assert position.locks[0].ends_ms == min(end_ms, 2**53 - 1)
    for data, fields in written(coder, "Vault", lambda _: {}):
        assert len(data) == 162
        own = Account(b"v" * 32, loopscale.VAULT, 1, data, 9)
        [position] = read(own, tokens={key(fields["lp_mint"]): 5})
        assert lines(position) == [(Role.SUPPLY, key(fields["lp_mint"]), 5)]
    vaults = written(coder, "VaultRewardsInfo", lambda _: {})
    for (data, fields), (info, of) in zip(
        written(coder, "UserRewardsInfo", lambda _: {"user": wallet}), vaults, strict=True
    ):
        assert (len(data), len(info)) == (322, 901)
        at = loopscale.rewards_of(key(fields["vault_address"]))
        [position] = read(
            Account(b"a" * 32, loopscale.REWARDS, 1, data, 9),
            others=(Account(at, loopscale.VAULT_REWARDS, 1, info, 9),),
        )
        stored = [
            (key(schedule["reward_mint"]), pod(pending))
            for schedule, pending in zip(of["schedules"], fields["pending_rewards"], strict=True)
        ]
        assert [(mint, raw) for _, mint, raw in lines(position) if raw is not None] == stored
