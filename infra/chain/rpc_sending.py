"""RPC methods by which a transaction is made, tried, sent and found."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

from infra.chain.history import History, SlotRecord
from infra.chain.rpc_params import (
    METHOD_NOT_FOUND,
    SEND_FAILED,
    SIGNATURE_FAILED,
    Config,
    Params,
    RpcError,
    at_least_confirmed,
    bytes_at,
    commitment_in,
    config_at,
    flag_in,
    invalid,
    list_at,
    number_in,
    pubkey_at,
    with_context,
)
from infra.chain.source import ChainTransaction, Source
from infra.chain.submission import Accepts, Refused, Simulated, Submission, Unreadable, parse
from schemas.proto.geyser_pb2 import (
    CONFIRMED,
    FINALIZED,
    CommitmentLevel,
    SubscribeUpdateTransactionInfo,
)
from schemas.solana import base58
from schemas.solana.rpc_json import transaction_to_json

MAX_BLOCKHASH_AGE: Final = 150
_MAX_SIGNATURES: Final = 256
_MAX_LISTED: Final = 1_000


class SendingMethods:
    """Methods about transactions that are sent here, by the names they are called with."""

    def __init__(self, history: History, source: Source) -> None:
        self._history = history
        self._source = source

    async def get_latest_blockhash(self, params: Params) -> dict[str, Any]:
        """Return the newest block's hash, and the height up to which it may be named."""
        record = self._tip(commitment_in(config_at(params, 0)))
        assert record.header is not None
        last = record.header.block_height + MAX_BLOCKHASH_AGE
        value = {"blockhash": record.header.blockhash, "lastValidBlockHeight": last}
        return with_context(record.slot, value)

    async def is_blockhash_valid(self, params: Params) -> dict[str, Any]:
        """Return whether a transaction that names a blockhash may still land."""
        wanted = base58.encode(bytes_at(params, 0, 32, "hash"))
        commitment = commitment_in(config_at(params, 1))
        tip = self._tip(commitment)
        assert tip.header is not None
        oldest = tip.header.block_height - MAX_BLOCKHASH_AGE
        is_valid = any(
            each.header is not None
            and each.header.blockhash == wanted
            and each.header.block_height >= oldest
            for each in self._history.newest_blocks(commitment, tip.slot)
        )
        return with_context(tip.slot, is_valid)

    async def simulate_transaction(self, params: Params) -> dict[str, Any]:
        """Return what a transaction would do now."""
        config = config_at(params, 1)
        accepts = self._accepts()
        submission = _submission(params, config)
        slot = self._tip(commitment_in(config)).slot
        if flag_in(config, "sigVerify", default=False) and not submission.is_signed:
            found = Simulated("SignatureFailure", (), 0)
        else:
            found = _simulated(accepts, submission)
        value = {
            "err": found.error,
            "logs": [*found.logs],
            "accounts": None,
            "unitsConsumed": found.units_consumed,
            "returnData": None,
        }
        return with_context(slot, value)

    async def send_transaction(self, params: Params) -> str:
        """Take a transaction, and return its signature."""
        config = config_at(params, 1)
        accepts = self._accepts()
        submission = _submission(params, config)
        if not submission.is_signed:
            raise RpcError(SIGNATURE_FAILED, "Transaction signature verification failure")
        if not flag_in(config, "skipPreflight", default=False):
            found = _simulated(accepts, submission)
            if found.error is not None and found.error != "AlreadyProcessed":
                raise RpcError(
                    SEND_FAILED,
                    f"Transaction simulation failed: {found.error}",
                    {"err": found.error, "logs": [*found.logs]},
                )
        try:
            accepts.submit(submission)
        except Refused as refusal:
            if refusal.error != "AlreadyProcessed":  # as a node: it was sent before
                raise RpcError(
                    SEND_FAILED, f"Transaction refused: {refusal}", {"err": refusal.error}
                ) from None
        return base58.encode(submission.signatures[0])

    async def get_signature_statuses(self, params: Params) -> dict[str, Any]:
        """Return where transactions are; null for what is in no block."""
        signatures = list_at(params, 0, "signatures")
        if len(signatures) > _MAX_SIGNATURES:
            raise invalid(f"at most {_MAX_SIGNATURES} signatures at once")
        tip = self._tip(CONFIRMED)
        value = [
            self._status(bytes_at(signatures, place, 64, "signature"), tip)
            for place in range(len(signatures))
        ]
        return with_context(tip.slot, value)

    async def get_signatures_for_address(self, params: Params) -> list[dict[str, Any]]:
        """Return the transactions that name an address, newest first."""
        address = pubkey_at(params, 0)
        config = config_at(params, 1)
        limit = number_in(config, "limit")
        limit = _MAX_LISTED if limit is None else limit
        if not 1 <= limit <= _MAX_LISTED:
            raise invalid(f"limit {limit} is not from 1 to {_MAX_LISTED}")
        before, until = (
            bytes_at([config[name]], 0, 64, "signature") if config.get(name) is not None else None
            for name in ("before", "until")
        )
        commitment = at_least_confirmed(config)
        listed: list[dict[str, Any]] = []
        is_after = before is None
        for record in self._history.newest_blocks(commitment, self._tip(commitment).slot):
            for transaction in reversed(record.transactions):
                if transaction.signature == until:
                    return listed
                if is_after and address in transaction.accounts:
                    listed.append(_listed(record, transaction))
                    if len(listed) == limit:
                        return listed
                is_after = is_after or transaction.signature == before
        return listed

    def _status(self, signature: bytes, tip: SlotRecord) -> dict[str, Any] | None:
        found = self._history.transaction(signature, CONFIRMED)
        if found is None:
            return None
        record, transaction = found
        is_final = record.commitment == FINALIZED
        error = _error(transaction)
        return {
            "slot": record.slot,
            "confirmations": None if is_final else tip.slot - record.slot,
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "confirmationStatus": "finalized" if is_final else "confirmed",
        }

    def _tip(self, commitment: CommitmentLevel) -> SlotRecord:
        tip = self._history.tip(commitment)
        if tip is None:
            raise RpcError(SEND_FAILED, "There is no block of this commitment yet")
        return tip

    def _accepts(self) -> Accepts:
        if not isinstance(self._source, Accepts):
            raise RpcError(METHOD_NOT_FOUND, "A recorded chain takes no transactions")
        return self._source


