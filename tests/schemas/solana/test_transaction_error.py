"""The tables are checked against solders, which binds the validator's own types."""

from __future__ import annotations

from typing import Any

import pytest
from solders import transaction_status as solders

from schemas.solana import transaction_error


def _names(fieldless: type) -> list[str]:
    return [name for name in dir(fieldless) if not name.startswith("_")]


def _bincode(error: Any) -> bytes:
    status = solders.TransactionStatus(
        slot=1, confirmations=None, status=None, err=error, confirmation_status=None
    )
    # slot (8 bytes), no confirmations (1), Ok (4), err is there (1), err, no commitment (1)
    return bytes(status)[14:-1]


CASES: list[tuple[Any, Any]] = [
    *(
        (name, getattr(solders.TransactionErrorFieldless, name))
        for name in _names(solders.TransactionErrorFieldless)
    ),
    *(
        (
            {"InstructionError": [3, name]},
            solders.TransactionErrorInstructionError(
                3, getattr(solders.InstructionErrorFieldless, name)
            ),
        )
        for name in _names(solders.InstructionErrorFieldless)
    ),
    (
        {"InstructionError": [2, {"Custom": 6001}]},
        solders.TransactionErrorInstructionError(2, solders.InstructionErrorCustom(6001)),
    ),
    ({"DuplicateInstruction": 5}, solders.TransactionErrorDuplicateInstruction(5)),
    (
        {"InsufficientFundsForRent": {"account_index": 7}},
        solders.TransactionErrorInsufficientFundsForRent(7),
    ),
    (
        {"ProgramExecutionTemporarilyRestricted": {"account_index": 9}},
        solders.TransactionErrorProgramExecutionTemporarilyRestricted(9),
    ),
]


@pytest.mark.parametrize(("error_json", "error"), CASES, ids=[str(case[0]) for case in CASES])
def test_every_error_has_the_validators_bytes(error_json: Any, error: Any) -> None:
    wire = transaction_error.to_wire(error_json)
    assert wire == _bincode(error)
    assert transaction_error.to_json(wire) == error_json


def test_the_older_borsh_error_carries_its_text() -> None:
    error = {"InstructionError": [1, {"BorshIoError": "Unknown"}]}
    assert transaction_error.to_json(transaction_error.to_wire(error)) == error


@pytest.mark.parametrize(
    "error", ["NewestError", {"NewestError": [1]}, {"InstructionError": [1, "Newest"]}, {}, [1], 7]
)
def test_an_unknown_error_is_still_an_error(error: Any) -> None:
    wire = transaction_error.to_wire(error)
    assert wire
    assert transaction_error.to_json(wire) == error


@pytest.mark.parametrize(
    "wire", [b"", b"\x08", b"\x08\0\0\0", b"\xf0\0\0\0", b"\x08\0\0\0\x01\x19\0\0\0"]
)
def test_bytes_that_are_no_error_are_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match="not a transaction error"):
        transaction_error.to_json(wire)
