"""Amounts to show, against Token-2022 itself (`AmountToUiAmount`), as the chain runs it."""

from __future__ import annotations

import math
from random import Random
from struct import pack
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.clock import Clock
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction
from solders.transaction_metadata import SimulatedTransactionInfo

from schemas.solana.addresses import TOKEN_2022_PROGRAM
from schemas.solana.token_accounts import MintAccount, read_mint
from schemas.solana.token_extensions import Extension, TransferFee
from schemas.solana.ui_amounts import ui_amount

PROGRAM = Pubkey(TOKEN_2022_PROGRAM)
MINT = Pubkey(bytes([9]) * 32)


def mint_data(decimals: int, extension: int | None = None, value: bytes = b"") -> bytes:
    base = bytes(36) + pack("<QBB", 10**9, decimals, 1) + bytes(36)
    if extension is None:
        return base
    return base.ljust(165, b"\0") + b"\1" + pack("<HH", extension, len(value)) + value


def interest(rng: Random, time_s: int) -> bytes:
    begun = rng.randint(1_500_000_000, time_s)
    updated = rng.randint(begun, time_s)
    rates = (rng.randint(-3000, 3000) for _ in range(2))
    return bytes(32) + pack("<qhqh", begun, next(rates), updated, next(rates))


def scaled(rng: Random, time_s: int) -> bytes:
    multipliers = (rng.choice((0.1, 1.0, 5.0, 0.99, rng.random() * 100)) for _ in range(2))
    at = time_s + rng.randint(-100, 100)
    return bytes(32) + pack("<dqd", next(multipliers), at, next(multipliers))


class Svm:
    """The chain's programs; asks Token-2022 for the amount to show."""

    def __init__(self) -> None:
        self.vm = LiteSVM()
        self.payer = Keypair()
        self.vm.airdrop(self.payer.pubkey(), 10**12)

    def shown(self, data: bytes, amount_raw: int, time_s: int) -> str:
        """Return what the program says of an amount."""
        self.vm.set_clock(Clock(1, 0, 1, 2, time_s))
        self.vm.set_account(MINT, Account(10**10, data, PROGRAM))
        asked = Instruction(PROGRAM, pack("<BQ", 23, amount_raw), [AccountMeta(MINT, False, False)])
        message = Message([asked], self.payer.pubkey())
        transaction = Transaction([self.payer], message, self.vm.latest_blockhash())
        answer = self.vm.simulate_transaction(transaction)
        assert isinstance(answer, SimulatedTransactionInfo), answer
        meta: Any = answer.meta()  # the package's stubs leave `return_data` out
        return str(meta.return_data().data.decode())


def test_token_2022_says_the_same() -> None:
    rng = Random(22)
    svm = Svm()
    last_bit = 0
    for number in range(450):
        time_s = rng.randint(1_600_000_000, 1_900_000_000)
        amount_raw = rng.choice((0, 1, rng.randint(0, 10**6), rng.randint(0, 2**64 - 1)))
        decimals = rng.choice((0, 2, 6, 9))
        data = (
            mint_data(decimals),
            mint_data(decimals, Extension.INTEREST_BEARING_CONFIG, interest(rng, time_s)),
            mint_data(decimals, Extension.SCALED_UI_AMOUNT_CONFIG, scaled(rng, time_s)),
        )[number % 3]
        theirs = svm.shown(data, amount_raw, time_s)
        ours = ui_amount(read_mint(TOKEN_2022_PROGRAM, data), amount_raw, time_s)
        if number % 3 == 1 and ours != theirs:  # `exp` may differ in the last bit
            assert math.isclose(float(ours), float(theirs), rel_tol=4e-16), (ours, theirs)
            last_bit += 1
        else:
            assert ours == theirs
    print(f"{last_bit} of 150 interest-bearing amounts differ in the last bit")
    assert last_bit < 75


def test_what_is_no_number_is_none() -> None:
    endless = pack("<dqd", 1.7e308, 0, 1.7e308)
    mint = read_mint(
        TOKEN_2022_PROGRAM, mint_data(0, Extension.SCALED_UI_AMOUNT_CONFIG, bytes(32) + endless)
    )
    assert ui_amount(mint, 2**63, 1) is None
    growing = bytes(32) + pack("<qhqh", 0, 32767, 2**40, 32767)
    mint = read_mint(TOKEN_2022_PROGRAM, mint_data(0, Extension.INTEREST_BEARING_CONFIG, growing))
    assert ui_amount(mint, 1, 2**41) is None


@given(st.integers(0, 2**64 - 1), st.integers(0, 255))
def test_a_plain_amount_is_exact(amount_raw: int, decimals: int) -> None:
    shown = ui_amount(MintAccount(decimals, 0, None), amount_raw, 0)
    whole, _, part = shown.partition(".")
    assert int(whole + part.ljust(decimals, "0")) == amount_raw
    assert not part.endswith("0")


@given(st.integers(0, 2**64 - 1), st.integers(0, 10_000), st.integers(0, 2**64 - 1))
def test_a_transfer_fee_is_rounded_up_and_bounded(amount: int, bps: int, most: int) -> None:
    fee = TransferFee(0, most, bps).of(amount)
    assert fee == most or (fee <= most and 0 <= fee * 10_000 - amount * bps < 10_000)
