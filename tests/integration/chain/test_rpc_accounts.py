"""Accounts, tokens, epochs and validators over RPC; solders' parsers read every answer too."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
import zstandard
from solders.rpc import responses

from infra.chain.market import Knobs, Market
from infra.chain.source import (
    AccountWrite,
    SlotCompleted,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.solana.addresses import (
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
)
from tests.support import account_world as world
from tests.support.account_world import text
from tests.support.account_writes import address

Serve = Any
BASE64 = {"encoding": "base64"}
FINALIZED = {"slot": world.FINALIZED_SLOT, "apiVersion": "3.0.0"}

ERRORS = {
    -32001: "BlockCleanedUpMessage",
    -32004: "BlockNotAvailableMessage",
    -32010: "KeyExcludedFromSecondaryIndexMessage",
    -32016: "MinContextSlotNotReachedMessage",
    -32018: "int",  # of an error that solders does not know; @solana/kit does
    -32600: "InvalidRequestMessage",
    -32602: "InvalidParamsMessage",
}


class Rpc:
    """Calls, whose answers the parser of the method must accept as they are."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self.url = url

    async def raw(self, method: str, *params: Any) -> bytes:
        call = {"jsonrpc": "2.0", "id": 4, "method": method, "params": params}
        async with self._http.post(self.url, json=call) as answer:
            assert answer.status == 200
            return await answer.read()

    async def call(self, parser: Any, method: str, *params: Any) -> Any:
        raw = await self.raw(method, *params)
        read = parser.from_json(raw.decode())
        assert isinstance(read, parser), read
        return orjson.loads(raw)["result"]

    async def fail(self, method: str, *params: Any) -> dict[str, Any]:
        raw = await self.raw(method, *params)
        error = orjson.loads(raw)["error"]
        read = responses.GetBalanceResp.from_json(raw.decode())
        assert type(read).__name__ == ERRORS[error["code"]]
        assert isinstance(error, dict)
        return error


@pytest.fixture
async def rpc(serve: Serve) -> AsyncIterator[Rpc]:
    chain = await serve(world.AccountSource(world.genesis()))
    chain.publish(world.events())
    async with aiohttp.ClientSession() as http:
        yield Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")


async def test_every_commitment_has_its_own_state_and_slot(rpc: Rpc) -> None:
    lamports = {"finalized": 1_000, "confirmed": 2_000, "processed": 3_000}
    for commitment, slot in world.SLOTS.items():
        config = {"commitment": commitment, "encoding": "base64"}
        balance = await rpc.call(responses.GetBalanceResp, "getBalance", text(world.NATIVE), config)
        assert balance == {"context": {**FINALIZED, "slot": slot}, "value": lamports[commitment]}
        both = await rpc.call(
            responses.GetMultipleAccountsResp,
            "getMultipleAccounts",
            [text(world.NATIVE), text(world.CLOSED_LATER), text(address(9))],
            config,
        )
        assert both["context"]["slot"] == slot
        native, closed, missing = both["value"]
        assert native["lamports"] == lamports[commitment]
        assert (closed is None) == (commitment != "finalized")
        assert missing is None
    default = await rpc.call(responses.GetBalanceResp, "getBalance", text(address(9)))
    assert default == {"context": FINALIZED, "value": 0}


async def test_data_comes_in_every_encoding_and_in_slices(rpc: Rpc) -> None:
    async def data(**config: Any) -> Any:
        answer = await rpc.call(
            responses.GetAccountInfoResp, "getAccountInfo", text(world.NATIVE), config
        )
        assert answer["value"]["space"] == 11
        return answer["value"]["data"]

    plain = text(b"hello world")
    assert await data() == plain
    assert await data(encoding="base58") == [plain, "base58"]
    assert await data(encoding="base64") == [base64.b64encode(b"hello world").decode(), "base64"]
    frame, name = await data(encoding="base64+zstd")
    assert name == "base64+zstd"
    assert zstandard.decompress(base64.b64decode(frame)) == b"hello world"
    for offset, length, expected in ((6, 2, b"wo"), (6, 100, b"world"), (11, 1, b""), (50, 9, b"")):
        cut = {"offset": offset, "length": length}
        assert await data(encoding="base64", dataSlice=cut) == [
            base64.b64encode(expected).decode(),
            "base64",
        ]


