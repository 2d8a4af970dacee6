"""What a transaction of the seller's account paid."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from api.pay.bookkeeping import Unreadable, arrival

SELLER, PAYER, OTHER = (str(Pubkey(bytes([number]) * 32)) for number in (1, 2, 3))
SIGNER = Keypair.from_seed(bytes(32))
SIGNATURE = "the signature"


def transaction(*names: str) -> VersionedTransaction:
    accounts = [AccountMeta(Pubkey.from_string(name), False, True) for name in names]
    step = Instruction(Pubkey(bytes([9]) * 32), b"", accounts)
    message = MessageV0.try_compile(SIGNER.pubkey(), [step], [], Hash.default())
    return VersionedTransaction(message, [SIGNER])


def answer(changes: dict[str, tuple[int | None, int | None]], err: Any = None) -> dict[str, Any]:
    """A node's answer: of each account what it had before and after, None where it was not."""
    made = transaction(*changes)
    keys = [str(each) for each in made.message.account_keys]

    def balances(at: int) -> list[dict[str, Any]]:
        return [
            {
                "accountIndex": keys.index(name),
                "owner": f"owner of {name}",
                "uiTokenAmount": {"amount": str(amounts[at])},
            }
            for name, amounts in changes.items()
            if amounts[at] is not None
        ]

    return {
        "slot": 7,
        "blockTime": 1_700_000_000,
        "transaction": [b64encode(bytes(made)).decode(), "base64"],
        "meta": {
            "err": err,
            "preTokenBalances": balances(0),
            "postTokenBalances": balances(1),
            "loadedAddresses": {"writable": [], "readonly": []},
        },
    }


def test_what_arrived_comes_from_the_wallet_that_lost_as_much() -> None:
    found = arrival(answer({PAYER: (1_000, 600), SELLER: (0, 400)}), SIGNATURE, SELLER)
    assert found is not None
    message = bytes(to_bytes_versioned(transaction(PAYER, SELLER).message))
    assert found.id == sha256(message).hexdigest()
    assert (found.amount_raw, found.payer) == (400, f"owner of {PAYER}")
    assert (found.slot, found.block_time_s, found.signature) == (7, 1_700_000_000, SIGNATURE)


def test_an_account_that_is_new_had_nothing() -> None:
    found = arrival(answer({PAYER: (400, None), SELLER: (None, 400)}), SIGNATURE, SELLER)
    assert found is not None
    assert found.amount_raw == 400


@pytest.mark.parametrize(
    "changes",
    [
        {PAYER: (1_000, 1_400), SELLER: (900, 500)},  # it left
        {PAYER: (1_000, 1_000), SELLER: (900, 900)},  # it was looked at
        {PAYER: (1_000, 600), OTHER: (0, 400)},  # it is another's
    ],
)
def test_what_brought_nothing_is_none(changes: dict[str, tuple[int, int]]) -> None:
    assert arrival(answer(changes), SIGNATURE, SELLER) is None


def test_what_failed_is_none() -> None:
    found = answer({PAYER: (1_000, 600), SELLER: (0, 400)}, err={"InstructionError": [0, "x"]})
    assert arrival(found, SIGNATURE, SELLER) is None


def test_of_several_payers_none_is_named() -> None:
    changes = {PAYER: (1_000, 600), OTHER: (800, 400), SELLER: (0, 400)}
    found = arrival(answer(changes), SIGNATURE, SELLER)
    assert found is not None
    assert (found.amount_raw, found.payer) == (400, "")


@pytest.mark.parametrize("found", [{}, {"meta": {}}, [], "x", {"meta": None, "transaction": ["%"]}])
def test_what_cannot_be_read_says_why(found: Any) -> None:
    with pytest.raises(Unreadable, match=r"it cannot be read: .*Error"):
        arrival(found, SIGNATURE, SELLER)
