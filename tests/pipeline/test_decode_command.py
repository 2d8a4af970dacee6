"""`soltape decode` as a user types it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from infra.chain.market import Knobs, Market
from infra.chain.source import SlotTransactions
from pipeline.decode_command import decode
from pipeline.decoders.drift import FUNDING_PAYMENT_RECORD
from pipeline.decoders.drift import PROGRAM as DRIFT
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.rpc_json import transaction_to_json
from tests.support.decoding.builder import TransactionBuilder

TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
CORPUS = Path(__file__).parents[3] / "shared/corpus/transactions.jsonl"


@cache
def transactions() -> list[tuple[int, bytes]]:
    """Slots and transactions of the simulated market, swaps among them."""
    return [
        (event.slot, transaction.info)
        for event in Market(Knobs(seed=5, votes=0, failed=0.0)).generate(20)
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
    ]


def answers(count: int, encoding: str) -> list[bytes]:
    """getTransaction answers with swaps of the simulated market in them."""
    found = []
    for slot, info in transactions()[:count]:
        answer = transaction_to_json(SubscribeUpdateTransactionInfo.FromString(info), encoding)
        found.append(orjson.dumps(answer | {"slot": slot, "blockTime": 1}))
    return found


def run(*args: str, text: bytes) -> tuple[list[dict], str, int]:
    result = CliRunner().invoke(decode, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    lines = [orjson.loads(line) for line in result.stdout.splitlines()]
    return lines, result.stderr, result.exit_code


def test_perp_events_come_after_the_others() -> None:
    tx = TransactionBuilder("keeper")
    settling = tx.call(DRIFT, "state user", bytes(8))
    record = FUNDING_PAYMENT_RECORD + bytes(8 + 64 + 2 + 24 + 32)
    tx.log_event(settling, record)
    info = tx.info()
    info.transaction.message.recent_blockhash = bytes(32)
    info.meta.log_messages.pop()  # `success`
    line = orjson.dumps(transaction_to_json(info, "json") | {"slot": 7, "blockTime": 1})
    (payment, gap), _, status = run(text=line)
    assert status == 0
    assert (payment["kind"], payment["payment_raw"]) == ("funding_payment", "0")
    assert (gap["kind"], gap["reason"]) == ("perp_gap", "log ends early")


def test_both_encodings_and_the_rpc_envelope_give_the_same_events() -> None:
    plain, _, status = run(text=b"\n".join(answers(40, "json")))
    assert status == 0
    assert {event["kind"] for event in plain} >= {"swap"}
    assert all(isinstance(e["amount_raw"], str) for e in plain if e["kind"] == "swap")
    assert all(e["block_time_ms"] == 1000 for e in plain)
    packed, _, _ = run("-", text=b"\n".join(answers(40, "base64")))
    assert packed == plain
    envelope = [
        orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": orjson.loads(line)})
        for line in answers(40, "json")
    ]
    assert run(text=b"\n".join(envelope))[0] == plain


def test_a_line_that_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    first, second = answers(2, "json")
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b"\n".join([first, b"{nope", b"", b'{"slot": 1}', second]))
    events, errors, status = run(str(file), text=b"")
    assert status == 1
    assert "line 2: " in errors
    assert "line 4: transaction: missing" in errors
    assert "2 lines could not be read" in errors
    assert {event["signature"] for event in events} == {
        orjson.loads(line)["transaction"]["signatures"][0] for line in (first, second)
    }


def test_check_explains_every_swap() -> None:
    lines, errors, status = run("--check", text=b"\n".join(answers(300, "json")))
    report = lines[-1]
    assert status == 0
    assert report["kind"] == "conservation"
    assert report["with_swaps"] > 100
    assert (report["share"], report["differences"]) == (1.0, [])
    assert "fully explained" in errors
    exchanges = report["exchanges"]
    assert exchanges["transactions"] > 100
    assert (exchanges["share"], exchanges["unexplained"]) == (1.0, {})


def test_check_counts_a_line_that_cannot_be_read_as_not_explained() -> None:
    lines, _, status = run("--check", "--show", "0", text=b"{nope\n" + answers(1, "json")[0])
    assert status == 1
    exchanges = lines[-1]["exchanges"]
    assert exchanges["unreadable"] == 1
    assert exchanges["transactions"] == exchanges["explained"] + 1


def test_check_sees_a_swap_that_does_not_add_up() -> None:
    answer = next(
        orjson.loads(line)
        for line in answers(300, "json")
        if any(event["dex"] == "raydium-amm-v4" for event in run(text=line)[0])
    )
    for balance in answer["meta"]["postTokenBalances"]:
        amount = balance["uiTokenAmount"]
        amount["amount"] = str(int(amount["amount"]) + 1)
    report = run("--check", text=orjson.dumps(answer))[0][-1]
    assert report["explained"] == 0
    assert {each["role"] for each in report["differences"]} >= {"vault"}


@pytest.mark.parametrize("program", ["11111111111111111111111111111111", TOKEN])
def test_check_survives_malformed_instructions(program: str) -> None:
    """Of the System and Token programs, which every transaction calls."""
    found = []
    for line in answers(300, "json"):
        answer = orjson.loads(line)
        message = answer["transaction"]["message"]
        if program in message["accountKeys"]:
            at = message["accountKeys"].index(program)
            for tag in (0, 2, 3, 7, 8, 9, 12, 18, 26):
                data = base58.encode(bytes([tag, 0, 0, 0])[: 1 + 3 * (program != TOKEN)])
                message["instructions"].append(
                    {"programIdIndex": at, "accounts": [], "data": data, "stackHeight": None}
                )
            found.append(orjson.dumps(answer))
    lines, _, status = run("--check", text=b"\n".join(found))
    assert status == 0
    report = lines[-1]
    assert report["transactions"] == len(found) > 20
    assert report["share"] == 1.0
    assert report["unreadable"] == []


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real transactions is not here")
def test_real_transactions_are_fully_explained() -> None:
    lines, _, status = run("--check", "--undecoded", str(CORPUS), text=b"")
    report = lines[-1]
    assert status == 0
    assert report["with_swaps"] >= 118
    assert report["share"] == 1.0, report["differences"]
    exchanges = report["exchanges"]
    assert exchanges["transactions"] >= 120
    assert exchanges["share"] >= 0.99, exchanges["unexplained"]
    assert exchanges["unreadable"] == 0
    assert {name.split()[0] for name in exchanges["excluded"]} == {"byreal", "raydium-amm-v4"}
    wallets = report["wallets"]
    assert (wallets["passed_on"], wallets["examples"]) == (0, [])
    assert wallets["order"] >= 10
    assert wallets["account"] >= 3
    assert not [line for line in lines if line["kind"] == "undecoded"]