def _simulated(accepts: Accepts, submission: Submission) -> Simulated:
    try:
        return accepts.simulate(submission)
    except Unreadable as error:
        raise invalid(str(error)) from None


def _submission(params: Params, config: Config) -> Submission:
    """Return the transaction of a call; base58 is the encoding where none is named."""
    value = params[0] if params else None
    if not isinstance(value, str):
        raise invalid("a transaction is expected.")
    encoding = config.get("encoding", "base58")
    if encoding not in ("base58", "base64"):
        raise invalid(f"encoding {encoding!r} is not base58 or base64")
    try:
        wire = b64decode(value, validate=True) if encoding == "base64" else base58.decode(value)
        return parse(wire)
    except (NotBase64, ValueError) as error:
        raise invalid(str(error)) from None


def _listed(record: SlotRecord, transaction: ChainTransaction) -> dict[str, Any]:
    assert record.header is not None
    return {
        "signature": base58.encode(transaction.signature),
        "slot": record.slot,
        "err": _error(transaction),
        "memo": None,
        "blockTime": record.header.block_time,
        "confirmationStatus": "finalized" if record.commitment == FINALIZED else "confirmed",
    }


def _error(transaction: ChainTransaction) -> Any:
    """Return a failed transaction's error as JSON-RPC writes it."""
    if not transaction.failed:
        return None
    info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
    return transaction_to_json(info, "json")["meta"]["err"]
