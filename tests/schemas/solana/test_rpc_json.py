from __future__ import annotations

import base64
import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.solana.rpc_json import (
    transaction_from_json,
    transaction_info_from_json,
    transaction_to_json,
)
from tests.support.exploring import SLOW, examples

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "transactions.jsonl"

KEYS = [
    "GKj54MVFppoYsxPU9jMn7CMniVRAuveFadyTtFhn1vXy",
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "11111111111111111111111111111111",
]
SIGNATURE = "1GMkH3brNXiNNs1tiFZHu4yZSRrzJwxi5wB9bHFtMinfCXNnR1adh8Vo8NTheK4evneedH4qmvjeqcBBNAefgS"


def answer(version: int | str = "legacy") -> dict[str, Any]:
    """A getTransaction answer with every part in it."""
    message: dict[str, Any] = {
        "header": {
            "numRequiredSignatures": 1,
            "numReadonlySignedAccounts": 0,
            "numReadonlyUnsignedAccounts": 2,
        },
        "accountKeys": KEYS,
        "recentBlockhash": KEYS[0],
        "instructions": [
            {"programIdIndex": 2, "accounts": [0, 1], "data": "3Bxs4", "stackHeight": 1}
        ],
    }
    loaded: dict[str, list[str]] = {"writable": [], "readonly": []}
    if version == 0:
        message["addressTableLookups"] = [
            {"accountKey": KEYS[1], "writableIndexes": [7], "readonlyIndexes": [9, 255]}
        ]
        loaded = {"writable": [KEYS[0]], "readonly": [KEYS[1], KEYS[2]]}
    balance = {
        "accountIndex": 1,
        "mint": KEYS[0],
        "uiTokenAmount": {
            "uiAmount": 1.5,
            "decimals": 6,
            "amount": "1500000",
            "uiAmountString": "1.5",
        },
        "owner": KEYS[0],
        "programId": KEYS[1],
    }
    return {
        "slot": 301_807_437,
        "blockTime": 1_731_789_673,
        "version": version,
        "transaction": {"signatures": [SIGNATURE], "message": message},
        "meta": {
            "err": {"InstructionError": [0, {"Custom": 6001}]},
            "status": {"Err": {"InstructionError": [0, {"Custom": 6001}]}},
            "fee": 5000,
            "preBalances": [10_000, 1, 2**64 - 1],
            "postBalances": [5_000, 1, 2**64 - 1],
            "innerInstructions": [
                {
                    "index": 0,
                    "instructions": [
                        {"programIdIndex": 1, "accounts": [0], "data": "P", "stackHeight": 2}
                    ],
                }
            ],
            "logMessages": ["Program log: hello"],
            "preTokenBalances": [],
            "postTokenBalances": [balance],
            "rewards": [
                {
                    "pubkey": KEYS[0],
                    "lamports": -3,
                    "postBalance": 4,
                    "rewardType": "Rent",
                    "commission": None,
                }
            ],
            "loadedAddresses": loaded,
            "returnData": {"programId": KEYS[1], "data": ["aGVsbG8=", "base64"]},
            "computeUnitsConsumed": 1_234,
            "costUnits": 2_345,
        },
    }


def _with_outer_heights(transaction: dict[str, Any]) -> dict[str, Any]:
    """Older validators answered null where newer ones say that outer instructions are at 1."""
    out = copy.deepcopy(transaction)
    for instruction in out["message"]["instructions"]:
        instruction["stackHeight"] = 1
    return out


@pytest.mark.parametrize("version", ["legacy", 0])
@pytest.mark.parametrize("encoding", ["json", "base64", "base58"])
def test_there_and_back(version: int | str, encoding: Any) -> None:
    given_answer = answer(version)
    read = transaction_from_json(given_answer)
    assert (read.slot, read.block_time) == (301_807_437, 1_731_789_673)
    written = transaction_to_json(read.info, encoding)
    assert written["meta"] == given_answer["meta"]
    assert written["version"] == version
    if encoding == "json":
        assert written["transaction"] == given_answer["transaction"]
    assert transaction_from_json({**given_answer, **written}) == read


def test_the_fields_land_where_the_wire_has_them() -> None:
    info = transaction_info_from_json(answer(0), index=17)
    assert info.index == 17
    assert info.signature == info.transaction.signatures[0] == bytes(range(64))
    assert info.transaction.message.versioned
    assert info.transaction.message.header.num_readonly_unsigned_accounts == 2
    assert info.transaction.message.address_table_lookups[0].readonly_indexes == b"\x09\xff"
    assert [len(info.meta.loaded_writable_addresses), len(info.meta.loaded_readonly_addresses)] == [
        1,
        2,
    ]
    assert info.meta.inner_instructions[0].instructions[0].stack_height == 2
    assert info.meta.post_token_balances[0].ui_token_amount.ui_amount == 1.5
    assert info.meta.return_data.data == b"hello"
    assert info.meta.compute_units_consumed == 1_234


def test_what_is_not_there_is_said_as_yellowstone_says_it() -> None:
    bare = answer()
    bare["meta"] = {"err": None}
    info = transaction_info_from_json(bare)
    assert info.meta.inner_instructions_none
    assert info.meta.log_messages_none
    assert info.meta.return_data_none
    assert not info.meta.HasField("err")
    assert not info.meta.HasField("compute_units_consumed")
    for field in ("slot", "blockTime", "version", "meta"):
        del bare[field]
    read = transaction_from_json(bare)
    assert (read.slot, read.block_time) == (None, None)
    assert not read.info.HasField("meta")


