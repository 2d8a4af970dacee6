"""A failed transaction's error: bincode on the wire (`TransactionError.err`), JSON in RPC.

Variant orders are those of the solana-transaction-error and solana-instruction-error crates.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

_TRANSACTION_ERRORS: Final = (
    "AccountInUse",
    "AccountLoadedTwice",
    "AccountNotFound",
    "ProgramAccountNotFound",
    "InsufficientFundsForFee",
    "InvalidAccountForFee",
    "AlreadyProcessed",
    "BlockhashNotFound",
    "InstructionError",
    "CallChainTooDeep",
    "MissingSignatureForFee",
    "InvalidAccountIndex",
    "SignatureFailure",
    "InvalidProgramForExecution",
    "SanitizeFailure",
    "ClusterMaintenance",
    "AccountBorrowOutstanding",
    "WouldExceedMaxBlockCostLimit",
    "UnsupportedVersion",
    "InvalidWritableAccount",
    "WouldExceedMaxAccountCostLimit",
    "WouldExceedAccountDataBlockLimit",
    "TooManyAccountLocks",
    "AddressLookupTableNotFound",
    "InvalidAddressLookupTableOwner",
    "InvalidAddressLookupTableData",
    "InvalidAddressLookupTableIndex",
    "InvalidRentPayingAccount",
    "WouldExceedMaxVoteCostLimit",
    "WouldExceedAccountDataTotalLimit",
    "DuplicateInstruction",
    "InsufficientFundsForRent",
    "MaxLoadedAccountsDataSizeExceeded",
    "InvalidLoadedAccountsDataSizeLimit",
    "ResanitizationNeeded",
    "ProgramExecutionTemporarilyRestricted",
    "UnbalancedTransaction",
    "ProgramCacheHitMaxLimit",
    "CommitCancelled",
)
_INSTRUCTION_ERRORS: Final = (
    "GenericError",
    "InvalidArgument",
    "InvalidInstructionData",
    "InvalidAccountData",
    "AccountDataTooSmall",
    "InsufficientFunds",
    "IncorrectProgramId",
    "MissingRequiredSignature",
    "AccountAlreadyInitialized",
    "UninitializedAccount",
    "UnbalancedInstruction",
    "ModifiedProgramId",
    "ExternalAccountLamportSpend",
    "ExternalAccountDataModified",
    "ReadonlyLamportChange",
    "ReadonlyDataModified",
    "DuplicateAccountIndex",
    "ExecutableModified",
    "RentEpochModified",
    "NotEnoughAccountKeys",
    "AccountDataSizeChanged",
    "AccountNotExecutable",
    "AccountBorrowFailed",
    "AccountBorrowOutstanding",
    "DuplicateAccountOutOfSync",
    "Custom",
    "InvalidError",
    "ExecutableDataModified",
    "ExecutableLamportChange",
    "ExecutableAccountNotRentExempt",
    "UnsupportedProgramId",
    "CallDepth",
    "MissingAccount",
    "ReentrancyNotAllowed",
    "MaxSeedLengthExceeded",
    "InvalidSeeds",
    "InvalidRealloc",
    "ComputationalBudgetExceeded",
    "PrivilegeEscalation",
    "ProgramEnvironmentSetupFailure",
    "ProgramFailedToComplete",
    "ProgramFailedToCompile",
    "Immutable",
    "IncorrectAuthority",
    "BorshIoError",
    "AccountNotRentExempt",
    "InvalidAccountOwner",
    "ArithmeticOverflow",
    "UnsupportedSysvar",
    "IllegalOwner",
    "MaxAccountsDataAllocationsExceeded",
    "MaxAccountsExceeded",
    "MaxInstructionTraceLengthExceeded",
    "BuiltinProgramsMustConsumeComputeUnits",
)
_TRANSACTION_TAGS: Final = {name: tag for tag, name in enumerate(_TRANSACTION_ERRORS)}
_INSTRUCTION_TAGS: Final = {name: tag for tag, name in enumerate(_INSTRUCTION_ERRORS)}
_INSTRUCTION_ERROR: Final = _TRANSACTION_TAGS["InstructionError"]
_DUPLICATE_INSTRUCTION: Final = _TRANSACTION_TAGS["DuplicateInstruction"]
_WITH_ACCOUNT: Final = (
    _TRANSACTION_TAGS["InsufficientFundsForRent"],
    _TRANSACTION_TAGS["ProgramExecutionTemporarilyRestricted"],
)
_CUSTOM: Final = _INSTRUCTION_TAGS["Custom"]
_BORSH_IO_ERROR: Final = _INSTRUCTION_TAGS["BorshIoError"]

# An error this table does not know (a newer validator's) is carried as JSON behind this tag,
# which no variant can have: that the transaction failed must not be lost with the reason.
_UNKNOWN_TAG: Final = b"\xff\xff\xff\xff"


def to_wire(error: Any) -> bytes:
    """Return the bincode bytes of RPC's `err` value (not None)."""
    try:
        return _encode(error)
    except (AttributeError, KeyError, TypeError, ValueError, struct.error):
        return _UNKNOWN_TAG + json.dumps(error).encode()


def to_json(wire: bytes) -> Any:
    """Return RPC's `err` value for the wire's bytes; raises ValueError on unknown bytes."""
    if wire.startswith(_UNKNOWN_TAG):
        return json.loads(wire[len(_UNKNOWN_TAG) :])
    try:
        return _decode(wire)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise ValueError(f"not a transaction error: {wire.hex()}") from None


def _encode(error: Any) -> bytes:
    if isinstance(error, str):
        return struct.pack("<I", _TRANSACTION_TAGS[error])
    ((name, value),) = error.items()
    tag = _TRANSACTION_TAGS[name]
    if tag == _INSTRUCTION_ERROR:
        index, instruction_error = value
        return struct.pack("<IB", tag, index) + _encode_instruction_error(instruction_error)
    if tag == _DUPLICATE_INSTRUCTION:
        return struct.pack("<IB", tag, value)
    if tag in _WITH_ACCOUNT:
        return struct.pack("<IB", tag, value["account_index"])
    raise ValueError(name)


def _encode_instruction_error(error: Any) -> bytes:
    if isinstance(error, str):
        return struct.pack("<I", _INSTRUCTION_TAGS[error])
    ((name, value),) = error.items()
    tag = _INSTRUCTION_TAGS[name]
    if tag == _CUSTOM:
        return struct.pack("<II", tag, value)
    if tag == _BORSH_IO_ERROR:
        text = str(value).encode()
        return struct.pack("<IQ", tag, len(text)) + text
    raise ValueError(name)


def _decode(wire: bytes) -> Any:
    (tag,) = struct.unpack_from("<I", wire)
    name = _TRANSACTION_ERRORS[tag]
    if tag == _INSTRUCTION_ERROR:
        return {name: [wire[4], _decode_instruction_error(wire[5:])]}
    if tag == _DUPLICATE_INSTRUCTION:
        return {name: wire[4]}
    if tag in _WITH_ACCOUNT:
        return {name: {"account_index": wire[4]}}
    return name


def _decode_instruction_error(wire: bytes) -> Any:
    (tag,) = struct.unpack_from("<I", wire)
    name = _INSTRUCTION_ERRORS[tag]
    if tag == _CUSTOM:
        return {name: struct.unpack_from("<I", wire, 4)[0]}
    if tag == _BORSH_IO_ERROR and len(wire) > 4:  # newer validators send it without a text
        (length,) = struct.unpack_from("<Q", wire, 4)
        return {name: wire[12 : 12 + length].decode()}
    return name
