"""A token balance written by hand is the message that protobuf writes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.chain.market.runtime.execution import Execution, Intent
from infra.chain.market.runtime.ledger import Ledger, Mint, TokenAccount
from infra.chain.market.runtime.programs import TOKEN, TOKEN_2022, derived
from infra.chain.market.runtime.token_balances import token_balances, ui_amount
from schemas.proto.solana_storage_pb2 import TransactionStatusMeta

amounts = st.integers(0, 2**64 - 1)


@given(amounts, amounts, st.integers(0, 18), st.integers(0, 255), st.booleans())
@example(0, 0, 0, 0, True)  # nothing but texts
@example(0, 1, 9, 127, False)
@example(1, 0, 6, 128, False)
def test_balances_are_protobufs(
    before: int, after: int, decimals: int, place: int, legacy: bool
) -> None:
    ledger = Ledger()
    mint = Mint(derived("mint"), decimals, 0, TOKEN if legacy else TOKEN_2022)
    account = TokenAccount(derived("account"), mint, derived("owner"), 0)
    ledger.tokens[account.address] = account
    tx = Execution(ledger, Intent(1, derived("payer"), [], bytes(32)), 1, 1)
    account.amount_raw = before
    tx.note_token(account)
    account.amount_raw = after
    keys = [derived("key", number) for number in range(256)]
    keys[place] = account.address

    meta = TransactionStatusMeta()
    for balance, amount_raw in (
        (meta.pre_token_balances.add(), before),
        (meta.post_token_balances.add(), after),
    ):
        balance.account_index = place
        balance.mint, balance.owner = mint.text, account.owner_text
        balance.program_id = mint.program.name
        balance.ui_token_amount.ui_amount = float(amount_raw) / float(mint.unit)
        balance.ui_token_amount.decimals = decimals
        balance.ui_token_amount.amount = str(amount_raw)
        balance.ui_token_amount.ui_amount_string = ui_amount(amount_raw, decimals)
    for _ in range(2):  # made, then remembered
        assert token_balances(tx, keys) == meta.SerializeToString()


@pytest.mark.parametrize("exists", ["before", "after"])
def test_an_account_that_opens_or_closes_has_one_balance(exists: str) -> None:
    ledger = Ledger()
    mint = Mint(derived("mint"), 6, 0)
    account = TokenAccount(derived("account"), mint, derived("owner"), 0)
    tx = Execution(ledger, Intent(1, derived("payer"), [], bytes(32)), 1, 1)
    if exists == "before":
        tx.note_token(account)
    else:
        tx.changes.tokens[account.address] = None
        ledger.tokens[account.address] = account
    meta = TransactionStatusMeta.FromString(token_balances(tx, [account.address]))
    counts = len(meta.pre_token_balances), len(meta.post_token_balances)
    assert counts == ((1, 0) if exists == "before" else (0, 1))
