"""Token balances before and after a transaction, as its metadata carries them.

An account keeps the bytes of its last balance, which is nearly always what the next transaction
starts from.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.fields import Leads, Numbers
from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.ledger import TokenAccount

# TransactionStatusMeta
_PRE, _POST = Leads(7), Leads(8)
# TokenBalance
_ACCOUNT_INDEX, _MINT, _UI_AMOUNT, _OWNER, _PROGRAM = (
    Numbers(1),
    Leads(2),
    Leads(3),
    Leads(4),
    Leads(5),
)
# UiTokenAmount
_DOUBLE: Final = Struct("<cd").pack
_DECIMALS, _AMOUNT, _AMOUNT_TEXT = Numbers(2), Leads(3), Leads(4)


def ui_amount(amount_raw: int, decimals: int) -> str:
    """Return the decimal text the RPC gives: no trailing zeros."""
    if not decimals:
        return str(amount_raw)
    text = str(amount_raw).rjust(decimals + 1, "0")
    return f"{text[:-decimals]}.{text[-decimals:]}".rstrip("0").rstrip(".")


def token_balances(tx: Execution, keys: list[bytes]) -> bytes:
    """Return the fields of the balances before the transaction, then of those after."""
    noted = tx.changes.tokens
    pre: list[bytes] = []
    post: list[bytes] = []
    accounts = map(tx.ledger.tokens.get, keys)
    for number, (address, account) in enumerate(zip(keys, accounts, strict=True)):
        if address in noted:
            if (before := noted[address]) is not None:
                index, balance = _ACCOUNT_INDEX[number], _balance(*before)
                pre += (_PRE[len(index) + len(balance)], index, balance)
            if account is not None:
                index, balance = _ACCOUNT_INDEX[number], _balance(account, account.amount_raw)
                post += (_POST[len(index) + len(balance)], index, balance)
        elif account is not None:
            index, balance = _ACCOUNT_INDEX[number], _balance(account, account.amount_raw)
            size = len(index) + len(balance)
            pre += (_PRE[size], index, balance)
            post += (_POST[size], index, balance)
    return b"".join(pre + post)


def _balance(account: TokenAccount, amount_raw: int) -> bytes:
    """Return a TokenBalance without its first field, the account's place."""
    encoded_raw, encoded = account.encoded
    if encoded_raw != amount_raw:
        encoded = _encoded(account, amount_raw)
        account.encoded = amount_raw, encoded
    return encoded


def _encoded(account: TokenAccount, amount_raw: int) -> bytes:
    mint = account.mint
    exact = b"%d" % amount_raw
    shown = ui_amount(amount_raw, mint.decimals).encode()
    amount = b"".join(
        (
            # Rounded twice, as validators do.
            _DOUBLE(b"\x09", float(amount_raw) / float(mint.unit)) if amount_raw else b"",
            _DECIMALS[mint.decimals],
            _AMOUNT[len(exact)],
            exact,
            _AMOUNT_TEXT[len(shown)],
            shown,
        )
    )
    text, program = mint.text.encode(), mint.program.name.encode()
    owner = account.owner_text.encode()
    return b"".join(
        (
            _MINT[len(text)],
            text,
            _UI_AMOUNT[len(amount)],
            amount,
            _OWNER[len(owner)],
            owner,
            _PROGRAM[len(program)],
            program,
        )
    )
