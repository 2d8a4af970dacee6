"""From an executed transaction to the bytes a Yellowstone server sends.

Account order, header, lookup tables and metadata follow the runtime's own rules: signers first,
writable before read-only, each group by address; loaded accounts after the static ones.

Messages are joined by hand (`fields`), as building them one by one costs more than all the rest;
protobuf writes lamports and log lines, many values of one field each. Fields ascend by number, so
the result is what protobuf gives for the whole message.
"""

from __future__ import annotations

from itertools import compress, repeat
from typing import Final

from infra.chain.fields import Keys, Leads, Numbers, varint
from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.token_balances import token_balances
from infra.chain.source import AccountWrite, ChainTransaction
from infra.chain.submission import Submission
from schemas.proto import solana_storage_pb2

LOG_LIMIT_BYTES: Final = 10_000
_INSTRUCTION_ERROR: Final = b"\x08\x00\x00\x00"
_CUSTOM: Final = b"\x19\x00\x00\x00"

# SubscribeUpdateTransactionInfo
_SIGNATURE: Final = b"\x0a\x40"
_IS_VOTE: Final = b"\x10\x01"
_TRANSACTION, _META, _INDEX = Leads(3), Leads(4), Numbers(5)
# Transaction
_MESSAGE: Final = Leads(2)
# Message
_HEADER, _ACCOUNT_KEYS, _BLOCKHASH, _OUTER = Leads(1), Keys(2), b"\x1a\x20", Leads(4)
_VERSIONED: Final = b"\x28\x01"
_LOOKUP: Final = Leads(6)
_SIGNERS, _READONLY = Numbers(1), Numbers(3)
_TABLE, _TABLE_WRITABLE, _TABLE_READONLY = b"\x0a\x20", Leads(2), Leads(3)
# CompiledInstruction, InnerInstruction and the group of these
_PROGRAM, _ACCOUNTS, _DATA, _STACK_HEIGHT = Numbers(1), Leads(2), Leads(3), Numbers(4)
_GROUP_INDEX, _INNER = Numbers(1), Leads(2)
# TransactionStatusMeta
_GROUP, _LOADED_WRITABLE, _LOADED_READONLY = Leads(5), Keys(12), Keys(13)
_NOTHING_RETURNED: Final = b"\x78\x01"
_UNITS: Final = b"\x80\x01"


class LookupTable:
    """An address lookup table: accounts that versioned transactions name by one byte."""

    def __init__(self, address: bytes, entries: list[bytes]) -> None:
        assert len(entries) <= 256, "a lookup table holds 256 addresses"
        self.address = address
        self.index = {entry: place for place, entry in enumerate(entries)}


def truncated(logs: list[str]) -> list[str]:
    """Cut log lines where the runtime does: what does not fit in 10 KB is one short line."""
    if sum(map(len, logs)) < LOG_LIMIT_BYTES:
        return logs
    kept: list[str] = []
    written = 0
    warned = False
    for line in logs:
        if written + len(line) >= LOG_LIMIT_BYTES:
            if not warned:
                kept.append("Log truncated")
                warned = True
        else:
            written += len(line)
            kept.append(line)
    return kept


def encode(
    tx: Execution,
    signature: bytes,
    index: int,
    table: LookupTable | None,
    writes: tuple[AccountWrite, ...] = (),
) -> ChainTransaction:
    """Assemble and serialize a transaction that has run."""
    intent = tx.intent
    if intent.submission is not None:
        keys = [*intent.submission.keys]
        transaction = _submitted(intent.submission)
        inner = loaded = b""
    else:
        keys, transaction, inner, loaded = _built(tx, signature, table if intent.lookup else None)
    meta = b"".join(
        (
            _lamports(tx, keys),
            inner,
            solana_storage_pb2.TransactionStatusMeta(
                log_messages=truncated(tx.logs)
            ).SerializeToString(),
            token_balances(tx, keys),
            loaded,
            _NOTHING_RETURNED,
            _UNITS,
            varint(tx.units_limit - tx.units_left),
        )
    )
    return ChainTransaction(
        signature=signature,
        index=index,
        info=b"".join(
            (
                _SIGNATURE,
                signature,
                _IS_VOTE if intent.is_vote else b"",
                _TRANSACTION[len(transaction)],
                transaction,
                _META[len(meta)],
                meta,
                _INDEX[index],
            )
        ),
        accounts=frozenset(keys),
        is_vote=intent.is_vote,
        failed=tx.err_code is not None,
        writes=writes,
    )


