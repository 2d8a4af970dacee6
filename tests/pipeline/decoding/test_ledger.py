"""What instructions moved, in order."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoding.contract import Malformed
from pipeline.decoding.flows import Flow
from pipeline.decoding.ledger import Entry, lamports_for_account, ledger
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from tests.support.decoding import builder
from tests.support.decoding.builder import address

RENT_OF_NOTHING, RENT_OF_TOKENS = 890_880, 2_039_280  # of 0 and 165 bytes


def read(tx: builder.TransactionBuilder, *empty: str) -> list[Entry]:
    """Read a transaction before which `empty` accounts had nothing."""
    info = tx.info()
    for name in empty:
        info.meta.pre_balances[tx.keys.index(address(name))] = 0
    return ledger(Transaction(info, 1, 2, PROGRAMS))


def opening(lamports: int, seed: bytes | None = None) -> bytes:
    head = pack("<I", 0)
    if seed is not None:
        head = pack("<I", 3) + bytes(32) + pack("<Q", len(seed)) + seed
    return head + pack("<QQ", lamports, 165) + bytes(32)


@pytest.mark.parametrize("seed", [None, b"", b"a seed"])
def test_an_account_that_is_opened_takes_rent(seed: bytes | None) -> None:
    tx = builder.TransactionBuilder("payer")
    tx.call(builder.SYSTEM, "payer opened", opening(7_000_000, seed))
    (entry,) = read(tx, "opened")
    assert entry == Entry(
        [],
        [
            Flow(0, address("payer"), WSOL, -7_000_000),
            Flow(tx.keys.index(address("opened")), address("opened"), WSOL, 7_000_000),
        ],
    )


def test_a_closed_account_gives_all_that_it_got() -> None:
    """Rent, what was wrapped, less what was paid: in the order of execution."""
    tx = builder.TransactionBuilder("trader")
    tx.token("wrapped", WSOL, "trader")
    tx.token("vault", WSOL, "pool", 10**9)
    tx.call(builder.SYSTEM, "trader wrapped", opening(RENT_OF_TOKENS + 500))
    tx.transfer(None, "wrapped", "vault", "trader", 300)
    tx.call(builder.TOKEN, "wrapped heir trader", b"\x09")
    closing = read(tx, "wrapped")[2]
    assert closing.moved == []
    assert [(flow.owner, flow.amount_raw) for flow in closing.rent] == [
        (address("trader"), -RENT_OF_TOKENS - 200),
        (address("heir"), RENT_OF_TOKENS + 200),
    ]


@pytest.mark.parametrize(
    ("lamports", "held", "is_rent"),
    [
        (RENT_OF_NOTHING, False, True),
        (RENT_OF_TOKENS, False, True),
        (RENT_OF_TOKENS + 1, False, False),
        (RENT_OF_TOKENS, True, False),
        (6_960, False, False),
    ],
)
def test_a_transfer_may_be_rent(lamports: int, held: bool, is_rent: bool) -> None:
    """Of exactly what an account of some size needs, to one that had nothing."""
    tx = builder.TransactionBuilder("payer")
    tx.send(None, "payer", "other", lamports)
    (entry,) = read(tx, *() if held else ("other",))
    assert (bool(entry.rent), bool(entry.moved)) == (is_rent, not is_rent)


def test_what_does_not_fit_moved_nothing() -> None:
    tx = builder.TransactionBuilder("payer")
    for program in (builder.SYSTEM, builder.TOKEN):
        for tag in (
            b"\x00\x00\x00\x00",
            b"\x02\x00\x00\x00",
            b"\x03\x00\x00\x00",
            b"\x03",
            b"\x09",
        ):
            tx.call(program, [], tag)
            tx.call(program, [], tag + b"\xff" * 48)
    assert read(tx) == [Entry([], [])] * 20


def test_a_seed_that_is_longer_than_its_instruction_is_malformed() -> None:
    with pytest.raises(Malformed, match="a seed of 18446744073709551615 bytes"):
        lamports_for_account(pack("<I", 3) + bytes(32) + b"\xff" * 24)
