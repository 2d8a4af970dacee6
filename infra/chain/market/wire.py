"""From an executed transaction to the bytes a Yellowstone server sends.

Account order, header, lookup tables and metadata follow the runtime's own rules: signers first,
writable before read-only, each group by address; loaded accounts after the static ones.
"""

from __future__ import annotations

from typing import Final

from infra.chain.market.execution import Execution
from infra.chain.market.ledger import TokenAccount
from infra.chain.source import ChainTransaction
from schemas.proto import geyser_pb2, solana_storage_pb2

LOG_LIMIT_BYTES: Final = 10_000
_INSTRUCTION_ERROR: Final = b"\x08\x00\x00\x00"
_CUSTOM: Final = b"\x19\x00\x00\x00"


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
    tx: Execution, signature: bytes, index: int, table: LookupTable | None
) -> ChainTransaction:
    """Assemble and serialize a transaction that has run."""
    intent = tx.intent
    info = geyser_pb2.SubscribeUpdateTransactionInfo(
        signature=signature, is_vote=intent.is_vote, index=index
    )
    keys = _message(tx, info, signature, table if intent.lookup else None)
    place = {address: number for number, address in enumerate(keys)}
    _instructions(tx, info, place)
    _meta(tx, info.meta, keys)
    return ChainTransaction(
        signature=signature,
        index=index,
        info=info.SerializeToString(),
        accounts=frozenset(keys),
        is_vote=intent.is_vote,
        failed=tx.err_code is not None,
    )


def _message(
    tx: Execution,
    info: geyser_pb2.SubscribeUpdateTransactionInfo,
    signature: bytes,
    table: LookupTable | None,
) -> list[bytes]:
    """Fill header and account keys; returns all keys, loaded ones last."""
    intent = tx.intent
    writable: set[bytes] = set()
    named: set[bytes] = set()
    invoked: set[bytes] = set()
    masks = iter(tx.outer_writable)
    for program, accounts, _, height in tx.instructions:
        if height == 1:
            invoked.add(program.address)
            named.update(accounts)
            writable.update(
                [account for account, writes in zip(accounts, next(masks), strict=True) if writes]
            )
    signers = (intent.payer, *intent.cosigners)
    for signer in signers:
        named.discard(signer)
        writable.discard(signer)
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
        loaded_writable = sorted(account for account in writable if account in index)
        loaded_readonly = sorted(
            account for account in readonly if account in index and account not in invoked
        )
        writable.difference_update(loaded_writable)
        readonly.difference_update(loaded_readonly)
        if loaded_writable or loaded_readonly:
            message.address_table_lookups.add(
                account_key=table.address,
                writable_indexes=bytes([index[account] for account in loaded_writable]),
                readonly_indexes=bytes([index[account] for account in loaded_readonly]),
            )
            info.meta.loaded_writable_addresses.extend(loaded_writable)
            info.meta.loaded_readonly_addresses.extend(loaded_readonly)
    static = [*signers, *sorted(writable), *sorted(readonly)]
    message.header.num_required_signatures = len(signers)
    message.header.num_readonly_unsigned_accounts = len(readonly)
    message.account_keys.extend(static)
    message.recent_blockhash = intent.recent_blockhash
    return static + loaded_writable + loaded_readonly


def _instructions(
    tx: Execution, info: geyser_pb2.SubscribeUpdateTransactionInfo, place: dict[bytes, int]
) -> None:
    outer = info.transaction.message.instructions
    groups = info.meta.inner_instructions
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


def _meta(tx: Execution, meta: solana_storage_pb2.TransactionStatusMeta, keys: list[bytes]) -> None:
    if tx.err_code is not None:
        meta.err.err = (
            _INSTRUCTION_ERROR
            + bytes((tx.err_index,))
            + _CUSTOM
            + tx.err_code.to_bytes(4, "little")
        )
    meta.fee = tx.intent.fee_lamports
    lamports = tx.ledger.lamports
    changed = tx.changes.lamports
    post = [lamports.get(address, 0) for address in keys]
    meta.post_balances.extend(post)
    meta.pre_balances.extend(
        [
            (changed[address] or 0) if address in changed else now
            for address, now in zip(keys, post, strict=True)
        ]
    )
    meta.log_messages.extend(truncated(tx.logs))
    meta.return_data_none = True
    meta.compute_units_consumed = tx.units_limit - tx.units_left
    tokens = tx.ledger.tokens
    before = tx.changes.tokens
    pre_balances = meta.pre_token_balances
    post_balances = meta.post_token_balances
    for number, address in enumerate(keys):
        account = tokens.get(address)
        if address in before:
            noted = before[address]
            if noted is not None:
                _token_balance(pre_balances.add(), number, noted[0], noted[1])
        elif account is not None:
            _token_balance(pre_balances.add(), number, account, account.amount_raw)
        if account is not None:
            _token_balance(post_balances.add(), number, account, account.amount_raw)


def _token_balance(
    balance: solana_storage_pb2.TokenBalance, number: int, account: TokenAccount, amount_raw: int
) -> None:
    mint = account.mint
    balance.account_index = number
    balance.mint = mint.text
    balance.owner = account.owner_text
    balance.program_id = mint.program.name
    amount = balance.ui_token_amount
    # Rounded twice, as validators do.
    amount.ui_amount = float(amount_raw) / float(mint.unit)
    amount.decimals = mint.decimals
    amount.amount = str(amount_raw)
    amount.ui_amount_string = ui_amount(amount_raw, mint.decimals)
