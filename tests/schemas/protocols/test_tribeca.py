"""Tribeca: escrows and lockers as Anchor's coder writes them from the IDL of Tribeca's own SDK.

Votes are those of the program's formula, here in fractions.
"""

from __future__ import annotations

import base64
import struct
import subprocess
from fractions import Fraction
from math import floor
from pathlib import Path

import pytest

from schemas.protocols import tribeca
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key, text
from tests.support import anchor, npm

WALLET, OTHER, MINT, LOCKER = (bytes([n]) * 32 for n in range(1, 5))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
WORLDS = 200
U64 = 1 << 64
JUDGES = Path(__file__).parent / "governance_judges"


def account(kind: Kind, data: bytes, at: bytes = b"e" * 32) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, 90)


def escrow(*, owner: bytes = WALLET, ends_s: int = NOW_S + 50) -> Account:
    data = tribeca.ESCROW.tag + LOCKER + owner + b"\xff" + bytes(32)
    data += struct.pack("<Qqq", 500, NOW_S - 50, ends_s) + WALLET
    assert len(data) == 161
    return account(tribeca.ESCROW, data)


def locker() -> Account:
    data = tribeca.LOCKER.tag + bytes(33) + MINT + bytes(8) + bytes(32)
    data += struct.pack("<BBQQQ", 0, 4, 0, 100, 0)
    assert len(data) == 139
    return account(tribeca.LOCKER, data, LOCKER)


def read(*own: Account, others: tuple[Account, ...] = ()) -> list[Position]:
    known = {each.address: each for each in others}
    reading = tribeca.read(Held(WALLET, own), WORLD)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def test_an_escrow_is_locked_and_votes_for_the_time_that_is_left() -> None:
    [position] = read(escrow(), others=(locker(),))
    [asset] = position.assets
    assert (asset.role, asset.mint, asset.amount_raw) == (Role.LOCKED, MINT, 500)
    [lock] = position.locks
    assert (lock.kind, lock.locked_raw, lock.ends_ms) == ("escrow", 500, (NOW_S + 50) * 1000)
    assert position.voting is not None
    assert (position.voting.power_raw, position.voting.delegate) == (500 * 4 // 2, None)


@pytest.mark.parametrize(("ends_s", "is_free"), [(NOW_S - 1, True), (NOW_S, False)])
def test_an_escrow_is_free_after_the_second_in_which_it_ends(ends_s: int, is_free: bool) -> None:
    """`exit.rs` wants `escrow_ends_at < now`; votes are 0 from `now >= escrow_ends_at` on."""
    [position] = read(escrow(ends_s=ends_s), others=(locker(),))
    assert position.assets[0].role is (Role.SUPPLY if is_free else Role.LOCKED)
    [lock] = position.locks
    assert (lock.locked_raw, lock.claimable_raw) == ((0, 500) if is_free else (500, 0))
    assert lock.ends_ms == ends_s * 1000
    assert position.voting is not None
    assert position.voting.power_raw == 0


def test_an_escrow_of_another_wallet_is_no_position() -> None:
    assert read(escrow(owner=OTHER)) == []


@pytest.mark.parametrize("size", [100, 150])
def test_an_escrow_cut_short_is_unreadable(size: int) -> None:
    with pytest.raises(Unreadable, match=f"escrow of {size} bytes"):
        read(escrow()._replace(data=escrow().data[:size]))


def test_the_slug() -> None:
    assert SLUGS["p34"] is tribeca.PROTOCOL


@pytest.mark.node
def test_escrows_and_lockers_are_laid_out_as_in_the_sdks_idl(
    request: pytest.FixtureRequest,
) -> None:
    judges = npm.installed(request, "governance-judges", JUDGES, "@solana/spl-governance")
    subprocess.run(["node", "judges.cjs", "idls"], cwd=judges, check=True, timeout=120)
    idl = str(judges / "locked_voter.json")
    names = ("Escrow", "Locker")
    questions = [
        {
            "encode": name,
            "idl": idl,
            "seed": seed,
            "fields": {
                "locker": text(LOCKER),
                "owner": text(WALLET),
                "escrowStartedAt": str(NOW_S - seed),
                "escrowEndsAt": str(NOW_S + (seed - 50) * 100_000),
            }
            if name == "Escrow"
            else {"params.maxStakeDuration": str(seed * 10_000)},
        }
        for name in names
        for seed in range(1, WORLDS + 1)
    ]
    answers = anchor.asked(anchor.coder(request), questions)
    powers = 0
    for each, terms in zip(answers[:WORLDS], answers[WORLDS:], strict=True):
        own = account(tribeca.ESCROW, base64.b64decode(each["data"]))
        of = account(tribeca.LOCKER, base64.b64decode(terms["data"]), LOCKER)
        fields, params = each["fields"], terms["fields"]["params"]
        amount, ends_s = int(fields["amount"]), int(fields["escrowEndsAt"])
        if not amount:
            assert read(own, others=(of,)) == []
            continue
        [position] = read(own, others=(of,))
        [asset] = position.assets
        assert (asset.mint, asset.amount_raw) == (key(terms["fields"]["tokenMint"]), amount)
        assert asset.role is (Role.SUPPLY if ends_s < NOW_S else Role.LOCKED)
        most = amount * int(params["maxStakeVoteMultiplier"])
        share = min(Fraction(max(0, ends_s - NOW_S), int(params["maxStakeDuration"])), Fraction(1))
        power: int | None = floor(most * share)
        if ends_s > NOW_S and most >= U64:
            power = None
        assert position.voting is not None
        assert position.voting.power_raw == power
        assert position.voting.delegate == key(fields["voteDelegate"])
        powers += power not in (None, 0)
    assert powers
