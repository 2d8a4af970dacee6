"""From an executed transaction to the bytes a Yellowstone server sends.

Account order, header, lookup tables and metadata follow the runtime's own rules: signers first,
writable before read-only, each group by address; loaded accounts after the static ones.

Token balances are joined by hand, all else by protobuf: an account keeps the bytes of its last
balance, which is nearly always what the next transaction starts from. Fields ascend by number, so
the result is what protobuf gives for the whole message.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.ledger import TokenAccount
from infra.chain.source import AccountWrite, ChainTransaction
from infra.chain.submission import Submission
from schemas.proto import geyser_pb2, solana_storage_pb2

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

LOG_LIMIT_BYTES: Final = 10_000
_INSTRUCTION_ERROR: Final = b"\x08\x00\x00\x00"
_CUSTOM: Final = b"\x19\x00\x00\x00"
_SHORT: Final = tuple(bytes((number,)) for number in range(128)) + tuple(
    bytes((number & 127 | 128, number >> 7)) for number in range(128, 1 << 14)
)


class LookupTable:
    """An address lookup table: accounts that versioned transactions name by one byte."""

    def __init__(self, address: bytes, entries: list[bytes]) -> None:
        assert len(entries) <= 256, "a lookup table holds 256 addresses"
        self.address = address
        self.index = {entry: place for place, entry in enumerate(entries)}


def ui_amount(amount_raw: int, decimals: int) -> str:
    """Return the decimal text the RPC gives: no trailing zeros."""
    if not decimals:
        return str(amount_raw)
    text = str(amount_raw).rjust(decimals + 1, "0")
    return f"{text[:-decimals]}.{text[-decimals:]}".rstrip("0").rstrip(".")


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
    info = geyser_pb2.SubscribeUpdateTransactionInfo(signature=signature, is_vote=intent.is_vote)
    rest = solana_storage_pb2.TransactionStatusMeta()  # fields after the token balances
    meta = solana_storage_pb2.TransactionStatusMeta()  # fields before them
    if intent.submission is not None:
        keys = _submitted(intent.submission, info)
    else:
        keys = _message(tx, info, rest, signature, table if intent.lookup else None)
        place = {address: number for number, address in enumerate(keys)}
        _instructions(tx, info.transaction.message.instructions, meta.inner_instructions, place)
    _meta(tx, meta, rest, keys)
    balances = b"".join(_token_balances(tx, keys))
    told = meta.SerializeToString() + balances + rest.SerializeToString()
    parts = [info.SerializeToString(), b"\x22", _varint(len(told)), told]
    if index:
        parts += (b"\x28", _varint(index))
    return ChainTransaction(
        signature=signature,
        index=index,
        info=b"".join(parts),
        accounts=frozenset(keys),
        is_vote=intent.is_vote,
        failed=tx.err_code is not None,
        writes=writes,
    )


def _varint(number: int) -> bytes:
    """Return a protobuf varint."""
    if number < 1 << 14:
        return _SHORT[number]
    return bytes((number & 127 | 128,)) + _varint(number >> 7)


def _message(
    tx: Execution,
    info: geyser_pb2.SubscribeUpdateTransactionInfo,
    meta: solana_storage_pb2.TransactionStatusMeta,
    signature: bytes,
    table: LookupTable | None,
) -> list[bytes]:
    """Fill header and account keys; returns all keys, loaded ones last."""
    intent = tx.intent
    writable: set[bytes] = set()
    named: set[bytes] = set()
    invoked: set[bytes] = set()
    outer = (each for each in tx.instructions if each[3] == 1)
    for (program, accounts, _, _), writes in zip(outer, tx.outer_writable, strict=True):
        invoked.add(program.address)
        named.update(accounts)
        writable.update(compress(accounts, writes))
    signers = (intent.payer, *intent.cosigners)
    named.difference_update(signers)
    writable.difference_update(signers)
    writable -= invoked
    readonly = (named | invoked) - writable
    readonly.discard(intent.payer)
    transaction = info.transaction
    transaction.signatures.append(signature)
    for cosigner in intent.cosigners:
        transaction.signatures.append(signature[:32] + cosigner)
    message = transaction.message
    if intent.version is not None:
        message.versioned = True
    loaded_writable: list[bytes] = []
    loaded_readonly: list[bytes] = []
    if table is not None:
        index = table.index
        loaded_writable = sorted(writable & index.keys())
        loaded_readonly = sorted((readonly & index.keys()) - invoked)
        writable.difference_update(loaded_writable)
        readonly.difference_update(loaded_readonly)
        if loaded_writable or loaded_readonly:
            message.address_table_lookups.add(
                account_key=table.address,
                writable_indexes=bytes([index[account] for account in loaded_writable]),
                readonly_indexes=bytes([index[account] for account in loaded_readonly]),
            )
            meta.loaded_writable_addresses.extend(loaded_writable)
            meta.loaded_readonly_addresses.extend(loaded_readonly)
    static = [*signers, *sorted(writable), *sorted(readonly)]
    message.header.num_required_signatures = len(signers)
    message.header.num_readonly_unsigned_accounts = len(readonly)
    message.account_keys.extend(static)
    message.recent_blockhash = intent.recent_blockhash
    return static + loaded_writable + loaded_readonly


def _submitted(
    submission: Submission, info: geyser_pb2.SubscribeUpdateTransactionInfo
) -> list[bytes]:
    """Fill in a message as its signers made it; returns its keys. It calls no other programs."""
    info.transaction.signatures.extend(submission.signatures)
    message = info.transaction.message
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
    return [*submission.keys]


def _instructions(
    tx: Execution,
    outer: RepeatedCompositeFieldContainer[solana_storage_pb2.CompiledInstruction],
    groups: RepeatedCompositeFieldContainer[solana_storage_pb2.InnerInstructions],
    place: dict[bytes, int],
) -> None:
    inner = None
    number = -1
    get = place.__getitem__
    for program, accounts, data, height in tx.instructions:
        if height == 1:
            number += 1
            inner = None
            outer.add(
                program_id_index=place[program.address],
                accounts=bytes(map(get, accounts)),
                data=data,
            )
        else:
            if inner is None:
                inner = groups.add(index=number).instructions
            inner.add(
                program_id_index=place[program.address],
                accounts=bytes(map(get, accounts)),
                data=data,
                stack_height=height,
            )


def _meta(
    tx: Execution,
    meta: solana_storage_pb2.TransactionStatusMeta,
    rest: solana_storage_pb2.TransactionStatusMeta,
    keys: list[bytes],
) -> None:
    if tx.err_code is not None:
        meta.err.err = (
            _INSTRUCTION_ERROR
            + bytes((tx.err_index,))
            + _CUSTOM
            + tx.err_code.to_bytes(4, "little")
        )
    meta.fee = tx.intent.fee_lamports
    held = tx.ledger.lamports.get
    changed = tx.changes.lamports
    post = [held(address, 0) for address in keys]
    meta.post_balances.extend(post)
    meta.pre_balances.extend(
        [
            (changed[address] or 0) if address in changed else now
            for address, now in zip(keys, post, strict=True)
        ]
    )
    meta.log_messages.extend(truncated(tx.logs))
    rest.return_data_none = True
    rest.compute_units_consumed = tx.units_limit - tx.units_left


def _token_balances(tx: Execution, keys: list[bytes]) -> list[bytes]:
    """Return the serialized fields of the balances before the transaction, then of those after."""
    tokens = tx.ledger.tokens
    noted = tx.changes.tokens
    pre: list[bytes] = []
    post: list[bytes] = []
    for number, address in enumerate(keys):
        account = tokens.get(address)
        if address in noted:
            if (before := noted[address]) is not None:
                pre.append(_token_balance(b"\x3a", number, *before))
        elif account is not None:
            pre.append(_token_balance(b"\x3a", number, account, account.amount_raw))
        if account is not None:
            post.append(_token_balance(b"\x42", number, account, account.amount_raw))
    return pre + post


def _token_balance(tag: bytes, number: int, account: TokenAccount, amount_raw: int) -> bytes:
    encoded_raw, encoded = account.encoded
    if encoded_raw != amount_raw:
        encoded = _without_index(account, amount_raw)
        account.encoded = amount_raw, encoded
    if not number:
        return tag + _SHORT[len(encoded)] + encoded
    place = _SHORT[number]
    return b"%b%b\x08%b%b" % (tag, _SHORT[len(encoded) + 1 + len(place)], place, encoded)


def _without_index(account: TokenAccount, amount_raw: int) -> bytes:
    mint = account.mint
    balance = solana_storage_pb2.TokenBalance(
        mint=mint.text, owner=account.owner_text, program_id=mint.program.name
    )
    amount = balance.ui_token_amount
    # Rounded twice, as validators do.
    amount.ui_amount = float(amount_raw) / float(mint.unit)
    amount.decimals = mint.decimals
    amount.amount = str(amount_raw)
    amount.ui_amount_string = ui_amount(amount_raw, mint.decimals)
    return balance.SerializeToString()
