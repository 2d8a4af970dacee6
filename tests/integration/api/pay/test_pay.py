"""Pay per call: the official client and facilitator code of package x402, real stores."""

from __future__ import annotations

import asyncio
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from click.testing import CliRunner
from redis import Redis

from api.access import register
from api.access.failures import FAILURES
from api.app import create_app
from api.pay.awaited_bodies import OF_ONE
from api.pay.book import Claim
from api.pay.command import pay as pay_command
from infra.local.process import free_port
from infra.settings import Settings
from schemas.redis_keys import PAYMENT, PAYMENT_SIZES, WALLET_TOTALS, wallet_tag
from schemas.solana.base58 import decode, encode
from tests.integration.api.conftest import Serve
from tests.support.api.paying import NETWORK, USDC, PayWorld, challenge, pay
from tests.support.api.paying_crowd import id_of
from tests.support.api.served import Served
from tests.support.waiting import eventually

WALLET = "6dNUKmBYvRSBJB9bTVYKPbcZCoQ8Lxy1rGmkHSUhHcvW"
OTHER = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
PATH = f"/pay/api/wallets/{WALLET}/pnl/summary"
PRICE_RAW = 400


@pytest.fixture(scope="module")
def world() -> Iterator[PayWorld]:
    found = PayWorld()
    yield found
    found.close()


@pytest.fixture(scope="module")
def settings(world: PayWorld) -> dict[str, object]:
    return {
        "x402_facilitator_url": world.url,
        "rpc_endpoint": world.rpc_url,
        "pay_to": world.seller,
        "pay_network": NETWORK,
    }


@pytest.fixture(scope="module")
def seller(serve: Serve, settings: dict[str, object]) -> Iterator[Served]:
    with serve(**settings) as running:
        yield running


def send(url: str, header: str, **more: Any) -> httpx.Response:
    return httpx.get(url, headers={"payment-signature": header}, timeout=60, **more)


async def test_the_official_client_pays_and_gets_what_a_key_gets(
    world: PayWorld, seller: Served
) -> None:
    from x402 import x402Client
    from x402.http.clients.httpx import x402HttpxClient
    from x402.mechanisms.svm import KeypairSigner
    from x402.mechanisms.svm.exact import register_exact_svm_client

    client = x402Client()
    signer = KeypairSigner(world.wallet())
    register_exact_svm_client(client, signer, NETWORK, rpc_url=world.rpc_url)
    had_raw = world.revenue_raw
    async with x402HttpxClient(client, timeout=60) as http:
        paid = await http.get(seller.url + PATH)
        keyed = await http.get(
            seller.url + PATH.removeprefix("/pay"), headers={"x-api-key": seller.key}
        )
    assert (paid.status_code, paid.content) == (200, keyed.content)
    settled = orjson.loads(b64decode(paid.headers["payment-response"]))
    assert settled["success"]
    assert settled["transaction"] in world.chain.landed
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_challenge_says_what_a_call_costs(world: PayWorld, seller: Served) -> None:
    found = challenge(seller.url + PATH)
    assert found["x402Version"] == 2
    assert found["resource"]["url"] == seller.url + PATH
    [accepted] = found["accepts"]
    assert accepted["extra"]["feePayer"] == str(world.fee_payer.pubkey())
    assert (accepted["scheme"], accepted["network"]) == ("exact", NETWORK)
    assert (accepted["amount"], accepted["asset"]) == ("400", USDC)
    assert accepted["payTo"] == world.seller


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/pay", 404),
        ("/pay/api/wallets/x/y/z/w/v", 404),
        ("/pay/api/tokens/leaderboard", 404),
        ("/pay/api/health", 404),
        ("/pay/pay/api/wallets/x/pnl/summary", 404),
        ("/pay/__402/health", 200),
    ],
)
def test_what_is_not_sold_asks_for_no_payment(seller: Served, path: str, status: int) -> None:
    assert httpx.get(seller.url + path).status_code == status