def test_the_envelope_and_unknown_fields_are_looked_through() -> None:
    inner = answer(0)
    enveloped = {"jsonrpc": "2.0", "id": 1, "result": {**inner, "venues": ["x"], "source": "y"}}
    assert transaction_from_json(enveloped) == transaction_from_json(inner)


def test_return_data_without_data_needs_no_encoding() -> None:
    read = transaction_info_from_json(_set("meta.returnData.data", ["", ""]))
    assert read.meta.return_data.data == b""


def test_a_block_entry_takes_its_index() -> None:
    entry = {key: answer(0)[key] for key in ("transaction", "meta", "version")}
    assert transaction_info_from_json(entry, index=3).index == 3
    assert transaction_info_from_json({**entry, "transactionIndex": 4}).index == 4


def test_votes_are_recognized() -> None:
    vote = answer()
    vote["transaction"]["message"]["accountKeys"] = [
        *KEYS[:2],
        "Vote111111111111111111111111111111111111111",
    ]
    assert transaction_info_from_json(vote).is_vote
    assert not transaction_info_from_json(answer()).is_vote


def _set(path: str, value: Any) -> dict[str, Any]:
    out = copy.deepcopy(answer(0))
    *parents, last = path.split(".")
    target: Any = out
    for name in parents:
        target = target[int(name) if name.isdigit() else name]
    target[int(last) if last.isdigit() else last] = value
    return out


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("transaction", None, "transaction: an object or"),
        ("transaction", ["AA==", "base64"], "transaction: not a serialized transaction"),
        ("transaction", ["AA==", "jsonParsed"], "transaction: encoding 'jsonParsed'"),
        ("transaction", ["A", "base64"], "transaction: "),
        ("transaction.signatures", [], "transaction.signatures: empty"),
        ("transaction.signatures.0", "22", r"transaction.signatures\[0\]: 1 bytes, 64"),
        ("transaction.message", 3, "transaction.message: an object is expected, not int"),
        ("transaction.message.accountKeys", [], "accountKeys: empty"),
        ("transaction.message.accountKeys.1", {"pubkey": "x"}, r"accountKeys\[1\]: text"),
        ("transaction.message.instructions.0.accounts", [256], r"instructions\[0\].accounts"),
        ("transaction.message.instructions.0.data", "0", r"instructions\[0\].data: '0' is not"),
        ("transaction.message.instructions.0", {"programId": "x"}, "jsonParsed is not read"),
        ("version", 2, "version: 2 is not"),
        ("slot", "7", "slot: a whole number is expected, not str"),
        ("meta", [], "meta: an object"),
        ("meta.fee", -1, "meta.fee: -1 does not fit"),
        ("meta.preBalances", [1.5], r"meta.preBalances\[0\]: a whole number"),
        ("meta.logMessages", ["\ud800"], r"meta.logMessages\[0\]: text with half a surrogate"),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", "1.5", "amount: '1.5' is no"),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", "9" * 99, "is no 64-bit amount"),
        ("meta.rewards.0.rewardType", "Gift", "rewardType: 'Gift' is unknown"),
        ("meta.loadedAddresses", 5, "meta.loadedAddresses: an object"),
        ("meta.returnData.data", ["hi", "utf8"], "returnData.data: encoding 'utf8'"),
        ("meta.innerInstructions.0.index", 300, r"innerInstructions\[0\].index: 300"),
    ],
)
def test_a_wrong_field_is_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transaction_from_json(_set(path, value))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"result": None}, "result: an object is expected, not null"),
        ({"error": {"code": -32009}}, "error: the RPC answered"),
        ({}, "transaction: missing"),
        ([], "an object is expected, not list"),
    ],
)
def test_answers_without_a_transaction(line: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transaction_from_json(line)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            out += _paths(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            out += _paths(item, (*path, i))
    return out


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None)),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=4,
)


@examples(500, SLOW)
@given(st.sampled_from(_paths(answer(0))), JSON)
def test_any_value_anywhere_is_read_or_refused(path: tuple[Any, ...], value: Any) -> None:
    mutated = copy.deepcopy(answer(0))
    target: Any = mutated
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    with contextlib.suppress(ValueError):
        info = transaction_from_json(mutated).info
        wire = info.SerializeToString()
        assert type(info).FromString(wire).SerializeToString() == wire


@examples(300)
@given(st.binary(max_size=400))
def test_any_wire_bytes_are_read_or_refused(wire: bytes) -> None:
    with contextlib.suppress(ValueError):
        wrapped = {"transaction": [base64.b64encode(wire).decode(), "base64"]}
        info = transaction_from_json(wrapped).info
        written = info.SerializeToString()
        assert type(info).FromString(written).SerializeToString() == written


@pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS}")
def test_real_transactions_survive_the_round_trip() -> None:
    lines = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    assert len(lines) >= 200
    for line in lines:
        read = transaction_from_json(line)
        written = transaction_to_json(read.info)
        expected = json.loads(
            json.dumps({key: line[key] for key in ("transaction", "meta", "version")})
        )
        expected["transaction"] = _with_outer_heights(expected["transaction"])
        for balance in (
            *expected["meta"]["preTokenBalances"],
            *expected["meta"]["postTokenBalances"],
        ):
            # Some tools keep 0 where RPC has null.
            balance["uiTokenAmount"]["uiAmount"] = balance["uiTokenAmount"]["uiAmount"] or None
        assert written == expected, line["signature"]
        for encoding in ("base64", "base58"):
            rewritten = {**line, **transaction_to_json(read.info, encoding)}
            assert transaction_from_json(rewritten) == read, line["signature"]
