"""What an account held when it was opened, and which differences are reported."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders import boop
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder

CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
SWAP = bytes.fromhex("8fbe5adac41e33de")
RENT, WRAPPED, SPENT = 2_039_280, 900_000, 650_000


@pytest.mark.parametrize("seed", [None, "", "a seed of the trader's"])
@pytest.mark.parametrize("missing", [0, 1])
def test_sol_wrapped_as_the_account_is_opened(missing: int, seed: str | None) -> None:
    """CreateAccount, or CreateAccountWithSeed, with more than the rent: the rest is tokens."""
    tx = builder.TransactionBuilder("trader")
    tx.token("sol", WSOL, "trader")
    tx.token("user", "token", "trader", 5)
    tx.token("vault sol", WSOL, "auth", 10**9)
    tx.token("vault", "token", "auth", 10**9)
    amounts = pack("<QQ", RENT + WRAPPED, 165) + key(builder.TOKEN)
    if seed is None:
        data = pack("<I", 0) + amounts
    else:
        data = pack("<I", 3) + bytes(32) + pack("<Q", len(seed)) + seed.encode() + amounts
    tx.call(builder.SYSTEM, "trader sol", data)
    tx.gain("trader", -RENT - WRAPPED)
    tx.gain("sol", RENT + WRAPPED - SPENT - 10**12)  # the builder's accounts begin with 10**12
    accounts = "trader auth x pool sol user"
    swap = tx.call(CPMM, [*accounts.split(), "vault sol", "vault", *["x"] * 5], SWAP + bytes(16))
    tx.transfer(swap, "sol", "vault sol", "trader", SPENT)
    tx.transfer(swap, "vault", "user", "auth", 70)
    tx.tokens[builder.address("sol")].post_raw = WRAPPED - SPENT - missing
    info = tx.info()
    sol = [*map(bytes, info.transaction.message.account_keys)].index(key(builder.address("sol")))
    info.meta.post_balances[sol] -= missing
    transaction = Transaction(info, 1, 2, PROGRAMS)
    found = differences(transaction, list(read(transaction, [])))
    # A lamport that went missing lowers tokens and lamports alike: the reserve is the same.
    assert [(item.expected_raw, item.actual_raw) for item in found] == [
        (WRAPPED - SPENT, WRAPPED - SPENT - missing)
    ] * missing


@pytest.mark.parametrize("missing", ["pre_balances", "post_balances"])
def test_an_account_without_recorded_lamports_is_not_compared(missing: str) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "token", "authority", 100)
    tx.token("user", "token", "trader")
    call = tx.call(boop.PROGRAM, "token curve fees vault sol user trader x x", boop.BUY_TOKEN)
    tx.transfer(call, "vault", "user", "authority", 70)
    tx.send(call, "trader", "sol", SPENT)
    tx.gain("sol", 1)  # a difference that nothing explains
    info = tx.info()
    transaction = Transaction(info, 1, 2, PROGRAMS)
    (found,) = differences(transaction, list(read(transaction, [])))
    assert (found.mint, found.expected_raw, found.actual_raw) == (WSOL, SPENT, SPENT + 1)
    info.meta.ClearField(missing)
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []
