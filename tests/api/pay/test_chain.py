"""Whether a payment is on the chain, as nodes answer and as they should not."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any

import pytest
from aiohttp import web
from solders.signature import Signature

from api.pay.chain import FETCHED, PAGE, UNSEEN_SLOTS, Chain, NodeAway, Sight
from api.pay.payment import Payment
from tests.api.pay.test_payment import paid, read
from tests.support.rpc_server import serving

OLD_S = 2 * 3_600
SLOT = 1_000
SEEN = Sight(SLOT - 10, is_known=True)


class Node:
    """A node that knows blockhashes by commitment, and a payer's transactions, newest first."""

    def __init__(self, *valid_for: str) -> None:
        self.valid_for = valid_for
        self.listed: list[dict[str, Any]] = []
        self.wires: dict[str, str] = {}
        self.answers: dict[str, Any] = {}  # instead, by method
        self.at_slot = 1 << 40  # as far as its list has come
        self.fetched = 0

    def add(self, wire: str, *, age_s: float = 1, err: Any = None, slot: int = SLOT) -> str:
        signature = str(Signature(len(self.listed).to_bytes(64, "big")))
        block_time = int(time.time() - age_s)
        found = {"signature": signature, "err": err, "slot": slot, "blockTime": block_time}
        self.listed.append(found)
        self.wires[signature] = wire
        return signature

    async def answer(self, method: str, params: list[Any]) -> Any:
        if method in self.answers:
            return web.json_response(self.answers[method])
        if method == "isBlockhashValid":
            return params[1]["commitment"] in self.valid_for
        if method == "getSignaturesForAddress":
            config = params[1]
            if config["minContextSlot"] > self.at_slot:
                return web.json_response({"error": {"code": -32016}})
            signatures = [each["signature"] for each in self.listed]
            first = signatures.index(config["before"]) + 1 if "before" in config else 0
            return web.json_response({"result": self.listed[first : first + config["limit"]]})
        self.fetched += 1
        return web.json_response({"result": {"transaction": [self.wires[params[0]], "base64"]}})


async def found(
    node: Node, payment: Payment, sight: Sight | None = SEEN, slot: int = SLOT
) -> tuple[str, str | None]:
    async with serving(node.answer, slot) as url:
        chain = Chain(url)
        try:
            return await chain.find(payment, sight)
        finally:
            await chain.close()


def payment() -> tuple[Payment, str]:
    payload = paid()
    return read(payload), payload["payload"]["transaction"]


@pytest.mark.parametrize(
    ("valid_for", "absent"),
    [
        (("processed", "finalized"), "pending"),
        (("processed",), "pending"),  # newer than the finalized block
        (("finalized",), "pending"),  # a block that is not final yet may have it
        ((), "expired"),
    ],
)
async def test_a_payment_is_given_up_when_no_bank_takes_it(
    valid_for: tuple[str, ...], absent: str
) -> None:
    assert await found(Node(*valid_for), payment()[0]) == ("", absent)


@pytest.mark.parametrize(
    ("sight", "slot", "absent"),
    [
        (Sight(SLOT, is_known=True), SLOT, "expired"),
        (Sight(SLOT, is_known=True), SLOT - 1, "unseen"),  # another server, which lags
        (Sight(SLOT, is_known=False), SLOT, "unseen"),  # of a block that it does not have yet
        (Sight(SLOT, is_known=False), SLOT + UNSEEN_SLOTS - 1, "unseen"),
        (Sight(SLOT, is_known=False), SLOT + UNSEEN_SLOTS, "expired"),
        (None, SLOT + UNSEEN_SLOTS, "unseen"),  # the node was away
    ],
)
async def test_a_node_that_lags_gives_no_payment_up(
    sight: Sight | None, slot: int, absent: str
) -> None:
    node = Node()
    assert await found(node, payment()[0], sight, slot) == ("", absent)
    wanted, wire = payment()
    signature = node.add(wire)
    assert await found(node, wanted, sight, slot) == (signature, None)


async def test_a_list_is_of_a_node_that_has_come_as_far_as_the_blockhash_was_looked_at() -> None:
    node = Node()
    node.at_slot = SLOT - 1
    with pytest.raises(NodeAway):
        await found(node, payment()[0])
    node.at_slot = SLOT
    assert await found(node, payment()[0]) == ("", "expired")


