"""Every transaction keeps lamports and tokens, and the chain's balances follow one another."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.market.runtime.programs import TOKEN, TOKEN_2022
from infra.chain.source import (
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo

pytestmark = pytest.mark.slow  # runs a market

SLOTS = 60
LAUNCHPADS = {"pump-fun", "raydium-launchlab", "meteora-dbc"}
VENUES = LAUNCHPADS | {
    "meteora-damm-v2",
    "meteora-dlmm",
    "orca-whirlpool",
    "pump-swap",
    "raydium-amm-v4",
    "raydium-clmm",
    "raydium-cpmm",
}
KNOBS = Knobs(seed=11, rate=400, forks=0.1, skipped=0.05, malformed=0.02, wallets=120)


def run(knobs: Knobs, slots: int) -> tuple[list[SlotEvent], list[dict]]:
    sink = io.BytesIO()
    events = list(Market(knobs, Truth(sink)).generate(slots))
    return events, [json.loads(line) for line in sink.getvalue().splitlines()]


@pytest.fixture(scope="module")
def chain() -> tuple[list[SlotEvent], list[dict]]:
    return run(KNOBS, SLOTS)


def by_slot(events: list[SlotEvent]) -> dict[int, list[ChainTransaction]]:
    found: dict[int, list[ChainTransaction]] = {}
    for event in events:
        if isinstance(event, SlotStarted):
            found[event.slot] = []
        elif isinstance(event, SlotTransactions):
            found[event.slot] += event.transactions
    return found


def parse(transaction: ChainTransaction) -> SubscribeUpdateTransactionInfo:
    return SubscribeUpdateTransactionInfo.FromString(transaction.info)


def keys_of(info: SubscribeUpdateTransactionInfo) -> list[bytes]:
    meta = info.meta
    return [
        *info.transaction.message.account_keys,
        *meta.loaded_writable_addresses,
        *meta.loaded_readonly_addresses,
    ]


def token_deltas(info: SubscribeUpdateTransactionInfo) -> dict[str, int]:
    deltas: dict[str, int] = defaultdict(int)
    for sign, balances in ((-1, info.meta.pre_token_balances), (1, info.meta.post_token_balances)):
        for balance in balances:
            deltas[balance.mint] += sign * int(balance.ui_token_amount.amount)
    return deltas


def instructions_of(info: SubscribeUpdateTransactionInfo) -> list[tuple[bytes, bytes]]:
    """Program and data of all instructions, flattened in execution order."""
    keys = keys_of(info)
    inner = {group.index: group.instructions for group in info.meta.inner_instructions}
    found = []
    for number, outer in enumerate(info.transaction.message.instructions):
        found.append((keys[outer.program_id_index], outer.data))
        found += [(keys[i.program_id_index], i.data) for i in inner.get(number, ())]
    return found


def test_lamports_change_by_the_fee_alone(chain):
    for transactions in by_slot(chain[0]).values():
        for transaction in transactions:
            meta = parse(transaction).meta
            assert sum(meta.post_balances) - sum(meta.pre_balances) == -meta.fee


def test_tokens_are_neither_made_nor_lost(chain):
    wrapped = "So11111111111111111111111111111111111111112"
    token_programs = {"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"}
    seen_fee = 0
    for transactions in by_slot(chain[0]).values():
        for transaction in transactions:
            info = parse(transaction)
            made = any(data[:1] in (b"\x07", b"\x08") for _, data in instructions_of(info))
            for mint, delta in token_deltas(info).items():
                if mint == wrapped or made:
                    continue
                programs = {
                    balance.program_id
                    for balance in info.meta.post_token_balances
                    if balance.mint == mint
                }
                if delta:
                    # Only Token-2022 withholds; what is withheld is in no account's amount.
                    assert delta < 0
                    assert not programs & token_programs
                    seen_fee += 1
    assert seen_fee, "no transfer fee was ever withheld"


def test_each_balance_starts_where_the_last_one_ended(chain):
    events, truth = chain
    canonical = {row["slot"] for row in truth if row["kind"] == "slot" and row["canonical"]}
    lamports: dict[bytes, int] = {}
    tokens: dict[bytes, int] = {}
    for slot, transactions in by_slot(events).items():
        if slot not in canonical:
            continue
        for transaction in transactions:
            info = parse(transaction)
            keys = keys_of(info)
            for key, before, after in zip(
                keys, info.meta.pre_balances, info.meta.post_balances, strict=True
            ):
                assert lamports.get(key, before) == before
                lamports[key] = after
            for balance in info.meta.pre_token_balances:
                key, amount = keys[balance.account_index], int(balance.ui_token_amount.amount)
                assert tokens.get(key, amount) == amount
                tokens.pop(key, None)
            for balance in info.meta.post_token_balances:
                tokens[keys[balance.account_index]] = int(balance.ui_token_amount.amount)


def moves_on_its_own(info: SubscribeUpdateTransactionInfo) -> bool:
    """Whether an outer instruction transfers or burns tokens, beside the swap."""
    keys = keys_of(info)
    return any(
        keys[instruction.program_id_index] in (TOKEN.address, TOKEN_2022.address)
        and instruction.data[0] in (3, 8, 12, 26)
        for instruction in info.transaction.message.instructions
    )


def test_the_truth_of_each_swap_is_what_vaults_and_wallets_show(chain):
    """Token sides of a wallet's only swap equal the balance changes of its accounts."""
    events, truth = chain
    infos = {
        (slot, transaction.index): parse(transaction)
        for slot, transactions in by_slot(events).items()
        for transaction in transactions
    }
    per_transaction: dict[tuple[int, int], list[dict]] = defaultdict(list)
    for row in truth:
        if row["kind"] == "swap":
            per_transaction[row["slot"], row["tx_index"]].append(row)
    checked = 0
    for place, rows in per_transaction.items():
        if len(rows) != 1:
            continue
        [row] = rows
        if row["token_owner"] != row["wallet"]:
            continue  # a router's accounts stand between
        if moves_on_its_own(infos[place]):
            continue
        owned: dict[str, int] = defaultdict(int)
        for sign, balances in (
            (-1, infos[place].meta.pre_token_balances),
            (1, infos[place].meta.post_token_balances),
        ):
            for balance in balances:
                if balance.owner == row["wallet"] and balance.mint == row["mint"]:
                    owned[balance.mint] += sign * int(balance.ui_token_amount.amount)
        sign = 1 if row["side"] == "buy" else -1
        assert owned[row["mint"]] == sign * int(row["wallet_amount_raw"]), row
        checked += 1
    assert checked > 500


