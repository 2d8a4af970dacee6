"""Jupiter Offerbook: worlds built by hand, and layouts as Anchor's coder writes them from the IDL.

There is no SDK: what is judged is where each field is, not what the program computes of it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import offerbook
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import TOKEN_PROGRAM, key, text
from tests.support import anchor

WALLET, OTHER, MINT, SOL_MINT, ORDER = (bytes([n]) * 32 for n in range(1, 6))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
WORLDS = 200
SIZES = {offerbook.OFFER: 1224, offerbook.LOAN: 808}
NFTS = ("ClassicNft", "ProgrammableNft", "CoreNft")


def token(mint: bytes) -> bytes:
    return b"\1" + mint + TOKEN_PROGRAM


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def account(kind: Kind, fields: dict[int, bytes], at: bytes = b"a" * 32) -> Account:
    data = bytearray(SIZES[kind])
    data[:8] = kind.tag
    for offset, value in fields.items():
        data[offset : offset + len(value)] = value
    assert kind_of(at, offerbook.PROGRAM, bytes(data)) is kind
    return Account(at, kind, 1, bytes(data), 90)


def loan(lender: bytes, borrower: bytes, **of: Any) -> Account:
    fields = {
        8: lender,
        40: borrower,
        104: ORDER,
        136: bytes([of.get("status", 0)]),
        152: token(MINT),
        424: of.get("collateral", token(SOL_MINT)),
        704: u64(100),
        712: u64(7),
        720: u64(of.get("interest", 5)),
        736: u64(NOW_S + 60),
    }
    return account(offerbook.LOAN, fields)


def offer(side: int = 0, *, status: int = 0, asset: bytes = b"", at: bytes = b"o" * 32) -> Account:
    fields = {
        8: WALLET,
        40: bytes([side, status]),
        48: asset or token(MINT),
        320: token(SOL_MINT),
        872: u64(40),
        888: u64(3),
        920: u64(NOW_S + 9),
    }
    return account(offerbook.OFFER, fields, at)


def escrow(mint: bytes, amount: int, owner: bytes | None = None) -> Account:
    user = offerbook.user_of(WALLET)
    data = mint + (owner or user) + u64(amount) + bytes(36) + b"\1" + bytes(56)
    return Account(offerbook.escrow_of(user, mint, TOKEN_PROGRAM), TOKEN, 1, data, 80)


def read(*own: Account, others: tuple[Account, ...] = ()) -> list[Position]:
    known = {each.address: each for each in others}
    reading = offerbook.read(Held(WALLET, own), WORLD)
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def test_a_lender_has_principal_locked_until_the_loan_ends() -> None:
    [position] = read(loan(WALLET, OTHER))
    assert lines(position) == [(Role.LOCKED, MINT, 100), (Role.PENDING, MINT, None)]
    assert [(each.locked_raw, each.ends_ms) for each in position.locks] == [
        (100, (NOW_S + 60) * 1000)
    ]
    assert position.market == ORDER
    assert any(each.startswith("interest") for each in position.unsupported_fields)


def test_a_borrower_has_collateral_and_owes_principal_and_interest() -> None:
    [position] = read(loan(OTHER, WALLET))
    assert lines(position) == [
        (Role.SUPPLY, SOL_MINT, 7),
        (Role.BORROW, MINT, 100),
        (Role.BORROW, MINT, None),
    ]
    assert position.locks == []
    [free] = read(loan(OTHER, WALLET, interest=0))
    assert lines(free) == [(Role.SUPPLY, SOL_MINT, 7), (Role.BORROW, MINT, 100)]
    assert free.unsupported_fields == []
    [nft] = read(loan(OTHER, WALLET, collateral=b"\4" + ORDER))
    assert lines(nft)[0] == (Role.SUPPLY, ORDER, 1)


def test_a_wallet_that_lends_to_itself_has_one_position() -> None:
    [position] = read(loan(WALLET, WALLET, interest=0))
    assert [each[0] for each in lines(position)] == [Role.SUPPLY, Role.LOCKED, Role.BORROW]


@pytest.mark.parametrize("status", [1, 2])
def test_a_loan_that_was_repaid_or_defaulted_is_none(status: int) -> None:
    assert read(loan(WALLET, OTHER, status=status)) == []


def test_offers_of_a_token_share_one_escrow_that_counts_once() -> None:
    offers = (offer(), offer(status=1, at=b"p" * 32))
    deposit, *promises = read(*offers, others=(escrow(MINT, 55),))
    assert lines(deposit) == [(Role.SUPPLY, MINT, 55)]
    assert deposit.account.address == escrow(MINT, 55).address
    for position in promises:
        assert lines(position) == [(Role.LOCKED, MINT, 0)]
        assert [(each.kind, each.locked_raw) for each in position.locks] == [("escrow", 40)]
        assert (position.reference_slot, position.missing) == (80, [])
    assert len(promises) == 2


def test_an_offer_of_collateral_promises_collateral() -> None:
    [deposit, position] = read(offer(1), others=(escrow(SOL_MINT, 2),))
    assert lines(deposit) == [(Role.SUPPLY, SOL_MINT, 2)]
    assert (lines(position)[0][1], position.locks[0].locked_raw) == (SOL_MINT, 3)


def test_an_escrow_that_is_not_known_is_missing() -> None:
    [position] = read(offer())
    assert position.missing == [escrow(MINT, 0).address]
    [empty] = read(offer(), others=(escrow(MINT, 0),))
    assert empty.missing == []


@pytest.mark.parametrize("status", [2, 3])
def test_an_offer_that_is_filled_or_cancelled_is_none(status: int) -> None:
    assert read(offer(status=status)) == []


@pytest.mark.parametrize(
    ("own", "detail"),
    [
        (offer(status=4), "status 4 at 41"),
        (offer(2), "side 2 at 40"),
        (offer(asset=b"\5"), "asset 5 at 48"),
        (offer(asset=b"\0" + MINT), "an offer of nothing at 48"),
        (loan(WALLET, OTHER, status=3), "status 3 at 136"),
        (loan(WALLET, OTHER, collateral=b"\0"), "without principal or collateral"),
        (loan(WALLET, OTHER)._replace(data=bytes(807)), "807 bytes"),
    ],
)
def test_bytes_that_the_program_does_not_write_are_unreadable(own: Account, detail: str) -> None:
    with pytest.raises(Unreadable, match=detail) as error:
        read(own)
    assert error.value.account == own.address


FIRST, LAST = bytes(32), b"\xff" * 32  # of all addresses


@pytest.mark.parametrize(
    ("mint", "owner"),
    [(MINT, FIRST), (MINT, LAST), (FIRST, None), (LAST, None)],
    ids=["first user", "last user", "first mint", "last mint"],
)
def test_an_escrow_of_another_user_or_mint_is_unreadable(mint: bytes, owner: bytes | None) -> None:
    there = escrow(mint, 5, owner)._replace(address=escrow(MINT, 5).address)
    with pytest.raises(Unreadable, match="another user or mint") as error:
        read(offer(), others=(there,))
    assert error.value.account == there.address


def test_an_escrow_that_is_no_token_account_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="no token account"):
        read(offer(), others=(loan(WALLET, OTHER)._replace(address=escrow(MINT, 5).address),))


def test_the_slug() -> None:
    assert SLUGS["p05"] is offerbook.PROTOCOL


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


def written(
    coder: Path, name: str, fields: Callable[[int], dict[str, Any]]
) -> list[tuple[bytes, dict[str, Any]]]:
    """Return accounts of random values but for some, which a seed decides, and their fields.

    An asset of no variant is left out: the coder ends it with its tag.
    """
    idl = anchor.idl("p05-jupiter_offerbook.json")
    answers = anchor.asked(
        coder,
        [
            {"encode": name, "idl": idl, "seed": seed, "fields": fields(seed)}
            for seed in range(WORLDS)
        ],
    )
    return [(base64.b64decode(each["data"]), each["fields"]) for each in answers]


def loan_fields(seed: int) -> dict[str, Any]:
    side = "lender" if seed % 2 else "borrower"
    return {
        side: text(WALLET),
        "principal": "Token",
        "collateral": ("Token", *NFTS)[seed % 4],
    }


def offer_fields(seed: int) -> dict[str, Any]:
    kinds = ("Token", *NFTS)
    return {
        "creator": text(WALLET),
        "principal": kinds[seed % 4],
        "collateral": kinds[seed // 4 % 4],
    }


def asset_of(value: dict[str, Any]) -> tuple[str, bytes]:
    [(variant, fields)] = value.items()
    return variant, key(fields["0"]["asset" if variant == "CoreNft" else "mint"])


@pytest.mark.node
def test_loans_are_laid_out_as_in_the_idl(coder: Path) -> None:
    seen = 0
    for data, fields in written(coder, "Loan", loan_fields):
        assert len(data) == 808
        assert WALLET in offerbook.LOAN.found_by(data)
        found = read(Account(b"a" * 32, offerbook.LOAN, 1, data, 9))
        if "Active" not in fields["status"]:
            assert found == []
            continue
        seen += 1
        [position] = found
        _, mint = asset_of(fields["principal"])
        principal = int(fields["principal_amount"])
        unknown = [None] if int(fields["interest"]) else []
        if fields["lender"] == text(WALLET):
            expected = [
                (Role.LOCKED, mint, principal),
                *((Role.PENDING, mint, each) for each in unknown),
            ]
            end_ms = min(int(fields["expired_at"]) * 1000, 2**53 - 1)
            assert [(each.locked_raw, each.ends_ms) for each in position.locks] == [
                (principal, end_ms or None)
            ]
        else:
            variant, collateral = asset_of(fields["collateral"])
            amount = int(fields["collateral_amount"]) if variant == "Token" else 1
            expected = [
                (Role.SUPPLY, collateral, amount),
                (Role.BORROW, mint, principal),
                *((Role.BORROW, mint, each) for each in unknown),
            ]
        assert lines(position) == expected
        assert position.market == key(fields["offer"])
    assert seen > WORLDS // 5


@pytest.mark.node
def test_offers_are_laid_out_as_in_the_idl(coder: Path) -> None:
    seen = 0
    for data, fields in written(coder, "Offer", offer_fields):
        assert len(data) == 1224
        found = read(Account(b"a" * 32, offerbook.OFFER, 1, data, 9))
        if {"Fulfilled", "Cancelled"} & fields["status"].keys():
            assert found == []
            continue
        seen += 1
        [position] = found
        side = "principal" if "Principal" in fields["side"] else "collateral"
        variant, mint = asset_of(fields[side])
        remaining = int(fields[f"remaining_{side}"]) if variant == "Token" else 1
        assert lines(position) == [(Role.LOCKED, mint, 0)]
        end_ms = min(int(fields["expired_at"]) * 1000, 2**53 - 1)
        assert [(each.locked_raw, each.ends_ms) for each in position.locks] == [
            (remaining, end_ms or None)
        ]
        if variant == "Token":
            program = key(fields[side]["Token"]["0"]["token_program"])
            user = offerbook.user_of(WALLET)
            assert position.missing == [offerbook.escrow_of(user, mint, program)]
        else:
            assert position.missing == []
    assert seen > WORLDS // 4
