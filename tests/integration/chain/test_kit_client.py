"""RPC compatibility, shown: Solana's own JavaScript client reads what the local chain answers."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support import account_world as world
from tests.support import npm
from tests.support.account_world import text
from tests.support.account_writes import address, token_account
from tests.support.systems import bound

Serve = Any
SCRIPT = Path(__file__).parent / "kit_client"
# The client asks for `confirmed` where a call names no commitment.
FINALIZED = {"commitment": "finalized"}
CONFIRMED = {"commitment": "confirmed"}
BASE64 = {**FINALIZED, "encoding": "base64"}
FINAL, LATER = str(world.FINALIZED_SLOT), str(world.CONFIRMED_SLOT)

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """The client and what it depends on, from the npm registry; kept between runs."""
    return npm.installed(request, "kit-client", SCRIPT, "@solana/kit")


class Asked:
    """What is asked, in this order, and how many answers were taken."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.expected: list[Any] = []

    def ask(self, expected: Any, method: str, *params: Any) -> None:
        """Expect a value, or a function of it to be true."""
        self.calls.append((method, list(params)))
        self.expected.append(expected)

    async def run(self, folder: Path, port: int) -> None:
        node = await asyncio.create_subprocess_exec(
            *bound(["node", "ask.mjs", f"http://127.0.0.1:{port}"]),
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        asked = json.dumps(self.calls).encode()
        out, err = await asyncio.wait_for(node.communicate(asked), 240)  # on a busy machine
        assert node.returncode == 0, err.decode()
        answers = [json.loads(line) for line in out.splitlines()]
        assert len(answers) == len(self.calls)
        for call, expected, answer in zip(self.calls, self.expected, answers, strict=True):
            if isinstance(expected, RefusedAs):
                assert answer["error"]["code"] == expected.code, (call, answer)
                assert expected.context.items() <= answer["error"]["context"].items(), (
                    call,
                    answer,
                )
            else:
                assert answer == {"value": expected}, call


class RefusedAs:
    """An error the client knows by its code, with what it read from it."""

    def __init__(self, code: int, **context: Any) -> None:
        self.code = code
        self.context = context


def valued(slot: str, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": "3.0.0", "slot": slot}, "value": value}


def account(owner: bytes, lamports: int, data: Any, space: int) -> dict[str, Any]:
    return {
        "data": data,
        "executable": False,
        "lamports": str(lamports),
        "owner": text(owner),
        "rentEpoch": str(2**64 - 1),
        "space": str(space),
    }


def in_base64(data: bytes) -> list[str]:
    return [base64.b64encode(data).decode(), "base64"]


async def test_the_client_reads_what_is_there(serve: Serve, installed: Path) -> None:
    asked = Asked()
    native, system = text(world.NATIVE), bytes(32)
    hello = account(system, 1_000, in_base64(b"hello world"), 11)
    asked.ask(valued(FINAL, hello), "getAccountInfo", native, BASE64)
    asked.ask(
        valued(FINAL, {**hello, "data": in_base64(b"wor")}),
        "getAccountInfo",
        native,
        {**BASE64, "dataSlice": {"offset": 6, "length": 3}},
    )
    asked.ask(valued(FINAL, None), "getAccountInfo", text(address(9)), BASE64)
    asked.ask(valued(LATER, "2000"), "getBalance", native, CONFIRMED)
    changed = account(system, 2_000, in_base64(b""), 0)
    asked.ask(
        valued(LATER, [changed, None]),
        "getMultipleAccounts",
        [native, text(world.CLOSED_LATER)],
        {**BASE64, **CONFIRMED},
    )
    stakes = [
        {
            "pubkey": text(at),
            "account": account(STAKE_PROGRAM, 20, in_base64(world.stake(0)[:44]), 200),
        }
        for at in world.STAKES[::2]
    ]
    first = base64.b64encode(bytes(32)).decode()
    even = [
        {"memcmp": {"offset": 36, "bytes": first, "encoding": "base64"}},
        {"dataSize": 200},
    ]
    asked.ask(
        valued(FINAL, stakes),
        "getProgramAccounts",
        text(STAKE_PROGRAM),
        {
            **BASE64,
            "withContext": True,
            "filters": even,
            "dataSlice": {"offset": 0, "length": 44},
        },
    )
    amount = world.ui(500_000, 6, 0.5, "0.5")
    parsed = {
        "program": "spl-token",
        "space": "165",
        "parsed": {
            "type": "account",
            "info": {
                "isNative": False,
                "mint": text(world.MINT),
                "owner": text(world.WALLET),
                "state": "initialized",
                "tokenAmount": amount,
            },
        },
    }
    asked.ask(
        valued(
            FINAL,
            [{"pubkey": text(world.TOKEN), "account": account(TOKEN_PROGRAM, 10, parsed, 165)}],
        ),
        "getTokenAccountsByOwner",
        text(world.WALLET),
        {"mint": text(world.MINT)},
        {**FINALIZED, "encoding": "jsonParsed"},
    )
    extended = token_account(world.MINT_2022, world.WALLET, 7, state=2, extended=True)
    asked.ask(
        valued(
            FINAL,
            [
                {
                    "pubkey": text(world.TOKEN_2022),
                    "account": account(TOKEN_2022_PROGRAM, 10, in_base64(extended), len(extended)),
                }
            ],
        ),
        "getTokenAccountsByOwner",
        text(world.WALLET),
        {"programId": text(TOKEN_2022_PROGRAM)},
        BASE64,
    )
    asked.ask(valued(FINAL, amount), "getTokenAccountBalance", text(world.TOKEN), FINALIZED)
    supply = world.ui(1_234_500, 6, 1.2345, "1.2345")
    asked.ask(valued(FINAL, supply), "getTokenSupply", text(world.MINT), FINALIZED)
    largest = [
        {"address": text(world.TOKEN), **amount},
        *(
            {"address": text(at), **world.ui(10 * n, 6, n / 100_000, f"{n / 100_000:.5f}")}
            for n, at in list(enumerate(world.HOLDERS))[:5:-1]
        ),
    ]
    for each in largest[1:]:
        each["uiAmountString"] = each["uiAmountString"].rstrip("0")
    asked.ask(valued(FINAL, largest), "getTokenLargestAccounts", text(world.MINT), FINALIZED)
    asked.ask(
        {
            "absoluteSlot": LATER,
            "blockHeight": LATER,
            "epoch": "12",
            "slotIndex": "2",
            "slotsInEpoch": "100",
        },
        "getEpochInfo",
        CONFIRMED,
    )
    reward = {"epoch": "11", "effectiveSlot": FINAL, "commission": 7}
    asked.ask(
        [{**reward, "amount": "15", "postBalance": "35"}, None],
        "getInflationReward",
        [text(each) for each in world.STAKES[:2]],
        {**FINALIZED, "epoch": 11},
    )
    voting = {
        "votePubkey": text(world.VALIDATOR),
        "nodePubkey": text(address(400)),
        "activatedStake": "5000",
        "commission": 7,
        "epochVoteAccount": True,
        "epochCredits": [[str(n), str(n * 10), str(n * 10 - 10)] for n in range(3, 8)],
        "lastVote": str(world.FINALIZED_SLOT - 1),
        "rootSlot": str(world.FINALIZED_SLOT - 32),
    }
    one = {**FINALIZED, "votePubkey": text(world.VALIDATOR)}
    asked.ask({"current": [voting], "delinquent": []}, "getVoteAccounts", one)

    # Errors that the client knows by code, and reads.
    newer = {**BASE64, "minContextSlot": 1_202}
    not_reached = RefusedAs(-32016, contextSlot=FINAL)
    asked.ask(not_reached, "getAccountInfo", native, newer)
    later = RefusedAs(-32004, __serverMessage="Block not available for slot 1300")
    asked.ask(later, "getInflationReward", [native], {**FINALIZED, "epoch": 12})
    many = RefusedAs(-32602, __serverMessage="Too many inputs provided; max 100")
    asked.ask(many, "getMultipleAccounts", [native] * 101)

    chain = await serve(world.AccountSource(world.genesis()))
    chain.publish(world.events())
    await asked.run(installed, chain.chain.rpc_port)


async def test_the_client_knows_why_scans_and_gaps_are_refused(
    serve: Serve, installed: Path
) -> None:
    asked = Asked()
    excluded = (
        f"{text(STAKE_PROGRAM)} excluded from account secondary indexes; "
        "this RPC method unavailable for key"
    )
    refused = RefusedAs(-32010, __serverMessage=excluded)
    asked.ask(refused, "getProgramAccounts", text(STAKE_PROGRAM), BASE64)
    gap = RefusedAs(-32018)
    asked.ask(gap, "getInflationReward", [], {**CONFIRMED, "epoch": 11})
    chain = await serve(world.AccountSource(()), program_scans=False)
    chain.publish([*world.block(1_150, 1_149), *world.block(1_205, 1_204)])
    chain.publish(world.confirmed(1_150, 1_205))
    await asked.run(installed, chain.chain.rpc_port)
