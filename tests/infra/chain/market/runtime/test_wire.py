"""The market's bytes are those that protobuf makes of the same transactions, slower."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market import market as running
from infra.chain.market.market import RETIRE_EVERY_SLOTS
from infra.chain.market.runtime import wire
from infra.chain.market.runtime.execution import Execution, Intent
from infra.chain.market.runtime.ledger import Ledger, TokenAccount
from infra.chain.market.runtime.programs import TOKEN, derived
from infra.chain.market.runtime.token_balances import ui_amount
from infra.chain.market.runtime.wire import LookupTable, truncated
from infra.chain.source import AccountWrite, ChainTransaction, SlotCompleted, SlotTransactions
from schemas.proto import geyser_pb2, solana_storage_pb2

_INSTRUCTION_ERROR = b"\x08\x00\x00\x00"
_CUSTOM = b"\x19\x00\x00\x00"


def test_every_transaction_has_the_bytes_of_one_whole_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"failed": 0, "looked up": 0, "vote": 0, "first": 0}

    def compared(
        tx: Execution,
        signature: bytes,
        index: int,
        table: LookupTable | None,
        writes: tuple[AccountWrite, ...],
    ) -> ChainTransaction:
        made = wire.encode(tx, signature, index, table, writes)
        assert made == replace(encode(tx, signature, index, table), writes=writes)
        seen["failed"] += made.failed
        seen["looked up"] += tx.intent.lookup
        seen["vote"] += made.is_vote
        seen["first"] += not index
        return made

    monkeypatch.setattr(running, "encode", compared)
    knobs = Knobs(seed=17, rate=300, wallets=60, forks=0.2, malformed=0.05)
    for _ in Market(knobs).generate(12):
        pass
    assert min(seen.values()) > 5, seen


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 199), max_size=140), st.binary(max_size=300), st.integers(1, 3)
        ),
        max_size=6,
    )
)
def test_instructions_are_protobufs(drawn: list[tuple[list[int], bytes, int]]) -> None:
    keys = [derived("key", number) for number in range(200)]
    keys[130] = TOKEN.address
    place = {key: number for number, key in enumerate(keys)}
    tx = Execution(Ledger(), Intent(1, keys[0], [], bytes(32)), 1, 1)
    for number, (places, data, height) in enumerate(drawn):
        accounts = tuple(keys[each] for each in places)
        tx.instructions.append((TOKEN, accounts, data, height if number else 1))
    info = geyser_pb2.SubscribeUpdateTransactionInfo()
    _instructions(tx, info, place)
    # private `_instructions`: one part of a transaction, at sizes that no market reaches.
    outer, inner = wire._instructions(tx, place)
    assert outer == info.transaction.message.SerializeToString()
    assert inner == info.meta.SerializeToString()


# -- the clear way -----------------------------------------------------------------------


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


@pytest.mark.slow
def test_bytes_of_balances_that_rest_leave_memory_and_make_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> tuple[list[bytes], list[tuple[int, int]]]:
        market = Market(Knobs(seed=4, rate=60, wallets=60, forks=0, skipped=0))
        received: list[bytes] = []
        counts: list[tuple[int, int]] = []
        for event in market.generate(2 * RETIRE_EVERY_SLOTS + 2):
            if isinstance(event, SlotTransactions):
                received += [transaction.info for transaction in event.transactions]
            elif isinstance(event, SlotCompleted):
                accounts = market.world.ledger.tokens.values()
                counts.append((sum(bool(each.encoded[1]) for each in accounts), len(accounts)))
        return received, counts

    received, counts = run()
    encoded, accounts = counts[-1]
    assert encoded < accounts / 4
    monkeypatch.setattr(Ledger, "forget_encoded", lambda ledger: None)
    from_all, counts = run()
    encoded, accounts = counts[-1]
    assert encoded > accounts / 2
    assert received == from_all
