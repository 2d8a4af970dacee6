"""The facilitator by HTTP: what it supports, whether a payment is good, and its settlement.

Source: package `x402` 2.25.0, `http.facilitator_client_base`: `/supported`, `/verify`, `/settle`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, TypeVar

import aiohttp
import orjson
import structlog
from pydantic import BaseModel
from x402.schemas import SettleResponse, SupportedResponse, VerifyResponse

from api.pay.payment import Payment
from api.pay.terms import SCHEME, Terms

log = structlog.get_logger(__name__)

Model = TypeVar("Model", bound=BaseModel)

_VERIFY_S: Final = 5.0
_SETTLE_S: Final = 45.0  # the official one waits 30 s for the confirmation
_FRESH_S: Final = 60.0
_AWAY_S: Final = 2.0
"""How long it is not asked again what it supports, so that callers do not wait one by one."""
_NOT_NOW: Final = frozenset({408, 429})
_UNREAD: Final = frozenset({400, 413, 422})
"""What it may answer to a payment that it cannot read; 401 to 404 are about how it is called."""


class FacilitatorAway(Exception):
    """It does not answer, or not in the words of x402: what it did is unknown."""


class Garbled(FacilitatorAway):
    """It answers, but not in the words of x402: what was asked may be why."""

    def __init__(self, path: str, status: int) -> None:
        super().__init__(f"{path} answered {status} with what is no answer of x402")
        self.status = status


class Facilitator:
    """A facilitator that is asked over HTTP. Every method raises FacilitatorAway."""

    def __init__(self, url: str, terms: Terms) -> None:
        self._url = url.rstrip("/")
        self._terms = terms
        self._client: aiohttp.ClientSession | None = None
        self._fee_payers: tuple[str, ...] = ()
        self._fresh_until_s = 0.0
        self._away: FacilitatorAway | None = None
        self._asking = asyncio.Lock()

    async def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.close()

    async def fee_payers(self) -> tuple[str, ...]:
        """Return the wallets that pay a transaction's fee, the one to name first.

        Many first requests are one question. Later ones do not wait for it: what was known last is
        so until the answer comes, and a facilitator that hangs holds one request of a process.
        """
        if self._asking.locked() and (self._fee_payers or self._away is not None):
            return self._known()
        async with self._asking:
            if time.monotonic() >= self._fresh_until_s:
                try:
                    answer = await self._ask(
                        "GET", "/supported", None, _VERIFY_S, SupportedResponse
                    )
                    self._fee_payers, self._away = self._of(answer), None
                except FacilitatorAway as error:
                    self._away = error
                is_away = self._away is not None
                self._fresh_until_s = time.monotonic() + (_AWAY_S if is_away else _FRESH_S)
        return self._known()

    def _known(self) -> tuple[str, ...]:
        if self._away is not None:
            raise FacilitatorAway(str(self._away))
        return self._fee_payers

    async def verify(self, payment: Payment, url: str) -> VerifyResponse:
        """Return whether a payment could be settled now: not where it cannot be read there."""
        question = self._question(payment, url)
        try:
            return await self._ask("POST", "/verify", question, _VERIFY_S, VerifyResponse)
        except Garbled as error:
            if error.status not in _UNREAD:
                raise
            log.warning("facilitator refuses a question", reason=str(error))
            reason = f"the facilitator refuses the payment with status {error.status}"
            return VerifyResponse(is_valid=False, invalid_reason=reason)

    async def settle(self, payment: Payment, url: str) -> SettleResponse:
        """Settle a payment, and return how that went; after FacilitatorAway it may be settled."""
        question = self._question(payment, url)
        return await self._ask("POST", "/settle", question, _SETTLE_S, SettleResponse)

    def _question(self, payment: Payment, url: str) -> dict[str, Any]:
        wanted: Any = self._terms.requirements(payment.fee_payer)
        if payment.version == 1:
            wanted = self._terms.old_requirements(payment.fee_payer, url)
        return {
            "x402Version": payment.version,
            "paymentPayload": payment.payload,
            "paymentRequirements": wanted.model_dump(by_alias=True, exclude_none=True),
        }

    def _of(self, supported: SupportedResponse) -> tuple[str, ...]:
        for kind in supported.kinds:
            is_ours = (kind.x402_version, kind.scheme, kind.network) == (
                2,
                SCHEME,
                self._terms.network,
            )
            named = (kind.extra or {}).get("feePayer")
            if is_ours and isinstance(named, str):
                others = supported.signers.get("solana:*", [])
                return (named, *(each for each in others if each != named))
        raise FacilitatorAway(f"it does not settle `{SCHEME}` on {self._terms.network}")

    async def _ask(
        self, method: str, path: str, body: Any, within_s: float, model: type[Model]
    ) -> Model:
        if self._client is None:
            self._client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._client.request(
                method,
                f"{self._url}{path}",
                data=None if body is None else orjson.dumps(body),
                headers={"content-type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=within_s),
                allow_redirects=False,
            ) as answer:
                data, status = await answer.read(), answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise FacilitatorAway(f"{path}: {type(error).__name__}") from None
        if status >= 500 or status in _NOT_NOW:
            raise FacilitatorAway(f"{path} answered {status}")
        try:  # a refusal of /verify and /settle may come as 4xx with the usual body
            return model.model_validate(orjson.loads(data))
        except ValueError:  # pydantic's ValidationError is one
            if status < 300 or status in _UNREAD:
                raise Garbled(path, status) from None
            raise FacilitatorAway(f"{path} answered {status}") from None