async def test_token_accounts_and_mints_come_parsed(rpc: Rpc) -> None:
    async def parsed(at: bytes) -> Any:
        answer = await rpc.call(
            responses.GetAccountInfoJsonParsedResp,
            "getAccountInfo",
            text(at),
            {"encoding": "jsonParsed"},
        )
        return answer["value"]["data"]

    wallet = text(world.WALLET)
    assert await parsed(world.TOKEN) == {
        "program": "spl-token",
        "parsed": {
            "type": "account",
            "info": {
                "mint": text(world.MINT),
                "owner": wallet,
                "state": "initialized",
                "isNative": False,
                "tokenAmount": world.ui(500_000, 6, 0.5, "0.5"),
            },
        },
        "space": 165,
    }
    extended = await parsed(world.TOKEN_2022)
    assert extended["program"] == "spl-token-2022"
    assert extended["parsed"]["info"]["state"] == "frozen"
    assert extended["parsed"]["info"]["extensions"] == [{"extension": "immutableOwner"}]
    assert (await parsed(world.MINT))["parsed"] == {
        "type": "mint",
        "info": {
            "mintAuthority": wallet,
            "freezeAuthority": None,
            "supply": "1234500",
            "decimals": 6,
            "isInitialized": True,
        },
    }
    # What cannot be parsed, here without its mint, comes as base64.
    answer = await rpc.call(
        responses.GetAccountInfoMaybeJsonParsedResp,
        "getAccountInfo",
        text(world.ORPHAN),
        {"encoding": "jsonParsed"},
    )
    assert answer["value"]["data"][1] == "base64"


async def test_program_accounts_are_filtered_and_sorted(rpc: Rpc) -> None:
    async def found(program: bytes, *filters: Any) -> list[str]:
        config = {"filters": filters, **BASE64}
        answer = await rpc.call(
            responses.GetProgramAccountsResp, "getProgramAccounts", text(program), config
        )
        return [each["pubkey"] for each in answer]

    def memcmp(offset: int, data: bytes, **encoding: str) -> dict[str, Any]:
        given: Any = text(data)
        if encoding.get("encoding") == "base64":
            given = base64.b64encode(data).decode()
        return {"memcmp": {"offset": offset, "bytes": given, **encoding}}

    stakes = [text(each) for each in world.STAKES]
    even = stakes[::2]
    assert await found(STAKE_PROGRAM) == stakes
    assert await found(STAKE_PROGRAM, {"dataSize": 200}) == stakes
    assert await found(STAKE_PROGRAM, {"dataSize": 199}) == []
    assert await found(STAKE_PROGRAM, memcmp(36, bytes(32))) == even
    assert await found(STAKE_PROGRAM, memcmp(36, bytes(32), encoding="base64")) == even
    raw = {"memcmp": {"offset": 36, "bytes": [1, 1]}}
    assert await found(STAKE_PROGRAM, raw, {"dataSize": 200}) == stakes[1::2]
    assert await found(STAKE_PROGRAM, memcmp(199, b"\0\0")) == []
    assert await found(STAKE_PROGRAM, memcmp(201, b"")) == []
    of_mint = [text(each) for each in (world.TOKEN, *world.HOLDERS)]
    for shape in ({"dataSize": 165}, "tokenAccountState", memcmp(108, b"\1")):
        assert await found(TOKEN_PROGRAM, memcmp(0, world.MINT), shape) == of_mint
        of_wallet = [text(world.TOKEN), text(world.ORPHAN)]
        assert await found(TOKEN_PROGRAM, memcmp(32, world.WALLET), shape) == of_wallet
    assert await found(SYSTEM_PROGRAM) == [text(world.NATIVE), text(world.CLOSED_LATER)]
    in_context = await rpc.call(
        responses.GetProgramAccountsWithContextResp,
        "getProgramAccounts",
        text(STAKE_PROGRAM),
        {"withContext": True, "dataSlice": {"offset": 4, "length": 32}, **BASE64},
    )
    assert in_context["context"] == FINALIZED
    cut = base64.b64encode(world.WALLET).decode()
    assert [each["account"]["data"] for each in in_context["value"]] == [[cut, "base64"]] * 10


