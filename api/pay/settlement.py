"""Settling a payment so that its outcome is known: by the facilitator's word, else by the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import structlog
from x402.schemas import SettleResponse

from api.pay.chain import Chain, NodeAway, Sight
from api.pay.facilitator import Facilitator, FacilitatorAway
from api.pay.payment import Payment
from api.pay.terms import Terms

log = structlog.get_logger(__name__)

# With these the facilitator has sent nothing: it refuses what it does not settle, or verifies anew
# before it sends. With all others, also those that we do not know, it may have sent.
# Source: package `x402` 2.25.0, `mechanisms.svm.constants`.
_UNSENT: Final = frozenset(
    {
        "fee_payer_not_managed_by_facilitator",
        "insufficient_funds",
        "network_mismatch",
        "transaction_simulation_failed",
        "unsupported_scheme",
    }
)
_UNSENT_PREFIX: Final = "invalid_exact_svm_payload"


@dataclass(frozen=True, slots=True)
class Settled:
    """The payment is on the chain."""

    response: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The payment is not on the chain, and will not be."""

    response: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may be on the chain, or come to it."""


Outcome = Settled | Failed | Unknown


class Settlement:
    """Settles payments of one kind."""

    def __init__(self, facilitator: Facilitator, chain: Chain, terms: Terms) -> None:
        self._facilitator = facilitator
        self._chain = chain
        self._terms = terms

    async def sight(self, payment: Payment) -> Sight | None:
        """Return what the node knows of a payment that is not settled yet."""
        return await self._chain.sight(payment)

    async def first(self, payment: Payment, url: str, sight: Sight | None) -> Outcome:
        """Settle a payment that nobody has tried to settle, after a sight of it."""
        reason = "unknown"
        try:
            answer = await self._facilitator.settle(payment, url)
            if answer.success:
                return Settled(answer.model_dump(by_alias=True, exclude_none=True))
            reason = answer.error_reason or reason
            if not answer.transaction and _is_unsent(reason):
                return Failed(answer.model_dump(by_alias=True, exclude_none=True), reason)
        except FacilitatorAway as error:
            log.warning("facilitator does not answer", reason=str(error))
        return await self._look(payment, reason, sight)

    async def again(self, payment: Payment, url: str, sight: Sight | None) -> Outcome:
        """Settle a payment that somebody may have settled."""
        outcome = await self._look(payment, "unknown", sight)
        if not isinstance(outcome, Unknown):
            return outcome
        tried = await self.first(payment, url, sight)
        # The facilitator refuses what is on the chain since we looked.
        if isinstance(tried, Failed):
            return await self._look(payment, tried.reason, sight)
        return tried

    async def _look(self, payment: Payment, reason: str, sight: Sight | None) -> Outcome:
        try:
            signature, absent = await self._chain.find(payment, sight)
        except NodeAway as error:
            log.warning("node does not answer", reason=str(error))
            return Unknown()
        if absent in ("pending", "unseen"):
            if absent == "unseen":
                log.warning("node may lag: it does not know a blockhash, or not any more")
            return Unknown()
        if absent == "expired":
            return Failed(self._response(payment, "", reason), "expired")
        return Settled(self._response(payment, signature, None))

    def _response(self, payment: Payment, signature: str, reason: str | None) -> dict[str, Any]:
        return SettleResponse(
            success=reason is None,
            error_reason=reason,
            payer=payment.accounts[1],
            transaction=signature,
            network=self._terms.network,
        ).model_dump(by_alias=True, exclude_none=True)


def _is_unsent(reason: str) -> bool:
    """Return whether a facilitator that names this reason has sent no transaction."""
    return reason in _UNSENT or reason.startswith(_UNSENT_PREFIX)