async def test_a_sight_says_what_the_node_knows() -> None:
    for node, sight in (
        (Node("processed"), Sight(SLOT, is_known=True)),
        (Node(), Sight(SLOT, is_known=False)),
    ):
        async with serving(node.answer, SLOT) as url:
            chain = Chain(url)
            assert await chain.sight(payment()[0]) == sight
            for answer in ({"error": {"code": -32005}}, "Too many requests", [], None):
                node.answers["isBlockhashValid"] = answer
                assert await chain.sight(payment()[0]) is None
            await chain.close()


@pytest.mark.parametrize("count", [PAGE, 2 * PAGE + 1])
async def test_a_payment_of_a_busy_payer_is_found_where_it_was_made(count: int) -> None:
    wanted, wire = payment()
    node = Node()
    other = payment()[1]
    for ago in range(count):
        node.add(other, slot=SLOT + 1 + count - ago)
    signature = node.add(wire)
    for ago in range(10):
        node.add(other, slot=SLOT - 20 - ago)
    assert await found(node, wanted) == (signature, None)
    assert node.fetched < 30


async def test_a_transaction_that_failed_is_no_payment() -> None:
    wanted, wire = payment()
    node = Node()
    node.add(wire, err={"InstructionError": [0, {"Custom": 1}]})
    assert await found(node, wanted) == ("", "expired")


@pytest.mark.parametrize("count", [1, PAGE - 1, 5 * PAGE])
@pytest.mark.parametrize("sight", [SEEN, None])
async def test_what_is_older_than_a_payment_is_kept_is_not_looked_at(
    count: int, sight: Sight | None
) -> None:
    node = Node()
    other = payment()[1]
    for _ in range(count):
        node.add(other, age_s=OLD_S)
    assert await found(node, payment()[0], sight) == ("", "expired" if sight else "unseen")
    assert node.fetched == 0


async def test_what_is_older_than_the_blockhash_is_not_looked_at() -> None:
    wanted, wire = payment()
    node = Node()
    other = payment()[1]
    for _ in range(3):
        node.add(other)
    for _ in range(5 * PAGE):
        node.add(other, slot=SEEN.slot - 301)
    assert await found(node, wanted) == ("", "expired")
    assert node.fetched == 3
    node.listed.clear()
    signature = node.add(wire, slot=SEEN.slot - 300)
    assert await found(node, wanted) == (signature, None)


@pytest.mark.parametrize("count", [FETCHED + 1, 3 * PAGE])
async def test_of_a_payer_with_too_many_transactions_nothing_is_decided(count: int) -> None:
    node = Node()
    other = payment()[1]
    for _ in range(count):
        node.add(other)
    with pytest.raises(NodeAway, match="more transactions"):
        await found(node, payment()[0])
    assert node.fetched == FETCHED


@pytest.mark.parametrize(
    "method", ["isBlockhashValid", "getSignaturesForAddress", "getTransaction"]
)
@pytest.mark.parametrize(
    "answer",
    [
        [],
        5,
        {"result": None},
        {"result": 5},
        {"result": [{}]},
        {"result": [None]},
        {"result": {"transaction": ["AAAA", "base64"]}},
        {"result": {"transaction": [b64encode(b"\xff" * 99).decode(), "base64"]}},
        {"error": {"code": 1, "message": "no"}},
    ],
)
async def test_an_answer_that_cannot_be_read_decides_nothing(method: str, answer: Any) -> None:
    wanted, wire = payment()
    node = Node()
    node.add(wire)
    node.answers[method] = answer
    with pytest.raises(NodeAway):
        await found(node, wanted)


async def test_a_sight_of_long_after_the_payment_hides_it_from_no_look() -> None:
    """The node was away at the first attempt: what it knows is of the first repeat."""
    wanted, wire = payment()
    node = Node()
    signature = node.add(wire)
    late = Sight(SLOT + 10 * UNSEEN_SLOTS, is_known=False)
    assert await found(node, wanted, late, SLOT + 11 * UNSEEN_SLOTS) == (signature, None)