async def test_token_accounts_of_a_wallet(rpc: Rpc) -> None:
    async def found(wallet: bytes, wanted: dict[str, str], **config: Any) -> list[str]:
        parser: Any = responses.GetTokenAccountsByOwnerResp
        if config.get("encoding") == "jsonParsed":
            parser = responses.GetTokenAccountsByOwnerJsonParsedResp
        answer = await rpc.call(
            parser, "getTokenAccountsByOwner", text(wallet), wanted, {**BASE64, **config}
        )
        assert answer["context"] == FINALIZED
        return [each["pubkey"] for each in answer["value"]]

    classic, extended = {"programId": text(TOKEN_PROGRAM)}, {"programId": text(TOKEN_2022_PROGRAM)}
    assert await found(world.WALLET, classic) == [text(world.TOKEN), text(world.ORPHAN)]
    assert await found(world.WALLET, extended) == [text(world.TOKEN_2022)]
    assert await found(world.WALLET, extended, encoding="jsonParsed") == [text(world.TOKEN_2022)]
    assert await found(world.WALLET, {"mint": text(world.MINT)}) == [text(world.TOKEN)]
    assert await found(world.WALLET, {"mint": text(world.MINT_2022)}) == [text(world.TOKEN_2022)]
    assert await found(address(9), classic) == []
    holders = [text(each) for each in world.HOLDERS]
    assert await found(world.OTHER_WALLET, {"mint": text(world.MINT)}) == holders


async def test_token_amounts(rpc: Rpc) -> None:
    balance = await rpc.call(
        responses.GetTokenAccountBalanceResp, "getTokenAccountBalance", text(world.TOKEN)
    )
    assert balance == {"context": FINALIZED, "value": world.ui(500_000, 6, 0.5, "0.5")}
    supply = await rpc.call(responses.GetTokenSupplyResp, "getTokenSupply", text(world.MINT))
    assert supply == {"context": FINALIZED, "value": world.ui(1_234_500, 6, 1.2345, "1.2345")}
    supply = await rpc.call(responses.GetTokenSupplyResp, "getTokenSupply", text(world.MINT_2022))
    assert supply["value"] == world.ui(77, 0, 77.0, "77")
    largest = await rpc.call(
        responses.GetTokenLargestAccountsResp, "getTokenLargestAccounts", text(world.MINT)
    )
    assert largest["context"] == FINALIZED
    assert largest["value"][0] == {
        "address": text(world.TOKEN),
        **world.ui(500_000, 6, 0.5, "0.5"),
    }
    addresses = [each["address"] for each in largest["value"]]
    assert addresses[1:] == [text(each) for each in world.HOLDERS[::-1][:19]]