def test_a_method_that_a_path_lacks_is_refused_unpaid(seller: Served) -> None:
    answer = httpx.post(seller.url + PATH, json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_a_head_buys_nothing(world: PayWorld, seller: Served) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    headers = {"payment-signature": header}
    assert httpx.head(seller.url + PATH, headers=headers).status_code == 402
    assert world.revenue_raw == had_raw
    assert send(seller.url + PATH, header).status_code == 200


def test_of_fifty_concurrent_replays_one_is_answered(world: PayWorld, seller: Served) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw

    async def replay() -> list[int]:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=50)) as http:
            headers = {"payment-signature": header}
            sent = [http.get(seller.url + PATH, headers=headers) for _ in range(50)]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    statuses = asyncio.run(replay())
    assert sorted(statuses) == [200] + [409] * 49
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_payment_pays_for_one_request_only(world: PayWorld, seller: Served) -> None:
    header = pay(world, seller.url + PATH)
    assert send(seller.url + PATH, header).status_code == 200
    assert send(seller.url + PATH, header).status_code == 409
    for url in (
        seller.url + PATH.replace(WALLET, OTHER),
        f"{seller.url}/pay/api/wallets/{WALLET}/holdings",
        f"{seller.url}{PATH}?x=1",
    ):
        assert send(url, header).status_code == 402


