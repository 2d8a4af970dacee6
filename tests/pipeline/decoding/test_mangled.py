"""Whatever happens to a transaction's bytes, decoding answers with outcomes, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.source import SlotTransactions
from pipeline.decoding.check import Conservation
from pipeline.decoding.reading import Decoded, Reason, decode_update
from schemas.codec import add_event
from schemas.events import Swap
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import LiveBatch
from schemas.solana.rpc_json import RpcTransaction, transaction_info_from_json
from tests.support.exploring import SLOW, examples

Info = SubscribeUpdateTransactionInfo
CORPUS = Path(__file__).parents[4] / "shared/corpus/transactions.jsonl"
U64_MAX = 2**64 - 1


@cache
def simulated() -> list[bytes]:
    """A few hundred transactions of the market, all venues among them."""
    found: list[bytes] = []
    for _, event in Market(Knobs(seed=7)).stream():
        if isinstance(event, SlotTransactions):
            found += [transaction.info for transaction in event.transactions]
        if len(found) >= 600:
            return found
    raise AssertionError("the market ended")


@cache
def recorded() -> list[bytes]:
    lines = CORPUS.read_bytes().splitlines()
    return [transaction_info_from_json(orjson.loads(line)).SerializeToString() for line in lines]


def instructions(info: Info) -> list[Any]:
    outer = list(info.transaction.message.instructions)
    inner = [ix for group in info.meta.inner_instructions for ix in group.instructions]
    return [*outer, *inner]


def mangled(data: bytes, random: Random) -> bytes:
    """Truncate, flip or replace."""
    if not data:
        return random.randbytes(random.randint(0, 40))
    kind = random.randrange(4)
    at = random.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + random.randbytes(1) + data[at + 1 :]
    if kind == 2:
        return data + random.randbytes(random.randint(1, 40))
    return data[:8] + random.randbytes(max(0, len(data) - 8))


def mangle_data(info: Info, random: Random) -> None:
    ix = random.choice(instructions(info))
    ix.data = mangled(ix.data, random)


def saturate_data(info: Info, random: Random) -> None:
    """Let numbers in the events of programs be as large as can be."""
    for inner in info.meta.inner_instructions:
        for instruction in inner.instructions:
            data = instruction.data
            if len(data) >= 60:
                at = random.randrange(16, len(data) - 16, 8)
                instruction.data = data[:at] + b"\xff" * 16 + data[at + 16 :]


def mangle_accounts(info: Info, random: Random) -> None:
    ix = random.choice(instructions(info))
    ix.accounts = mangled(ix.accounts, random)


def mangle_program(info: Info, random: Random) -> None:
    random.choice(instructions(info)).program_id_index = random.randint(0, 2**32 - 1)


def mangle_heights(info: Info, random: Random) -> None:
    for group in info.meta.inner_instructions:
        for ix in group.instructions:
            ix.stack_height = random.choice([0, 1, 2, 3, 4, 9, 2**32 - 1])


def drop_inner(info: Info, random: Random) -> None:
    groups = info.meta.inner_instructions
    if groups:
        group = random.choice(groups)
        if random.random() < 0.5 or not group.instructions:
            groups.remove(group)
        else:
            del group.instructions[random.randrange(len(group.instructions))]


def mangle_logs(info: Info, random: Random) -> None:
    logs = info.meta.log_messages
    for _ in range(min(3, len(logs))):
        at = random.randrange(len(logs))
        line = logs[at]
        cut = random.randrange(len(line) + 1)
        logs[at] = random.choice(["Log truncated", line[:cut], line + "=", "Program data: A", ""])


def mangle_balances(info: Info, random: Random) -> None:
    balances = [*info.meta.pre_token_balances, *info.meta.post_token_balances]
    if balances:
        balance = random.choice(balances)
        balance.account_index = random.choice([balance.account_index, 255, 2**32 - 1])
        balance.mint = random.choice([balance.mint, "", "no mint"])
        balance.owner = random.choice([balance.owner, "", "no owner"])
        amounts = [balance.ui_token_amount.amount, "", "-1", "many", str(U64_MAX), str(2**70)]
        balance.ui_token_amount.amount = random.choice(amounts)


def drop_balances(info: Info, random: Random) -> None:
    del random.choice([info.meta.pre_token_balances, info.meta.post_token_balances])[:]


def mangle_keys(info: Info, random: Random) -> None:
    keys = info.transaction.message.account_keys
    at = random.randrange(len(keys)) if keys else 0
    kind = random.randrange(3)
    if kind == 0:
        del keys[at:]
    elif keys:
        keys[at] = keys[at][:7] if kind == 1 else random.randbytes(32)


def mangle_signature(info: Info, random: Random) -> None:
    info.signature = info.signature[: random.randrange(65)]


MANGLERS: Sequence[Callable[[Info, Random], None]] = (
    mangle_data, saturate_data, mangle_accounts, mangle_program, mangle_heights, drop_inner,
    mangle_logs, mangle_balances, drop_balances, mangle_keys, mangle_signature,
)  # fmt: skip


def check(data: bytes, seed: int, manglers: Sequence[Callable[[Info, Random], None]]) -> None:
    info = Info.FromString(data)
    random = Random(seed)
    for mangle in manglers:
        mangle(info, random)
    decoded = decode_update(info, 1, 0)
    assert all(miss.reason in Reason and miss.detail for miss in decoded.undecoded)
    for event in decoded.events:
        add_event(LiveBatch().events, event)  # the tape can carry it
        if isinstance(event, Swap):
            assert 0 <= event.amount_raw <= U64_MAX
            assert 0 <= event.quote_amount_raw <= U64_MAX
            assert event.mint != event.quote_mint
    conservation = Conservation()
    conservation.add(RpcTransaction(info, 1, None), decoded)
    assert orjson.dumps(conservation.report())


MANY = examples(1500, SLOW)
MANGLINGS = st.lists(st.sampled_from(MANGLERS), min_size=1, max_size=5)


@MANY
@given(st.integers(0, 599), st.integers(0, 2**32), MANGLINGS)
def test_simulated(at: int, seed: int, manglers: list[Callable[[Info, Random], None]]) -> None:
    check(simulated()[at], seed, manglers)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real transactions is not here")
@MANY
@given(st.integers(0, 10_000), st.integers(0, 2**32), MANGLINGS)
def test_recorded(at: int, seed: int, manglers: list[Callable[[Info, Random], None]]) -> None:
    check(recorded()[at % len(recorded())], seed, manglers)


def test_a_key_that_is_cut_is_reported_wherever_it_is() -> None:
    reported = 0
    for data in simulated()[::4]:
        for at in range(len(Info.FromString(data).transaction.message.account_keys)):
            info = Info.FromString(data)
            info.transaction.message.account_keys[at] = b"\xa9*Z\x8bO)Y"
            reported += any(not miss.program_id for miss in decode_update(info, 1, 0).undecoded)
    assert reported


@MANY
@given(st.integers(0, 599), st.integers(0, 2**32))
def test_cut_or_flipped_update_bytes(at: int, seed: int) -> None:
    data = mangled(simulated()[at], Random(seed))
    try:
        info = Info.FromString(data)
    except DecodeError:
        return  # the stream's reader counts these
    assert isinstance(decode_update(info, 1, 0), Decoded)


def test_the_samples_are_not_all_refused() -> None:
    """Unmangled they decode: the tests above start from good bytes."""
    decoded = [decode_update(Info.FromString(data), 1, 0) for data in simulated()]
    assert sum(len(each.events) for each in decoded) > 300