async def test_epochs_and_validators(rpc: Rpc) -> None:
    info = await rpc.call(responses.GetEpochInfoResp, "getEpochInfo")
    assert info == {
        "absoluteSlot": world.FINALIZED_SLOT,
        "blockHeight": world.FINALIZED_SLOT,
        "epoch": 12,
        "slotIndex": 1,
        "slotsInEpoch": 100,
    }
    processed = await rpc.call(
        responses.GetEpochInfoResp, "getEpochInfo", {"commitment": "processed"}
    )
    assert processed["slotIndex"] == 3
    schedule = await rpc.call(responses.GetEpochScheduleResp, "getEpochSchedule")
    assert (schedule["slotsPerEpoch"], schedule["firstNormalSlot"]) == (100, 0)

    async def votes(**config: Any) -> tuple[list[str], list[str]]:
        answer = await rpc.call(responses.GetVoteAccountsResp, "getVoteAccounts", config)
        current, late = answer["current"], answer["delinquent"]
        return [each["votePubkey"] for each in current], [each["votePubkey"] for each in late]

    voting, delinquent, unstaked = (
        text(each) for each in (world.VALIDATOR, world.DELINQUENT, world.UNSTAKED)
    )
    assert await votes() == ([voting], [delinquent])
    assert await votes(delinquentSlotDistance=129) == ([voting, delinquent], [])
    assert await votes(keepUnstakedDelinquents=True) == ([voting], [delinquent, unstaked])
    assert await votes(votePubkey=delinquent) == ([], [delinquent])
    answer = await rpc.call(responses.GetVoteAccountsResp, "getVoteAccounts")
    assert answer["current"][0] == {
        "votePubkey": voting,
        "nodePubkey": text(address(400)),
        "activatedStake": 5_000,
        "commission": 7,
        "epochVoteAccount": True,
        "epochCredits": [[epoch, epoch * 10, epoch * 10 - 10] for epoch in range(3, 8)],
        "lastVote": world.FINALIZED_SLOT - 1,
        "rootSlot": world.FINALIZED_SLOT - 32,
    }


async def test_rewards_are_those_of_the_first_block_after_the_epoch(rpc: Rpc) -> None:
    asked = [text(each) for each in (*world.STAKES[:2], world.VALIDATOR)]
    for config in ((), ({"epoch": 11},), ({"epoch": 11, "commitment": "confirmed"},)):
        rewards = await rpc.call(
            responses.GetInflationRewardResp, "getInflationReward", asked, *config
        )
        same = {"epoch": 11, "effectiveSlot": world.FINALIZED_SLOT, "commission": 7}
        assert rewards == [
            {**same, "amount": 15, "postBalance": 35},
            None,
            {**same, "amount": 2, "postBalance": 90},
        ]
    boundary = await rpc.raw("getBlock", world.FINALIZED_SLOT, {"transactionDetails": "none"})
    assert [each["rewardType"] for each in orjson.loads(boundary)["result"]["rewards"]] == [
        "Staking",
        "Voting",
    ]
    assert await rpc.fail("getInflationReward", asked, {"epoch": 12}) == {
        "code": -32004,
        "message": "Block not available for slot 1300",
    }
    assert (await rpc.fail("getInflationReward", asked, {"epoch": 10}))["code"] == -32001


async def test_a_gap_at_the_epochs_end_has_no_rewards(serve: Serve) -> None:
    chain = await serve(world.AccountSource(()))
    chain.publish([*world.block(1_150, 1_149), *world.block(1_205, 1_204)])
    chain.publish(world.confirmed(1_150, 1_205))
    async with aiohttp.ClientSession() as http:
        rpc = Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")
        config = {"epoch": 11, "commitment": "confirmed"}
        error = await rpc.fail("getInflationReward", [], config)
    assert error["code"] == -32018
    assert error["data"] == {"slot": 1_205}


