"""What JSON-RPC methods share: parameters as a validator reads them, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED, CommitmentLevel
from schemas.solana import base58

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
BLOCK_CLEANED_UP: Final = -32001
SEND_FAILED: Final = -32002
SIGNATURE_FAILED: Final = -32003
BLOCK_NOT_AVAILABLE: Final = -32004
SLOT_SKIPPED: Final = -32007
KEY_EXCLUDED: Final = -32010
UNSUPPORTED_TRANSACTION_VERSION: Final = -32015
MIN_CONTEXT_SLOT_NOT_REACHED: Final = -32016
SLOT_NOT_EPOCH_BOUNDARY: Final = -32018

VERSION: Final = {"solana-core": "3.0.0", "feature-set": 0}

_COMMITMENTS: Final = {"processed": PROCESSED, "confirmed": CONFIRMED, "finalized": FINALIZED}
_MAX_PUBKEY_CHARACTERS: Final = 44

Params = list[Any]
Config = Mapping[str, Any]


class RpcError(Exception):
    """A JSON-RPC error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """Return the error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


def refused(message: str) -> RpcError:
    """Return the error of a parameter that a validator could read, and refuses."""
    return RpcError(INVALID_PARAMS, message)


def invalid(message: str) -> RpcError:
    """Return the error of parameters that a validator cannot read."""
    return RpcError(INVALID_PARAMS, f"Invalid params: {message}")


def block_not_available(slot: int) -> RpcError:
    """Return the error of a slot that is not final or confirmed yet."""
    return RpcError(BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")


def block_cleaned_up(slot: int, first: int) -> RpcError:
    """Return the error of a slot below the first available one."""
    return RpcError(
        BLOCK_CLEANED_UP,
        f"Block {slot} cleaned up, does not exist on node. First available block: {first}",
    )


def with_context(slot: int, value: Any) -> dict[str, Any]:
    """Return an answer that says at the end of which slot it is so."""
    return {"context": context(slot), "value": value}


def context(slot: int) -> dict[str, Any]:
    """Return what says at the end of which slot an answer is so."""
    return {"slot": slot, "apiVersion": VERSION["solana-core"]}


def is_text(params: Params, index: int) -> bool:
    """Return True if there is such a parameter, and it is a text."""
    return len(params) > index and isinstance(params[index], str)


def is_u64(value: Any) -> bool:
    """Return True for a whole number that 64 bits hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def config_at(params: Params, index: int) -> Config:
    """Return the configuration object, which may be left out."""
    config = params[index] if len(params) > index else None
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise invalid("the configuration is an object.")
    return config


def slot_at(params: Params, index: int) -> int:
    """Return a slot number."""
    value = params[index] if len(params) > index else None
    if not is_u64(value):
        raise invalid("a slot number is expected.")
    assert isinstance(value, int)
    return value


def number_in(config: Config, field: str) -> int | None:
    """Return a whole number of a configuration, or None where it is left out."""
    value = config.get(field)
    if value is not None and not is_u64(value):
        raise invalid(f"{field} {value!r} is not a whole number from 0 to 2^64 - 1")
    return value


def flag_in(config: Config, field: str, default: bool) -> bool:
    """Return a boolean of a configuration."""
    value = config.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(f"{field} {value!r} is not true or false")
    return value


def list_at(params: Params, index: int, what: str) -> list[Any]:
    """Return a list."""
    value = params[index] if len(params) > index else None
    if not isinstance(value, list):
        raise invalid(f"a list of {what} is expected.")
    return value


def bytes_at(params: Params, index: int, length: int, what: str) -> bytes:
    """Return so many bytes that are given in base58."""
    value = params[index] if len(params) > index else None
    if not isinstance(value, str):
        raise invalid(f"a {what} in base58 is expected.")
    try:
        data = base58.decode(value)
    except ValueError:
        raise invalid(f"Invalid {what}: {value[:100]}") from None
    if len(data) != length:
        raise invalid(f"Invalid {what}: {len(data)} bytes, {length} are expected")
    return data


def pubkey_at(params: Params, index: int) -> bytes:
    """Return a pubkey."""
    return pubkey(params[index] if len(params) > index else None)


def pubkey(value: Any) -> bytes:
    """Return the bytes of a pubkey, refused in a validator's words."""
    if not isinstance(value, str):
        raise invalid("a pubkey in base58 is expected.")
    if len(value) > _MAX_PUBKEY_CHARACTERS:
        raise refused("Invalid param: WrongSize")
    try:
        data = base58.decode(value)
    except ValueError:
        raise refused("Invalid param: Invalid") from None
    if len(data) != 32:
        raise refused("Invalid param: WrongSize")
    return data


def commitment_in(config: Config) -> CommitmentLevel:
    """Return the commitment of a configuration; finalized where it is left out."""
    name = config.get("commitment")
    if name is None:
        return FINALIZED
    commitment = _COMMITMENTS.get(name) if isinstance(name, str) else None
    if commitment is None:
        raise invalid(f"commitment {name!r} is not one of {', '.join(_COMMITMENTS)}")
    return commitment


def at_least_confirmed(config: Config) -> CommitmentLevel:
    """Return the commitment of a configuration, which must not be processed."""
    commitment = commitment_in(config)
    if commitment == PROCESSED:
        raise refused("Method does not support commitment below `confirmed`")
    return commitment


def require_min_context_slot(config: Config, slot: int) -> None:
    """Refuse to answer from before the slot that the caller has seen."""
    wanted = number_in(config, "minContextSlot")
    if wanted is not None and slot < wanted:
        raise RpcError(
            MIN_CONTEXT_SLOT_NOT_REACHED,
            "Minimum context slot has not been reached",
            {"contextSlot": slot},
        )
