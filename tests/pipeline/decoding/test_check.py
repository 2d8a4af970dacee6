"""The totals of `soltape decode --check`: what counts, and what of it is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.decoding.check import Conservation, Exchanges
from pipeline.decoding.exchanges import changes
from pipeline.decoding.reading import decode_update
from pipeline.decoding.registry import PROGRAMS
from pipeline.decoding.wallets import Whose, whose
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from schemas.solana.rpc_json import RpcTransaction
from tests.support.decoding import builder, examples
from tests.support.decoding.builder import address


def add(conservation: Conservation, tx: builder.TransactionBuilder, **form: bool) -> None:
    tx.gain(tx.keys[0], -5_000)
    info = tx.info(**form)
    conservation.add(RpcTransaction(info, 1, None), decode_update(info, 1, 2))


def report(*transactions: builder.TransactionBuilder, shown: int = 3) -> dict[str, Any]:
    conservation = Conservation(exchanges=Exchanges(shown))
    for tx in transactions:
        add(conservation, tx)
    found: dict[str, Any] = conservation.report()["exchanges"]
    return found


def swapped() -> builder.TransactionBuilder:
    return examples.swap(examples.EXAMPLES["raydium-cpmm"])[0]


def undecoded(number: int) -> builder.TransactionBuilder:
    """A swap whose venue has an instruction that nothing decodes."""
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    call.data = b"unknown." + bytes(16)
    call.accounts.append(address(f"another {number}"))
    return tx


def test_explained_and_not() -> None:
    found = report(swapped(), undecoded(0), undecoded(1))
    assert (found["transactions"], found["explained"], found["share"]) == (3, 1, 1 / 3)
    assert found["unexplained"]["raydium-cpmm 756e6b6e6f776e2e"]["transactions"] == 2


def test_swaps_are_counted_by_transaction_and_those_that_balances_bear_out() -> None:
    less, _ = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    less.tokens[address("vault 2")].post_raw -= 1
    conservation = Conservation()
    for tx in (swapped(), less, undecoded(0), swapped()):
        add(conservation, tx)
    found = conservation.report()
    counts = ("transactions", "with_swaps", "explained", "share")
    assert [found[count] for count in counts] == [4, 3, 2, 2 / 3]


def test_as_many_examples_as_asked_for() -> None:
    for shown in (0, 1, 3):
        found = report(*map(undecoded, range(5)), shown=shown)
        (cause,) = found["unexplained"].values()
        assert (cause["transactions"], len(cause["examples"])) == (5, shown)
        assert all(example["left_raw"] for example in cause["examples"])


def test_what_cannot_be_read_counts_as_not_explained() -> None:
    """A key that is none, a mint's balance that is no number; nobody knows what was exchanged."""
    conservation = Conservation()
    for spoil in ("key", "amount"):
        info = swapped().info()
        if spoil == "key":
            info.transaction.message.account_keys[0] = b"short"
        else:
            info.meta.pre_token_balances[0].ui_token_amount.amount = "many"
        conservation.add(RpcTransaction(info, 1, None), decode_update(info, 1, 2))
    found = conservation.report()
    assert len(found["unreadable"]) == 2
    exchanges = found["exchanges"]
    assert (exchanges["transactions"], exchanges["unreadable"], exchanges["share"]) == (2, 2, 0.0)


def test_a_failed_transaction_does_not_count() -> None:
    conservation = Conservation()
    add(conservation, swapped(), failed=True)
    found = conservation.report()
    assert (found["transactions"], found["exchanges"]["transactions"]) == (1, 0)
    assert found["exchanges"]["share"] is None


def test_one_that_invokes_no_listed_program_does_not_count() -> None:
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    call.program = address("a program")
    assert report(tx)["transactions"] == 0


def test_cuts_are_counted_by_program() -> None:
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    app = tx.call("an app", "x", b"route")
    tx.calls = [app]
    app.calls = [call]
    tx.send(app, "trader", "fees", 77)
    found = report(tx, swapped())
    assert (found["explained"], found["with_cuts"]) == (2, 1)
    assert found["cuts"] == {address("an app"): 1}


def test_what_is_no_swap_is_excluded_by_instruction() -> None:
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    call.data = bytes.fromhex("f223c68952e1f2b6") + bytes(16)
    found = report(tx)
    assert (found["transactions"], found["excluded"]) == (
        0,
        {"raydium-cpmm deposit (liquidity)": 1},
    )


def test_wallets_by_whose_the_swaps_are() -> None:
    """Of a signer, of a program's account, and of a signer whose friend has what came out."""
    of_program, _ = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    of_program.keys[0] = address("signer")
    passed_on, _ = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    passed_on.token("friend's", "token", "friend")
    passed_on.transfer(None, "user 1", "friend's", "trader", examples.TOKEN_RAW)
    conservation = Conservation()
    for tx in (swapped(), of_program, passed_on):
        add(conservation, tx)
    wallets = conservation.report()["wallets"]
    (example,) = wallets.pop("examples")
    assert wallets == {"signer": 1, "order": 0, "account": 1, "passed_on": 1}
    assert example["wallet"] == address("trader")


def test_a_wallet_with_a_keeper_owns_an_order() -> None:
    info = swapped().info()
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    tx = Transaction(info, 1, 2, PROGRAMS)
    kept = [replace(swap, keeper=address("keeper"))]
    assert list(whose(tx, changes(tx), kept)) == [(swap.wallet, Whose.ORDER)]
