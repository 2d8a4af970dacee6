"""A transaction flattened: order, tree, logs, transfers, accounts, fees."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import key, text
from tests.support.decoding import builder

EVENT = bytes(range(8)) + b"body"
ED25519 = "Ed25519SigVerify111111111111111111111111111"


def read(info: SubscribeUpdateTransactionInfo, boundaries: frozenset[bytes] = frozenset()) -> Any:
    return Transaction(info, 7, 8, boundaries)


def tree() -> Any:
    """0 router(1 venue(2 tokens, 3 venue's event), 4 other(5 venue(6 tokens)), 7 memo), 8 memo."""
    tx = builder.TransactionBuilder("trader")
    for name in ("a", "b"):
        tx.token(name, "token", "trader", 1_000)
    router = tx.call("router", "trader", b"\x00")
    first = tx.call("venue", "pool", b"\x01", under=router)
    tx.transfer(first, "a", "b", "trader", 10)
    tx.cpi_event(first, EVENT)
    other = tx.call("other", "x", b"\x04", under=router)
    second = tx.call("venue", "pool", b"\x05", under=other)
    tx.transfer(second, "b", "a", "trader", 20)
    tx.call("memo", "", b"\x07", under=router)
    tx.call("memo", "", b"\x08")
    return tx


# -- order and tree -----------------------------------------------------------------------


def test_instructions_run_in_execution_order() -> None:
    tx = read(tree().info())
    assert [data[:1].hex() for data in tx.data] == [
        "00",
        "01",
        "03",
        "e4",
        "04",
        "05",
        "03",
        "07",
        "08",
    ]
    assert tx.heights == [1, 2, 3, 3, 2, 3, 4, 2, 1]
    assert text(tx.program(1)) == text(tx.program(5)) == builder.address("venue")
    assert (tx.slot, tx.block_time_ms) == (7, 8)


def test_loaded_addresses_follow_the_static_ones() -> None:
    info = tree().info()
    whole = read(info)
    keys = list(info.transaction.message.account_keys)
    del info.transaction.message.account_keys[2:]
    info.meta.loaded_writable_addresses.extend(keys[2:4])
    info.meta.loaded_readonly_addresses.extend(keys[4:])
    assert read(info).keys == whole.keys


def test_subtree_by_heights() -> None:
    tx = read(tree().info())
    assert [tx.subtree_end(position) for position in range(9)] == [8, 4, 3, 4, 7, 7, 7, 8, 9]
    assert list(tx.ancestors(6)) == [5, 4, 0]
    assert list(tx.ancestors(1)) == [0]
    assert list(tx.ancestors(8)) == []


def test_subtree_without_heights() -> None:
    """Up to the next program that may be a sibling; an outer instruction owns all it called."""
    venue = frozenset({key(builder.address("venue"))})
    tx = read(tree().info(heights=False), venue)
    assert tx.heights == [1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert tx.subtree_end(0) == 8
    assert tx.subtree_end(1) == 5  # its own event is no boundary; `other` may be its child
    assert list(tx.cpi_events(1)) == [EVENT]
    assert tx.subtree_end(5) == 8
    assert tx.subtree_end(8) == 9
    assert [transfer.position for transfer in tx.transfers(1)] == [2]
    assert [transfer.position for transfer in tx.transfers(5)] == [6]
    assert list(tx.ancestors(6)) == [0]


def test_transfers_at_the_callers_height_and_deeper() -> None:
    tx = read(tree().info())
    assert tx.transfers(0) == []
    assert [transfer.amount_raw for transfer in tx.transfers(0, nested=True)] == [10, 20]
    assert tx.transfers(4) == []
    assert [transfer.amount_raw for transfer in tx.transfers(4, nested=True)] == [20]


def test_cpi_events_belong_to_the_program_that_calls_itself() -> None:
    tx = read(tree().info())
    assert list(tx.cpi_events(1)) == [EVENT]
    assert list(tx.cpi_events(0)) == []
    assert list(tx.cpi_events(5)) == []


# -- logs ---------------------------------------------------------------------------------


def logged() -> Any:
    tx = tree()
    (router, _) = tx.calls
    venue, other, _ = router.calls
    tx.log_event(venue, EVENT)
    tx.log_event(other.calls[0], EVENT + b"!")
    router.logs.append("log: routed")
    return tx


def test_logs_are_attributed_through_the_nesting() -> None:
    tx = read(logged().info())
    assert tx.log_events(1) == [EVENT]
    assert tx.log_events(5) == [EVENT + b"!"]
    assert tx.log_texts(0) == ["routed"]
    assert not any(tx.log_fault(position) for position in range(9))
    assert tx.log_events(0) == tx.log_events(4) == tx.log_texts(1) == []


def test_nothing_after_the_truncation_is_trusted() -> None:
    """Short lines may follow `Log truncated`: by then calls are missing in between."""
    info = logged().info()
    lines = list(info.meta.log_messages)
    second = next(n for n, line in enumerate(lines) if line.endswith("IQ=="))
    del info.meta.log_messages[:]
    info.meta.log_messages.extend([*lines[: second - 1], "Log truncated", *lines[second:]])
    tx = read(info)
    assert tx.log_events(1) == [EVENT]
    assert all(tx.log_events(position) == [] for position in range(2, 9))
    assert tx.log_fault(1) == ""  # it had ended
    assert {tx.log_fault(position) for position in (0, 4, 5)} == {"log truncated"}


def test_no_logs() -> None:
    tx = read(logged().info(logs=False))
    assert all(tx.log_events(position) == [] for position in range(9))
    assert all(tx.log_fault(position) == "log absent" for position in range(9))


def test_lines_inside_a_program_log_are_its_text() -> None:
    """A program may log what looks like the runtime's lines: they open and close nothing."""
    tx = tree()
    (router, _) = tx.calls
    venue = builder.address("venue")
    router.logs += [
        f"log: Program {venue} invoke [2]",
        "log: Program data: " + b64encode(EVENT).decode(),
        f"log: Program {venue} success",
        f"log: \nProgram {venue} invoke [2]",
        "data: " + b64encode(EVENT).decode(),
    ]
    found = read(tx.info())
    assert found.log_events(0) == [EVENT]
    assert all(found.log_events(position) == [] for position in range(1, 9))
    assert len(found.log_texts(0)) == 4


def test_logs_that_disagree_with_the_instructions_are_dropped() -> None:
    info = logged().info()
    lines = list(info.meta.log_messages)
    lines.insert(1, f"Program {builder.address('nobody')} invoke [2]")
    del info.meta.log_messages[:]
    info.meta.log_messages.extend(lines)
    tx = read(info)
    assert tx.log_events(1) == tx.log_events(5) == []
    assert tx.log_fault(1) == "log disagrees with instructions"


def test_precompiles_write_no_line() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.call(ED25519, "", b"\x02" + bytes(20))
    venue = tx.call("venue", "pool", b"\x01")
    tx.log_event(venue, EVENT)
    info = tx.info()
    lines = [line for line in info.meta.log_messages if ED25519 not in line]
    del info.meta.log_messages[:]
    info.meta.log_messages.extend(lines)
    found = read(info)
    assert found.log_events(1) == [EVENT]


def test_data_that_is_no_base64_is_no_event() -> None:
    tx = builder.TransactionBuilder("trader")
    venue = tx.call("venue", "pool", b"\x01")
    good = b64encode(EVENT).decode()
    venue.logs += ["data: *", "data: ", f"data: {good} {good}"]
    assert read(tx.info()).log_events(0) == [EVENT]


# -- transfers ----------------------------------------------------------------------------


def fee_transaction(*, names_fee: bool) -> Any:
    tx = builder.TransactionBuilder("trader")
    tx.mint("token", fee_bps=300)
    tx.token("from", "token", "trader", 50_000, program=builder.TOKEN_2022)
    tx.token("to", "token", "pool", 9, program=builder.TOKEN_2022)
    tx.transfer(None, "from", "to", "trader", 10_000, checked=not names_fee, names_fee=names_fee)
    return tx


@pytest.mark.parametrize("names_fee", [True, False])
def test_transfer_fee(names_fee: bool) -> None:
    transfer = read(fee_transaction(names_fee=names_fee).info()).transfer(0)
    assert (transfer.amount_raw, transfer.received_raw) == (10_000, 9_700)


def test_transfer_fee_of_an_account_that_passes_tokens_on() -> None:
    tx = fee_transaction(names_fee=False)
    tx.token("on", "token", "third", program=builder.TOKEN_2022)
    tx.transfer(None, "to", "on", "pool", 2_000, checked=True)
    found = read(tx.info())
    assert found.transfer(0).received_raw == 9_700
    assert found.transfer(1).received_raw == 1_940


def test_transfer_fee_is_not_guessed() -> None:
    """Two arrivals, or an account without balances: the amount sent is all that is known."""
    tx = fee_transaction(names_fee=False)
    tx.transfer(None, "from", "to", "trader", 10_000, checked=True)
    assert read(tx.info()).transfer(0).received_raw == 10_000
    tx = fee_transaction(names_fee=False)
    tx.tokens[builder.address("to")].recorded = False
    assert read(tx.info()).transfer(0).received_raw == 10_000


def test_spl_tokens_have_no_transfer_fee() -> None:
    tx = tree()
    for transfer in read(tx.info()).transfers(0, nested=True):
        assert transfer.received_raw == transfer.amount_raw


def test_only_transfers_are_transfers() -> None:
    tx = builder.TransactionBuilder("trader")
    for data in (b"", b"\x07" + bytes(8), b"\x1a\x00" + bytes(9)):
        tx.call(builder.TOKEN, "a b c", data)
    tx.call("venue", "a b c", b"\x03" + bytes(8))
    found = read(tx.info())
    assert [found.transfer(position) for position in range(4)] == [None] * 4


# -- token accounts -----------------------------------------------------------------------


@pytest.mark.parametrize("tag", [1, 16, 18])
def test_temporary_accounts(tag: int) -> None:
    """A wSOL account opened and closed within the transaction has no recorded balance."""
    owner = builder.address("trader")
    accounts = f"temporary {WSOL} trader rent" if tag == 1 else f"temporary {WSOL} rent"
    data = bytes([tag]) + (b"" if tag == 1 else key(owner))
    tx = builder.TransactionBuilder("trader")
    tx.token("pool's", WSOL, "pool", 5)
    tx.mint(WSOL, decimals=9)
    tx.token("temporary", WSOL, "trader", 10**9, recorded=False)
    tx.call(builder.TOKEN, accounts, data)
    tx.transfer(None, "temporary", "pool's", "trader", 4)
    found = read(tx.info())
    index = found.transfer(1).source
    assert index not in found.token_accounts
    account = found.token_account(index)
    assert (account.mint, account.owner, account.decimals) == (WSOL, owner, 9)
    assert found.token_account(found.transfer(1).destination).post_raw == 9
    assert found.token_account(0) is None


def test_an_account_with_one_balance_only() -> None:
    """Opened here: nothing before. Closed here: nothing after."""
    tx = builder.TransactionBuilder("trader")
    tx.token("opened", "token", "trader", 5)
    tx.token("closed", "token", "trader", 6)
    info = tx.info()
    del info.meta.pre_token_balances[0]
    del info.meta.post_token_balances[1]
    accounts = list(read(info).token_accounts.values())
    assert [(account.pre_raw, account.post_raw) for account in accounts] == [(0, 5), (6, 0)]


# -- fees ---------------------------------------------------------------------------------


def test_priority_fee_is_what_exceeds_the_signatures() -> None:
    tx = builder.TransactionBuilder("trader", "second")
    tx.call(ED25519, "", b"\x03" + bytes(20))  # three signatures more, 5,000 lamports each
    info = tx.info()
    info.meta.fee = 5_000 * 5 + 1_234
    assert read(info).priority_fee_lamports == 1_234
    info.meta.fee = 5_000
    assert read(info).priority_fee_lamports == 0
    assert read(info).fee_lamports == 5_000


def test_lamports_to_are_system_transfers_at_any_depth() -> None:
    tx = builder.TransactionBuilder("trader")
    data = bytes([2, 0, 0, 0]) + (700).to_bytes(8, "little")
    tx.call(builder.SYSTEM, "trader jito", data)
    router = tx.call("router", "trader", b"\x00")
    tx.call(builder.SYSTEM, "trader jito", data, under=router)
    tx.call(builder.SYSTEM, "trader friend", data)
    tx.call("not system", "trader jito", data)
    found = read(tx.info())
    assert found.lamports_to(frozenset({key(builder.address("jito"))})) == 1_400
    assert found.lamports_to(frozenset({key(builder.address("nobody"))})) == 0


def test_a_failed_transaction_says_so() -> None:
    tx = tree()
    assert read(tx.info(failed=True)).failed
    assert not read(tx.info()).failed


# -- batches of a token program ------------------------------------------------------------


def batched(*, heights: bool = True) -> Any:
    """0 venue(1 batch: 2 opens an account, 3 and 4 transfers; 5 its event), 6 other(7 token)."""
    tx = builder.TransactionBuilder("trader")
    for name in ("a", "b"):
        tx.token(name, "token", "trader", 1_000)
    tx.token("temporary", "token", "trader", recorded=False)
    venue = tx.call("venue", "pool", b"\x01")
    tx.batch(
        venue,
        tx.call(
            builder.TOKEN, "temporary token", b"\x12" + key(builder.address("trader")), under=venue
        ),
        tx.transfer(venue, "a", "temporary", "trader", 10, checked=True),
        tx.transfer(venue, "temporary", "b", "trader", 10),
    )
    tx.cpi_event(venue, EVENT)
    tx.log_event(venue, EVENT)
    other = tx.call("other", "pool", b"\x01")
    tx.transfer(other, "b", "a", "trader", 20)
    tx.log_event(other, EVENT * 2)
    return tx.info(heights=heights)


@pytest.mark.parametrize("heights", [True, False])
def test_instructions_of_a_batch_follow_it(heights: bool) -> None:
    tx = read(batched(heights=heights))
    assert [data[:1].hex() for data in tx.data] == ["01", "ff", "12", "0c", "03", "e4", "01", "03"]
    assert tx.heights == ([1, 2, 2, 2, 2, 2, 1, 2] if heights else [1, 0, 0, 0, 0, 0, 1, 0])
    moved = [(each.position, each.amount_raw) for each in tx.transfers(0)]
    assert moved == [(3, 10), (4, 10)]
    temporary = tx.token_account(tx.accounts[2][0])
    assert (temporary.owner, temporary.mint) == (
        builder.address("trader"),
        builder.address("token"),
    )
    assert list(tx.cpi_events(0)) == [EVENT]


def test_instructions_of_a_batch_write_no_line() -> None:
    tx = read(batched())
    assert (tx.log_events(0), tx.log_events(6)) == ([EVENT], [EVENT * 2])
    assert not tx.log_fault(6)


@pytest.mark.parametrize("cut", [1, 2])
def test_a_batch_that_does_not_fit_has_no_instructions(cut: int) -> None:
    """Nor has data of another program that begins as one does."""
    info = batched()
    batch = info.meta.inner_instructions[0].instructions[0]
    batch.data = batch.data[:-cut]
    assert len(read(info).data) == 5
    batch.data = batch.data + bytes(cut)
    batch.accounts = batch.accounts[:-cut]
    assert len(read(info).data) == 5
    batch.data = b"\xff" + bytes(2 * cut)
    assert len(read(info).data) == 5
    info = batched()
    batch = info.meta.inner_instructions[0].instructions[0]
    batch.program_id_index = info.transaction.message.instructions[1].program_id_index
    assert len(read(info).data) == 5