KNOWN, UNKNOWN = text(world.NATIVE), text(address(9))
TOKENS = text(TOKEN_PROGRAM)


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("getAccountInfo", [text(b"x" * 31)], -32602, "Invalid param: WrongSize"),
        ("getAccountInfo", ["1" * 45], -32602, "Invalid param: WrongSize"),
        ("getAccountInfo", ["0OIl"], -32602, "Invalid param: Invalid"),
        ("getAccountInfo", [], -32602, "Invalid params: a pubkey in base58 is expected."),
        ("getAccountInfo", [KNOWN, {"encoding": "hex"}], -32602, None),
        ("getAccountInfo", [KNOWN, {"dataSlice": {"offset": 1}}], -32602, None),
        (
            "getAccountInfo",
            [text(world.TOKEN)],
            -32600,
            "Encoded binary (base 58) data should be less than 128 bytes, "
            "please use Base64 encoding.",
        ),
        (
            "getBalance",
            [KNOWN, {"minContextSlot": 1_202}],
            -32016,
            "Minimum context slot has not been reached",
        ),
        ("getBalance", [KNOWN, {"minContextSlot": -1}], -32602, None),
        (
            "getMultipleAccounts",
            [[KNOWN] * 101],
            -32602,
            "Too many inputs provided; max 100",
        ),
        (
            "getProgramAccounts",
            [TOKENS, {"filters": [{"dataSize": 1}] * 5}],
            -32602,
            "Too many filters provided; max 4",
        ),
        (
            "getProgramAccounts",
            [TOKENS, {"filters": [{"memcmp": {"offset": 0, "bytes": "1" * 129}}]}],
            -32602,
            "Invalid param: DataTooLarge",
        ),
        (
            "getProgramAccounts",
            [TOKENS, {"filters": [{"memcmp": {"offset": 0, "bytes": "0"}}]}],
            -32602,
            None,
        ),
        ("getProgramAccounts", [TOKENS, {"filters": [{"datasize": 1}]}], -32602, None),
        ("getProgramAccounts", [TOKENS], -32600, None),
        ("getProgramAccounts", [TOKENS, {"withContext": 1}], -32602, None),
        (
            "getTokenAccountsByOwner",
            [KNOWN, {"programId": KNOWN}],
            -32602,
            "Invalid param: unrecognized Token program id",
        ),
        (
            "getTokenAccountsByOwner",
            [KNOWN, {"mint": UNKNOWN}],
            -32602,
            "Invalid param: could not find mint",
        ),
        (
            "getTokenAccountsByOwner",
            [KNOWN, {"mint": KNOWN}],
            -32602,
            "Invalid param: not a Token mint",
        ),
        ("getTokenAccountsByOwner", [KNOWN], -32602, None),
        (
            "getTokenAccountsByOwner",
            [text(world.WALLET), {"programId": TOKENS}],
            -32600,
            None,
        ),
        (
            "getTokenAccountBalance",
            [UNKNOWN],
            -32602,
            "Invalid param: could not find account",
        ),
        ("getTokenAccountBalance", [KNOWN], -32602, "Invalid param: not a Token account"),
        (
            "getTokenAccountBalance",
            [text(world.ORPHAN)],
            -32602,
            "Invalid param: could not find mint",
        ),
        ("getTokenSupply", [UNKNOWN], -32602, "Invalid param: could not find account"),
        ("getTokenSupply", [KNOWN], -32602, "Invalid param: not a Token mint"),
        (
            "getTokenSupply",
            [text(world.TOKEN)],
            -32602,
            "Invalid param: mint could not be unpacked",
        ),
        ("getTokenLargestAccounts", [UNKNOWN], -32602, "Invalid param: could not find mint"),
        (
            "getTokenLargestAccounts",
            [text(world.TOKEN)],
            -32602,
            "Invalid param: Token mint could not be unpacked",
        ),
        ("getInflationReward", [[KNOWN], {"commitment": "processed"}], -32602, None),
        ("getVoteAccounts", [{"votePubkey": "x"}], -32602, "Invalid param: WrongSize"),
    ],
)
async def test_errors_are_a_validators(
    rpc: Rpc, method: str, params: list[Any], code: int, message: str | None
) -> None:
    error = await rpc.fail(method, *params)
    assert error["code"] == code
    assert error["message"]
    if message is not None:
        assert error["message"] == message
    if code == -32016:
        assert error["data"] == {"contextSlot": world.FINALIZED_SLOT}


async def test_scans_of_programs_can_be_refused(serve: Serve) -> None:
    chain = await serve(world.AccountSource(world.genesis()), program_scans=False)
    chain.publish(world.events())
    async with aiohttp.ClientSession() as http:
        rpc = Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")
        assert await rpc.fail("getProgramAccounts", text(STAKE_PROGRAM)) == {
            "code": -32010,
            "message": f"{text(STAKE_PROGRAM)} excluded from account secondary indexes; "
            "this RPC method unavailable for key",
        }
        assert await rpc.fail("getProgramAccounts", "x") == {
            "code": -32602,
            "message": "Invalid param: WrongSize",
        }
        assert (await rpc.call(responses.GetBalanceResp, "getBalance", KNOWN))["value"] == 1_000