def test_a_payment_is_bound_to_method_path_query_and_body(
    world: PayWorld, seller: Served, stores: Settings
) -> None:
    """No path is sold by two methods, so what it is bound to is read where it is kept."""
    body = orjson.dumps({"wallets": [WALLET]})
    for method, path, query, content in (
        ("GET", f"/api/wallets/{WALLET}", "limit=5", b""),
        ("POST", "/api/wallets/batch", "", body),
    ):
        header = pay(world, seller.url + PATH)
        answer = httpx.request(
            method,
            f"{seller.url}/pay{path}{query and '?'}{query}",
            content=content,
            headers={"payment-signature": header, "content-type": "application/json"},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        parts = (method.encode(), path.encode(), query.encode(), content)
        wanted = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()
        wire = b64decode(orjson.loads(b64decode(header))["payload"]["transaction"])
        with Redis.from_url(stores.access_redis_url or stores.redis_url) as redis:
            assert redis.hget(PAYMENT.make(id=id_of(wire)), "request") == wanted.encode()


def test_a_body_that_is_cut_off_buys_nothing_and_the_payment_stays_good(
    world: PayWorld, seller: Served
) -> None:
    header, had_raw = pay(world, seller.url + PATH), world.revenue_raw
    body = orjson.dumps({"wallets": [WALLET]})
    whole = body + b" " * 100  # what is sent of it reads as a batch, too
    begun(seller, header, body, len(whole)).close()
    answer = httpx.post(
        f"{seller.url}/pay/api/wallets/batch",
        content=whole,
        headers={"payment-signature": header, "content-type": "application/json"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    assert world.revenue_raw == had_raw + PRICE_RAW


def begun(to: Served, header: str, body: bytes, whole_bytes: int) -> socket.socket:
    """Return a connection with a head, and a part of the body that the head announces."""
    caller = socket.create_connection((to.host, to.port), timeout=60)
    head = (
        f"POST /pay/api/wallets/batch HTTP/1.1\r\nhost: {to.host}:{to.port}\r\n"
        f"payment-signature: {header}\r\ncontent-type: application/json\r\n"
        f"content-length: {whole_bytes}\r\n\r\n"
    )
    caller.sendall(head.encode() + body)
    return caller


def test_bodies_that_are_withheld_take_no_place_of_payments_and_are_soon_given_up(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with (
        serve(**settings, api_max_concurrent_per_key=1, api_timeout_s=60.0) as fresh,
        ExitStack() as stack,
    ):
        unfunded = pay(world, fresh.url + PATH, world.wallet(0))
        header = pay(world, fresh.url + PATH)
        began_s = time.monotonic()
        callers = [
            stack.enter_context(begun(fresh, unfunded, b"{", 100)) for _ in range(2 * OF_ONE)
        ]
        assert send(fresh.url + PATH, header).status_code == 200
        answers = [caller.recv(4_096) for caller in callers]
        assert time.monotonic() - began_s < 30, "not the time of an answer"
        statuses = [int(answer.split()[1]) for answer in answers]
        assert {*statuses} <= {408, 429}
        assert statuses.count(408) >= OF_ONE


def test_bodies_that_are_cut_off_count_as_payments_that_bought_nothing(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings) as fresh:
        header = pay(world, fresh.url + PATH)
        for sent in (*range(OF_ONE, FAILURES, OF_ONE), FAILURES):
            for _ in range((sent - 1) % OF_ONE + 1):
                begun(fresh, header, b"{", 100).close()
            fresh.until_metric(f'soltape_pay_failures_total{{cause="body"}} {sent}.0')
        refused = send(fresh.url + PATH, header)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_failures")


def test_a_failure_of_ours_is_not_settled(
    world: PayWorld, seller: Served, stores: Settings
) -> None:
    wallet = encode(b"spoiled".rjust(32, b"\2"))
    path = f"/api/wallets/{wallet}/holdings"
    totals = WALLET_TOTALS.make(tag=wallet_tag(wallet))
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    with Redis.from_url(stores.redis_url) as redis:
        redis.hset(totals, decode(wallet), b"cut")
        failed = send(f"{seller.url}/pay{path}", header)
        redis.hdel(totals, decode(wallet))
    assert (failed.status_code, failed.json()["code"]) == (503, "quarantined")
    assert "payment-response" not in failed.headers
    keyed = {"headers": {"x-api-key": seller.key}, "timeout": 60}
    eventually(lambda: httpx.get(seller.url + path, **keyed).is_success)
    assert world.revenue_raw == had_raw
    assert send(f"{seller.url}/pay{path}", header).status_code == 200
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_request_that_is_refused_costs_nothing_and_the_payment_stays_good(
    world: PayWorld, seller: Served
) -> None:
    had_raw = world.revenue_raw
    header = pay(world, seller.url + PATH)
    assert send(seller.url + "/pay/api/wallets/nobody/pnl/summary", header).status_code == 422
    assert world.revenue_raw == had_raw
    assert send(seller.url + PATH, header).status_code == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": "399"},
        {"pay_to": OTHER},
    ],
)
def test_a_payment_on_other_terms_is_refused(
    world: PayWorld, seller: Served, changed: dict[str, Any]
) -> None:
    had_raw = world.revenue_raw
    answer = send(seller.url + PATH, pay(world, seller.url + PATH, **changed))
    assert answer.status_code == 402
    assert "accepts" in answer.json()
    assert world.revenue_raw == had_raw


@pytest.mark.parametrize(
    "changed",
    [
        {"network": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"},
        {"asset": OTHER},
        {"amount": "1"},
        {"payTo": OTHER},
        {"scheme": "upto"},
    ],
)
def test_a_payment_that_accepts_other_terms_is_refused(
    world: PayWorld, seller: Served, changed: dict[str, str]
) -> None:
    payload = orjson.loads(b64decode(pay(world, seller.url + PATH)))
    payload["accepted"] |= changed
    answer = send(seller.url + PATH, b64encode(orjson.dumps(payload)).decode())
    assert answer.status_code == 402
    assert next(iter(changed)) in answer.json()["error"]


def test_anothers_signature_is_refused(world: PayWorld, seller: Served) -> None:
    first, second = (orjson.loads(b64decode(pay(world, seller.url + PATH))) for _ in range(2))
    wires = [bytearray(b64decode(each["payload"]["transaction"])) for each in (first, second)]
    wires[0][65:129] = wires[1][65:129]  # behind the count and the fee payer's signature
    first["payload"]["transaction"] = b64encode(wires[0]).decode()
    answer = send(seller.url + PATH, b64encode(orjson.dumps(first)).decode())
    assert answer.status_code == 402
    assert "signed" in answer.json()["error"]


def test_an_expired_blockhash_and_an_empty_wallet_are_refused(
    world: PayWorld, seller: Served
) -> None:
    header = pay(world, seller.url + PATH)
    world.chain.advance()
    assert send(seller.url + PATH, header).status_code == 402
    poor = pay(world, seller.url + PATH, world.wallet(PRICE_RAW - 1))
    assert send(seller.url + PATH, poor).status_code == 402


def test_a_payment_that_no_facilitator_can_be_asked_about_is_refused(
    world: PayWorld, seller: Served
) -> None:
    payload = b64decode(pay(world, seller.url + PATH)).removesuffix(b"}")
    deep = payload + b',"extensions":{"x":' + b"[" * 300 + b"]" * 300 + b"}}"
    answer = send(seller.url + PATH, b64encode(deep).decode())
    assert (answer.status_code, answer.json()["error"]) == (402, "the payment is nested too deeply")


@pytest.mark.parametrize("header", ["", "%%%", b64encode(b"[]").decode(), "e30=", "A" * 10_000])
def test_what_is_no_payment_is_refused(seller: Served, header: str) -> None:
    assert send(seller.url + PATH, header).status_code == 402


def test_a_batch_is_one_request_at_one_price(world: PayWorld, seller: Served) -> None:
    url = f"{seller.url}/pay/api/wallets/batch"
    body = {"wallets": [WALLET, OTHER]}
    assert httpx.post(url, json=body).status_code == 402
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    headers = {"payment-signature": header}
    assert httpx.post(url, json=body, headers=headers, timeout=60).status_code == 200
    other = httpx.post(url, json={"wallets": [WALLET]}, headers=headers, timeout=60)
    assert other.status_code == 402
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_facilitator_that_is_down_costs_nothing(
    world: PayWorld, serve: Serve, settings: dict[str, object], seller: Served
) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    world.desk.is_down = True
    try:
        assert send(seller.url + PATH, header).status_code == 503
        with serve(**settings) as fresh:
            assert httpx.get(fresh.url + PATH).status_code == 503
            assert httpx.get(fresh.url + "/pay/__402/health").status_code == 503
    finally:
        world.desk.is_down = False
    assert world.revenue_raw == had_raw
    assert send(seller.url + PATH, header).status_code == 200


def test_refused_payments_of_an_address_are_bounded_and_nobody_is_asked_any_more(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings) as fresh:
        poor = world.wallet(0)
        found = [
            send(fresh.url + PATH, pay(world, fresh.url + PATH, poor)) for _ in range(FAILURES)
        ]
        assert {each.status_code for each in found} == {402}
        asked = world.desk.verified
        rich = send(fresh.url + PATH, pay(world, fresh.url + PATH))
        assert (rich.status_code, rich.json()["code"]) == (429, "too_many_failures")
        assert world.desk.verified == asked
        assert httpx.get(fresh.url + PATH).status_code == 402  # a challenge costs nothing
        keyed = fresh.url + PATH.removeprefix("/pay")
        assert httpx.get(keyed, headers={"x-api-key": fresh.key}).status_code == 200


def test_answers_that_nobody_pays_for_are_bounded(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings) as fresh:
        header = pay(world, fresh.url + PATH)  # good for all of them, as none is paid
        wrong = f"{fresh.url}/pay/api/wallets/nobody/pnl/summary"
        assert {send(wrong, header).status_code for _ in range(FAILURES)} == {422}
        asked = world.desk.verified
        assert send(wrong, header).json()["code"] == "too_many_failures"
        assert world.desk.verified == asked


@pytest.mark.parametrize(
    ("strange", "error"),
    [
        ({"resource": 5}, "the facilitator refuses"),  # it answers 400, in plain text
        ({}, "another request"),
    ],
)
def test_payments_that_nobody_can_verify_or_that_are_spent_elsewhere_are_bounded(
    world: PayWorld,
    serve: Serve,
    settings: dict[str, object],
    strange: dict[str, Any],
    error: str,
) -> None:
    with serve(**settings) as fresh:
        header = pay(world, fresh.url + PATH)
        if not strange:
            assert send(fresh.url + PATH, header).status_code == 200
        payload = orjson.loads(b64decode(header)) | strange
        changed = b64encode(orjson.dumps(payload)).decode()
        url = fresh.url + PATH.replace(WALLET, OTHER)
        for _ in range(FAILURES):
            answer = send(url, changed)
            assert (answer.status_code, error in answer.json()["error"]) == (402, True)
        assert send(url, changed).json()["code"] == "too_many_failures"


def test_payments_that_wait_leave_room_for_keys(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings, api_max_concurrent=4, api_max_concurrent_per_key=2) as fresh:
        url = fresh.url + PATH
        headers = [pay(world, url) for _ in range(3)]
        asked = world.desk.verified
        world.desk.may_verify.clear()
        try:
            with ThreadPoolExecutor(2) as pool:
                waiting = [pool.submit(send, url, header) for header in headers[:2]]
                eventually(lambda: world.desk.verified == asked + 2)
                assert send(url, headers[2]).status_code in (429, 503)
                keyed = httpx.get(
                    fresh.url + PATH.removeprefix("/pay"), headers={"x-api-key": fresh.key}
                )
                assert keyed.status_code == 200
                world.desk.may_verify.set()
                assert [each.result().status_code for each in waiting] == [200, 200]
        finally:
            world.desk.may_verify.set()
        assert send(url, headers[2]).status_code == 200


async def test_an_answer_that_was_sent_takes_no_place_for_payments(
    world: PayWorld,
    seller: Served,
    stores: Settings,
    settings: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headers = [await asyncio.to_thread(pay, world, seller.url + PATH) for _ in range(2)]
    app = create_app(stores.model_copy(update={**settings, "api_max_concurrent_per_key": 1}))
    noting, may_note, deliver = asyncio.Event(), asyncio.Event(), Claim.deliver

    async def deliver_late(claim: Claim) -> None:
        if not noting.is_set():
            noting.set()
            await may_note.wait()
        await deliver(claim)

    monkeypatch.setattr(Claim, "deliver", deliver_late)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=seller.url, timeout=60) as client,
    ):

        async def sent(header: str) -> int:
            return (await client.get(PATH, headers={"payment-signature": header})).status_code

        first = asyncio.create_task(sent(headers[0]))
        await asyncio.wait_for(noting.wait(), 60)
        second = await sent(headers[1])
        may_note.set()
        assert [await first, second] == [200, 200]


def test_a_settlement_whose_answer_is_lost_is_found_on_the_chain(
    world: PayWorld, seller: Served
) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    world.desk.lose_settle_answers = True
    try:
        answer = send(seller.url + PATH, header)
    finally:
        world.desk.lose_settle_answers = False
    assert answer.status_code == 200
    settled = orjson.loads(b64decode(answer.headers["payment-response"]))
    assert settled["transaction"] in world.chain.landed
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_caller_who_left_before_the_answer_can_have_it(world: PayWorld, seller: Served) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    world.desk.settle_delay_s = 2.0
    try:
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(seller.url + PATH, headers={"payment-signature": header}, timeout=1.0)
        assert send(seller.url + PATH, header).status_code == 409
        deadline_s = time.monotonic() + 240
        while (answer := send(seller.url + PATH, header)).status_code == 409:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
    finally:
        world.desk.settle_delay_s = 0.0
    assert answer.status_code == 200
    assert send(seller.url + PATH, header).status_code == 409
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_caller_who_left_with_another_request_waiting_can_have_the_answer(
    world: PayWorld, seller: Served
) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    place = f"host: {seller.host}:{seller.port}\r\n"
    paying = f"GET {PATH} HTTP/1.1\r\n{place}payment-signature: {header}\r\n\r\n"
    waiting = f"GET /pay/__402/health HTTP/1.1\r\n{place}\r\n"
    world.desk.settle_delay_s = 1.5
    try:
        with socket.create_connection((seller.host, seller.port), timeout=60) as caller:
            caller.sendall((paying + waiting).encode())
            eventually(lambda: world.revenue_raw > had_raw)
        answer = eventually(
            lambda: found if (found := send(seller.url + PATH, header)).is_success else None
        )
    finally:
        world.desk.settle_delay_s = 0.0
    assert answer.status_code == 200
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_where_paid_answers_have_no_room_nothing_is_settled(
    world: PayWorld, seller: Served, stores: Settings
) -> None:
    def at_redis(*command: object) -> None:
        async def work() -> None:
            redis = register.connect(stores)
            await redis.ask([command])
            await redis.aclose()

        asyncio.run(work())

    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    at_redis("HINCRBY", PAYMENT_SIZES.make(), "", 1 << 40)
    try:
        answer = send(seller.url + PATH, header)
        again = send(seller.url + PATH, header)
    finally:
        at_redis("HINCRBY", PAYMENT_SIZES.make(), "", -(1 << 40))
    for each in (answer, again):
        assert (each.status_code, each.json()["code"]) == (503, "payments_full")
        assert each.headers["retry-after"] == "2"
    assert world.revenue_raw == had_raw
    paid = eventually(lambda: found if (found := send(seller.url + PATH, header)).is_success else 0)
    assert paid.status_code == 200
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_settlement_that_fails_shows_nothing(world: PayWorld, seller: Served) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    world.desk.before_settle = world.chain.advance  # verified, and expired when it is settled
    try:
        answer = send(seller.url + PATH, header)
    finally:
        world.desk.before_settle = None
    assert answer.status_code == 402
    assert not orjson.loads(b64decode(answer.headers["payment-response"]))["success"]
    assert b"pnl" not in answer.content.replace(b"pnl/summary", b"")
    assert world.revenue_raw == had_raw


def test_an_outcome_that_nobody_knows_is_said_and_found_later(
    world: PayWorld, seller: Served
) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    world.desk.lose_settle_answers = world.chain.is_down = True
    try:
        answer = send(seller.url + PATH, header)
    finally:
        world.desk.lose_settle_answers = world.chain.is_down = False
    assert answer.status_code == 503
    assert answer.json()["code"] == "payment_unsettled"
    assert send(seller.url + PATH.replace(WALLET, OTHER), header).status_code == 402
    assert send(seller.url + PATH, header).status_code == 200
    assert world.revenue_raw == had_raw + PRICE_RAW


@pytest.mark.parametrize(("facilitator", "status"), [("away", 503), ("changed", 402)])
def test_what_may_be_paid_for_is_had_without_the_facilitator(
    world: PayWorld,
    seller: Served,
    serve: Serve,
    settings: dict[str, object],
    facilitator: str,
    status: int,
) -> None:
    header, new = (pay(world, seller.url + PATH) for _ in range(2))
    had_raw = world.revenue_raw
    world.desk.lose_settle_answers = world.chain.is_down = True
    try:
        assert send(seller.url + PATH, header).json()["code"] == "payment_unsettled"
    finally:
        world.desk.lose_settle_answers = world.chain.is_down = False
    another = PayWorld()
    another.desk.is_down = facilitator == "away"
    try:
        with serve(**settings | {"x402_facilitator_url": another.url}) as fresh:
            assert send(fresh.url + PATH, new).status_code == status
            assert send(fresh.url + PATH, header).status_code == 200
            assert send(fresh.url + PATH, header).status_code == 409
    finally:
        another.close()
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_redis_that_is_away_after_a_settlement_asks_for_the_same_payment_again(
    world: PayWorld, seller: Served, stores: Settings
) -> None:
    header = pay(world, seller.url + PATH)
    had_raw = world.revenue_raw
    with Redis.from_url(stores.access_redis_url or stores.redis_url) as redis:
        world.desk.before_settle = lambda: redis.client_pause(120_000, all=False)
        try:
            answer = send(seller.url + PATH, header)
        finally:
            world.desk.before_settle = None
            redis.client_unpause()
    assert world.revenue_raw == had_raw + PRICE_RAW
    assert (answer.status_code, answer.json()["code"]) == (503, "payment_unsettled")
    eventually(lambda: send(seller.url + PATH, header).is_success)
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_settlement_that_outlasts_the_request_asks_for_the_same_payment_again(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings, api_timeout_s=1.0) as impatient:
        header = pay(world, impatient.url + PATH)
        had_raw = world.revenue_raw
        world.desk.may_say_settled.clear()
        try:
            late = send(impatient.url + PATH, header)
            again = send(impatient.url + PATH, header)  # while the settlement goes on
        finally:
            world.desk.may_say_settled.set()
        assert (late.status_code, late.json()["code"]) == (503, "payment_unsettled")
        assert "repeat the same request with the same payment" in late.json()["detail"]
        assert (again.status_code, again.json()["code"]) == (409, "payment_busy")
        assert late.headers["retry-after"] == again.headers["retry-after"] == "2"
        eventually(lambda: send(impatient.url + PATH, header).is_success)
        assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_settlement_that_goes_on_keeps_its_place_among_those_of_its_address(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings, api_timeout_s=1.0, api_max_concurrent_per_key=1) as impatient:
        first, second = (pay(world, impatient.url + PATH) for _ in range(2))
        had_raw = world.revenue_raw
        world.desk.may_say_settled.clear()
        try:
            late = send(impatient.url + PATH, first)
            refused = send(impatient.url + PATH, second)
        finally:
            world.desk.may_say_settled.set()
        assert late.json()["code"] == "payment_unsettled"
        assert (refused.status_code, refused.json()["code"]) == (429, "concurrency_exceeded")
        for header in (first, second):
            eventually(lambda header=header: send(impatient.url + PATH, header).is_success)
        assert world.revenue_raw == had_raw + 2 * PRICE_RAW


def test_a_request_that_is_late_before_its_answer_is_kept_has_paid_nothing(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    with serve(**settings, api_timeout_s=1.0) as impatient:
        header = pay(world, impatient.url + PATH)
        had_raw = world.revenue_raw
        world.desk.may_verify.clear()
        try:
            late = send(impatient.url + PATH, header)
        finally:
            world.desk.may_verify.set()
        assert (late.status_code, late.json()["code"]) == (503, "timed_out")
        assert world.revenue_raw == had_raw


def test_repeats_of_an_unsettled_payment_are_bounded_and_leave_its_answer(
    world: PayWorld, serve: Serve, settings: dict[str, object], stores: Settings
) -> None:
    with serve(**settings) as fresh:
        url = fresh.url + PATH
        header = pay(world, url)
        had_raw = world.revenue_raw
        world.desk.lose_settle_answers = world.chain.is_down = True
        try:
            answers = [send(url, header) for _ in range(FAILURES)]
            assert {each.json()["code"] for each in answers} == {"payment_unsettled"}
            looks = world.chain.looks
            assert send(url, header).json()["code"] == "too_many_failures"
            assert world.chain.looks == looks
        finally:
            world.desk.lose_settle_answers = world.chain.is_down = False
        wire = b64decode(orjson.loads(b64decode(header))["payload"]["transaction"])
        settled = {"state": "settled", "settlement": orjson.dumps({"success": True})}
        with Redis.from_url(stores.access_redis_url or stores.redis_url) as redis:
            redis.hset(PAYMENT.make(id=id_of(wire)), mapping=settled)  # by another process
        assert send(url, pay(world, url)).json()["code"] == "too_many_failures"
        assert send(url, header).status_code == 200
        assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_kill_between_settlement_and_answer_leaves_the_answer_to_the_same_request(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    had_raw = world.revenue_raw
    with serve(**settings) as first, ThreadPoolExecutor(1) as caller:
        header = pay(world, first.url + PATH)
        world.desk.may_say_settled.clear()
        try:
            answer = caller.submit(send, first.url + PATH, header)
            eventually(lambda: world.revenue_raw == had_raw + PRICE_RAW)
            assert not answer.done(), "answered before the settlement"
            first.process.kill()
            first.process.wait(20)
        finally:
            world.desk.may_say_settled.set()
        with pytest.raises(httpx.TransportError):
            answer.result()
    with serve(**settings) as second:
        other = send(second.url + PATH.replace(WALLET, OTHER), header)
        assert other.status_code == 402
        deadline_s = time.monotonic() + 240
        while (found := send(second.url + PATH, header)).status_code == 409:
            assert time.monotonic() < deadline_s
            time.sleep(0.5)
        assert found.status_code == 200
        assert send(second.url + PATH, header).status_code == 409
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_a_client_of_version_1_pays_in_its_own_header(world: PayWorld, seller: Served) -> None:
    inner = orjson.loads(b64decode(pay(world, seller.url + PATH)))["payload"]
    payload = {"x402Version": 1, "scheme": "exact", "network": "solana", "payload": inner}
    header = b64encode(orjson.dumps(payload)).decode()
    had_raw = world.revenue_raw
    answer = httpx.get(seller.url + PATH, headers={"x-payment": header}, timeout=60)
    assert answer.status_code == 200
    assert orjson.loads(b64decode(answer.headers["x-payment-response"]))["success"]
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_four_processes_on_one_port_sell_one_answer_a_payment(
    world: PayWorld, serve: Serve, settings: dict[str, object]
) -> None:
    shared = {**settings, "api_reuse_port": True, "api_port": free_port()}
    had_raw = world.revenue_raw
    with ExitStack() as stack:
        first, *_ = [stack.enter_context(serve(**shared)) for _ in range(4)]
        url = first.url + PATH
        payments = [pay(world, url) for _ in range(10)]

        async def send_all() -> list[list[int]]:
            async def one(header: str) -> int:
                async with httpx.AsyncClient(timeout=60) as http:  # a connection of its own
                    found = await http.get(url, headers={"payment-signature": header})
                    return found.status_code

            return [
                list(await asyncio.gather(*(one(header) for _ in range(8)))) for header in payments
            ]

        found = asyncio.run(send_all())
    assert [sorted(each) for each in found] == [[200] + [409] * 7] * 10
    assert world.revenue_raw == had_raw + 10 * PRICE_RAW


def test_soltape_pay_pays_and_prints_the_answer(
    world: PayWorld, seller: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = tmp_path / "payer.json"
    wallet.write_bytes(orjson.dumps(list(bytes(world.wallet()))))
    monkeypatch.setenv("RPC_ENDPOINT", world.rpc_url)
    monkeypatch.chdir(tmp_path)
    had_raw = world.revenue_raw
    done = CliRunner().invoke(pay_command, [seller.url + PATH, "--wallet", str(wallet)])
    assert done.exit_code == 0, done.output
    assert orjson.loads(done.stdout)["wallet"] == WALLET
    assert done.stderr.startswith("paid: transaction ")
    assert world.revenue_raw == had_raw + PRICE_RAW
    dear = CliRunner().invoke(
        pay_command, [seller.url + PATH, "--wallet", str(wallet), "--most", "399"]
    )
    assert dear.exit_code == 1
    assert "more than --most allows" in dear.stderr
    assert world.revenue_raw == had_raw + PRICE_RAW


def test_the_counters_agree_with_the_chain(world: PayWorld, serve: Serve, settings: Any) -> None:
    had_raw = world.revenue_raw
    with serve(**settings) as fresh:
        for _ in range(3):
            assert send(fresh.url + PATH, pay(world, fresh.url + PATH)).status_code == 200
        fresh.until_metric("soltape_pay_payments_total 3.0")
        fresh.until_metric(f"soltape_pay_revenue_raw_total {world.revenue_raw - had_raw}.0")
        fresh.until_metric("soltape_pay_challenges_total 3.0")
        # What bought nothing, by cause.
        used = pay(world, fresh.url + PATH)
        assert send(fresh.url + PATH, used).status_code == 200
        assert send(fresh.url + PATH, used).status_code == 409
        assert send(fresh.url + PATH, "no payment").status_code == 402
        poor = pay(world, fresh.url + PATH, world.wallet(0))
        assert send(fresh.url + PATH, poor).status_code == 402
        nobody = f"{fresh.url}/pay/api/wallets/nobody/holdings"
        assert send(nobody, pay(world, fresh.url + PATH)).status_code == 422
        for cause, count in (("conflict", 1), ("refused", 2), ("answer", 1)):
            fresh.until_metric(f'soltape_pay_failures_total{{cause="{cause}"}} {count}.0')