def _built(
    tx: Execution, signature: bytes, table: LookupTable | None
) -> tuple[list[bytes], bytes, bytes, bytes]:
    """Return all keys, loaded ones last, the transaction, inner instructions and loaded keys."""
    intent = tx.intent
    outer = [each for each in tx.instructions if each[3] == 1]
    invoked = {program.address for program, _, _, _ in outer}
    accounts = [each for _, each, _, _ in outer]
    named = invoked.union(*accounts)
    writable = set[bytes]().union(*map(compress, accounts, tx.outer_writable))
    signers = (intent.payer, *intent.cosigners)
    writable.difference_update(signers, invoked)
    readonly = named.difference(signers, writable) | invoked
    readonly.discard(intent.payer)
    loaded_writable: list[bytes] = []
    loaded_readonly: list[bytes] = []
    lookup = b""
    if table is not None:
        index = table.index
        loaded_writable = sorted(writable & index.keys())
        loaded_readonly = sorted((readonly & index.keys()) - invoked)
        writable.difference_update(loaded_writable)
        readonly.difference_update(loaded_readonly)
        if loaded_writable or loaded_readonly:
            lookup = _lookup(table, loaded_writable, loaded_readonly)
    static = [*signers, *sorted(writable), *sorted(readonly)]
    keys = static + loaded_writable + loaded_readonly
    instructions, inner = _instructions(tx, {key: place for place, key in enumerate(keys)})
    header = _SIGNERS[len(signers)] + _READONLY[len(readonly)]
    message = b"".join(
        (
            _HEADER[len(header)],
            header,
            _ACCOUNT_KEYS.joined(static),
            _BLOCKHASH,
            intent.recent_blockhash,
            instructions,
            _VERSIONED if intent.version is not None else b"",
            lookup,
        )
    )
    signatures = [_SIGNATURE, signature]
    for cosigner in intent.cosigners:
        signatures += (_SIGNATURE, signature[:32], cosigner)
    return (
        keys,
        b"".join((*signatures, _MESSAGE[len(message)], message)),
        inner,
        _LOADED_WRITABLE.joined(loaded_writable) + _LOADED_READONLY.joined(loaded_readonly),
    )


def _lookup(table: LookupTable, writable: list[bytes], readonly: list[bytes]) -> bytes:
    place = table.index.__getitem__
    body = b"".join(
        (
            _TABLE,
            table.address,
            _TABLE_WRITABLE[len(writable)],
            bytes(map(place, writable)),
            _TABLE_READONLY[len(readonly)],
            bytes(map(place, readonly)),
        )
    )
    return _LOOKUP[len(body)] + body


def _submitted(submission: Submission) -> bytes:
    """Return a transaction as its signers made it. It calls no other programs."""
    transaction = solana_storage_pb2.Transaction(signatures=submission.signatures)
    message = transaction.message
    message.versioned = submission.is_versioned
    header = message.header
    (
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
    ) = submission.header
    message.account_keys.extend(submission.keys)
    message.recent_blockhash = submission.recent_blockhash
    for program, accounts, data in submission.instructions:
        message.instructions.add(program_id_index=program, accounts=accounts, data=data)
    return transaction.SerializeToString()


def _instructions(tx: Execution, place: dict[bytes, int]) -> tuple[bytes, bytes]:
    """Return the outer instructions, and those that each of them called, in groups."""
    outer: list[bytes] = []
    groups: list[bytes] = []
    inner: list[bytes] = []
    number = -1
    get = place.__getitem__
    for program, accounts, data, height in tx.instructions:
        places = bytes(map(get, accounts))
        body = b"".join(
            (
                _PROGRAM[place[program.address]],
                _ACCOUNTS[len(places)],
                places,
                _DATA[len(data)],
                data,
                _STACK_HEIGHT[height] if height > 1 else b"",
            )
        )
        if height > 1:
            inner += (_INNER[len(body)], body)
            continue
        if inner:
            groups += _group(number, inner)
            inner = []
        number += 1
        outer += (_OUTER[len(body)], body)
    if inner:
        groups += _group(number, inner)
    return b"".join(outer), b"".join(groups)


def _group(number: int, inner: list[bytes]) -> tuple[bytes, bytes]:
    body = _GROUP_INDEX[number] + b"".join(inner)
    return _GROUP[len(body)], body


def _lamports(tx: Execution, keys: list[bytes]) -> bytes:
    """Return error, fee, and all accounts' lamports before and after."""
    post = list(map(tx.ledger.lamports.get, keys, repeat(0)))
    before = map(tx.changes.lamports.get, keys, post)
    meta = solana_storage_pb2.TransactionStatusMeta(
        fee=tx.intent.fee_lamports,
        pre_balances=[lamports or 0 for lamports in before],
        post_balances=post,
    )
    if tx.err_code is not None:
        meta.err.err = (
            _INSTRUCTION_ERROR
            + bytes((tx.err_index,))
            + _CUSTOM
            + tx.err_code.to_bytes(4, "little")
        )
    return meta.SerializeToString()