def test_a_place_in_the_truth_is_the_venues_instruction(chain):
    events, truth = chain
    transactions = by_slot(events)
    seen = set()
    for row in truth:
        if row["kind"] not in ("swap", "creation", "migration"):
            continue
        info = parse(transactions[row["slot"]][row["tx_index"]])
        program, _ = instructions_of(info)[row["event_index"]]
        assert info.meta.HasField("err") is False
        seen.add((row["kind"], row["dex"], program))
    assert {dex for kind, dex, _ in seen if kind == "swap"} == VENUES
    assert {dex for kind, dex, _ in seen if kind == "creation"} == LAUNCHPADS


def test_same_knobs_give_the_same_bytes():
    first, truth = run(KNOBS, 12)
    second, same_truth = run(KNOBS, 12)
    assert first == second
    assert truth == same_truth
    other, _ = run(Knobs(seed=12, rate=400, wallets=120), 12)
    assert other != first


DIGEST = """
import hashlib
from infra.chain.market import Knobs, Market

digest = hashlib.sha256()
for event in Market(Knobs(seed=3, rate=300, forks=0.2, malformed=0.05, wallets=60)).generate(8):
    for transaction in getattr(event, "transactions", ()):
        digest.update(transaction.info)
print(digest.hexdigest())
"""


def test_bytes_do_not_depend_on_the_process():
    """Sets and dictionaries of bytes are ordered differently in every process."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_statuses_of_slots_come_in_a_lawful_order(chain):
    events, truth = chain
    canonical = {row["slot"]: row["canonical"] for row in truth if row["kind"] == "slot"}
    state: dict[int, str] = {}
    parents: dict[int, int] = {}
    for event in events:
        match event:
            case SlotStarted(slot, parent):
                assert slot not in state
                assert state.get(parent, "genesis") != "dead"
                state[slot], parents[slot] = "started", parent
            case SlotTransactions(slot, transactions):
                assert state[slot] == "started"
                assert transactions
            case SlotCompleted(header):
                assert state[header.slot] == "started"
                assert header.parent_slot == parents[header.slot]
                state[header.slot] = "completed"
            case SlotDead(slot, _):
                assert state[slot] == "started"
                assert not canonical[slot]
                state[slot] = "dead"
            case SlotConfirmed(slot):
                assert state[slot] == "completed"
                assert canonical[slot]
                assert state.get(parents[slot], "confirmed") in ("confirmed", "finalized")
                state[slot] = "confirmed"
            case SlotFinalized(slot):
                assert state[slot] == "confirmed"
                state[slot] = "finalized"
    assert {"finalized", "confirmed"} <= set(state.values())
    assert not all(canonical.values()), "no branch was abandoned"


def test_a_signature_is_canonical_once_and_may_have_been_on_a_branch(chain):
    events, truth = chain
    canonical = {row["slot"] for row in truth if row["kind"] == "slot" and row["canonical"]}
    seen: set[bytes] = set()
    branches: set[bytes] = set()
    for slot, transactions in by_slot(events).items():
        assert [transaction.index for transaction in transactions] == list(range(len(transactions)))
        signatures = {transaction.signature for transaction in transactions}
        assert len(signatures) == len(transactions)
        if slot in canonical:
            assert not signatures & seen
            seen |= signatures
        else:
            branches |= signatures
    assert branches & seen, "nothing landed again"
    assert branches - seen, "everything landed again"


def test_malformed_transactions_carry_no_readable_event(chain):
    events, truth = chain
    transactions = by_slot(events)
    rows = [row for row in truth if row["kind"] == "malformed" and row["of"] == "swap"]
    assert rows
    for row in rows:
        info = parse(transactions[row["slot"]][row["tx_index"]])
        assert len(instructions_of(info)[row["event_index"]][1]) < 16
        for line in info.meta.log_messages:
            if line.startswith("Program data: "):
                assert len(base64.b64decode(line[14:])) < 40
