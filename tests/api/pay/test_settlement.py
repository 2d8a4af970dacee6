"""What becomes of a payment by the facilitator's word, and where the chain is looked at."""

from __future__ import annotations

import pytest
from x402.schemas import SettleResponse

from api.pay.chain import Chain
from api.pay.payment import Payment
from api.pay.settlement import Failed, Outcome, Settled, Settlement, Unknown
from tests.api.pay.test_chain import SEEN, SLOT, Node, payment
from tests.api.pay.test_payment import TERMS
from tests.support.rpc_server import serving

SENT = [
    "transaction_failed",
    "settlement_pending",
    "duplicate_settlement",
    "settle_exact_svm_transaction_confirmation_timed_out",
    "settle_exact_svm_block_height_exceeded",
    "unexpected_settle_error",
    "a_reason_of_next_year",
    None,
]
UNSENT = [
    "unsupported_scheme",
    "network_mismatch",
    "fee_payer_not_managed_by_facilitator",
    "insufficient_funds",
    "transaction_simulation_failed",
    "invalid_exact_svm_payload",
    "invalid_exact_svm_payload_amount_insufficient",
]


class Desk:
    """A facilitator that refuses each settlement with a reason, and may name a transaction."""

    def __init__(self, reason: str | None, transaction: str = "") -> None:
        self._reason = reason
        self._transaction = transaction

    async def settle(self, _: Payment, __: str) -> SettleResponse:
        return SettleResponse(
            success=False,
            error_reason=self._reason,
            transaction=self._transaction,
            network=TERMS.network,
        )


async def settled(desk: Desk, node: Node, wanted: Payment) -> Outcome:
    async with serving(node.answer, SLOT) as url:
        chain = Chain(url)
        try:
            settlement = Settlement(desk, chain, TERMS)  # type: ignore[arg-type]
            return await settlement.first(wanted, "http://here/pay/x", SEEN)
        finally:
            await chain.close()


@pytest.mark.parametrize("reason", SENT)
async def test_after_a_reason_that_may_follow_the_sending_the_chain_decides(
    reason: str | None,
) -> None:
    wanted, wire = payment()
    node = Node("processed", "finalized")
    assert isinstance(await settled(Desk(reason), node, wanted), Unknown)
    signature = node.add(wire)
    found = await settled(Desk(reason), node, wanted)
    assert isinstance(found, Settled)
    assert found.response["transaction"] == signature
    assert isinstance(await settled(Desk(reason), Node(), wanted), Failed)  # expired


@pytest.mark.parametrize("reason", UNSENT)
async def test_a_reason_that_precedes_the_sending_is_the_end_unless_a_transaction_is_named(
    reason: str,
) -> None:
    wanted, wire = payment()
    node = Node("processed", "finalized")
    found = await settled(Desk(reason), node, wanted)
    assert isinstance(found, Failed)
    assert found.reason == reason
    signature = node.add(wire)
    assert isinstance(await settled(Desk(reason, signature), node, wanted), Settled)
