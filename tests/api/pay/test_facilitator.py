"""What requests wait for while the facilitator is asked what it supports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from api.pay import facilitator
from api.pay.facilitator import Facilitator, FacilitatorAway, Garbled
from tests.api.pay.test_payment import FEE_PAYER, TERMS, paid, read
from tests.support.waiting import eventually_async


class Desk:
    """A facilitator that may fail, and that may hang."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_down = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.verified: tuple[int, str] = (200, "")  # status and body

    async def verify(self, _: web.Request) -> web.Response:
        status, text = self.verified
        return web.Response(status=status, text=text)

    async def supported(self, _: web.Request) -> web.Response:
        self.asked += 1
        await self.may_answer.wait()
        if self.is_down:
            raise web.HTTPBadGateway
        kind = {
            "x402Version": 2,
            "scheme": "exact",
            "network": TERMS.network,
            "extra": {"feePayer": FEE_PAYER},
        }
        return web.json_response({"kinds": [kind], "extensions": [], "signers": {}})


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Desk, Facilitator]]:
    desk = Desk()
    application = web.Application()
    application.router.add_get("/supported", desk.supported)
    application.router.add_post("/verify", desk.verify)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    asking = Facilitator(site.name, TERMS)
    try:
        yield desk, asking
    finally:
        desk.may_answer.set()
        await asking.close()
        await runner.cleanup()


@pytest.mark.parametrize("is_down", [False, True])
async def test_one_request_waits_for_a_facilitator_that_hangs(
    monkeypatch: pytest.MonkeyPatch, is_down: bool
) -> None:
    # private `_AWAY_S`, `_FRESH_S`: makes each answer of the facilitator too old at once.
    monkeypatch.setattr(facilitator, "_AWAY_S", 0.0)
    monkeypatch.setattr(facilitator, "_FRESH_S", 0.0)
    async with served() as (desk, asking):
        desk.is_down = is_down
        before = await asyncio.gather(asking.fee_payers(), return_exceptions=True)
        desk.may_answer.clear()
        first = asyncio.create_task(asking.fee_payers())
        await eventually_async(lambda: desk.asked == 2)
        others = asyncio.gather(*(asking.fee_payers() for _ in range(100)), return_exceptions=True)
        for found in await asyncio.wait_for(others, 60):
            assert not first.done()
            assert repr(found) == repr(before[0])
            assert isinstance(found, FacilitatorAway) == is_down
        desk.is_down = False
        desk.may_answer.set()
        assert await first == (FEE_PAYER,)
        assert desk.asked == 2


async def test_many_first_requests_are_one_question() -> None:
    async with served() as (desk, asking):
        found = await asyncio.gather(*(asking.fee_payers() for _ in range(50)))
        assert {*found} == {(FEE_PAYER,)}
        assert desk.asked == 1


URL = "http://here/pay/x"


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("text", ["no payment", '{"error":"resource"}', "[]", ""])
async def test_a_question_that_is_refused_by_4xx_is_a_payment_that_is_refused(
    status: int, text: str
) -> None:
    async with served() as (desk, asking):
        desk.verified = status, text
        found = await asking.verify(read(paid()), URL)
        assert not found.is_valid
        assert str(status) in (found.invalid_reason or "")
        desk.verified = status, '{"isValid":false,"invalidReason":"insufficient_funds"}'
        assert (await asking.verify(read(paid()), URL)).invalid_reason == "insufficient_funds"


@pytest.mark.parametrize(
    ("status", "is_garbled"),
    [
        (200, True),
        (302, False),
        (401, False),
        (404, False),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
async def test_what_is_no_answer_is_no_refusal_and_is_garbled_unless_it_is_away(
    status: int, is_garbled: bool
) -> None:
    async with served() as (desk, asking):
        desk.verified = status, "come later"
        with pytest.raises(FacilitatorAway) as caught:
            await asking.verify(read(paid()), URL)
        assert isinstance(caught.value, Garbled) == is_garbled