@pytest.mark.slow
async def test_a_large_scan_leaves_the_event_loop_to_others(serve: Serve) -> None:
    many = tuple(
        AccountWrite(number.to_bytes(32), STAKE_PROGRAM, 1, number.to_bytes(200), 0)
        for number in range(1, 100_001)
    )
    chain = await serve(world.AccountSource(many))
    chain.publish(world.events())
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest_s, before = max(longest_s, now - before), now

    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "getProgramAccounts",
        "params": [text(STAKE_PROGRAM), {"withContext": True, **BASE64}],
    }
    url = f"http://127.0.0.1:{chain.chain.rpc_port}"
    async with aiohttp.ClientSession() as http:
        watching = asyncio.create_task(watch())
        async with http.post(url, json=body) as answer:
            parts = [part async for part in answer.content.iter_any()]
        watching.cancel()
        # What the loop had to do at a time, in CPU time: a busy machine changes nothing.
        assert 0 < longest_s < 0.05
        assert len(parts) > 10
        read = orjson.loads(b"".join(parts))["result"]
        assert read["context"] == FINALIZED
        assert [each["pubkey"] for each in read["value"]] == [text(each.address) for each in many]
        assert [base64.b64decode(each["account"]["data"][0]) for each in read["value"]] == [
            each.data for each in many
        ]
        few = {"offset": 0, "length": 0}
        cut = {**body, "params": [text(STAKE_PROGRAM), {"dataSlice": few, **BASE64}]}
        async with http.post(url, json=[cut, {**body, "method": "getNothing"}, cut]) as answer:
            first, second, third = orjson.loads(await answer.read())
        assert len(first["result"]) == len(many)
        assert second["error"]["code"] == -32601
        assert third == first


def finalized_state(genesis: list[AccountWrite], events: list[SlotEvent]) -> list[AccountWrite]:
    """Return what finalized slots left, from all their writes in order."""
    state = {each.address: each for each in genesis}
    written: dict[int, list[AccountWrite]] = {}
    for event in events:
        match event:
            case SlotStarted(slot):
                written[slot] = []
            case SlotTransactions(slot, transactions):
                written[slot] += [one for each in transactions for one in each.writes]
            case SlotCompleted(header, writes):
                written[header.slot] += writes
            case SlotFinalized(slot):
                state.update({one.address: one for one in written[slot]})
    return [each for each in state.values() if each.lamports]


@pytest.mark.slow
async def test_the_market_is_served_as_it_was_written(serve: Serve) -> None:
    market = Market(Knobs(seed=5, rate=40, forks=0.2, rolled_back=0.5, skipped=0.1))
    genesis = list(market.genesis_accounts())
    events = list(market.generate(90))
    chain = await serve(world.AccountSource(tuple(genesis)))
    chain.publish(events)
    expected = finalized_state(genesis, events)
    final = max(event.slot for event in events if isinstance(event, SlotFinalized))
    changed = {each.address for each in expected} - {each.address for each in genesis}
    assert changed
    async with aiohttp.ClientSession() as http:
        rpc = Rpc(http, f"http://127.0.0.1:{chain.chain.rpc_port}")
        for program in {each.owner for each in expected}:
            answer = await rpc.call(
                responses.GetProgramAccountsWithContextResp,
                "getProgramAccounts",
                text(program),
                {"withContext": True, **BASE64},
            )
            assert answer["context"]["slot"] == final
            served = {
                each["pubkey"]: (
                    each["account"]["lamports"],
                    base64.b64decode(each["account"]["data"][0]),
                )
                for each in answer["value"]
            }
            assert served == {
                text(each.address): (each.lamports, each.data)
                for each in expected
                if each.owner == program
            }
