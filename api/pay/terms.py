"""What a call costs and whom it pays, in the words of x402, version 2 and version 1.

Source: package `x402` 2.25.0, `schemas.payments` and `schemas.v1`.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from x402.schemas import PaymentRequired, PaymentRequirements, ResourceInfo
from x402.schemas.v1 import PaymentRequirementsV1

PRICE_RAW: Final = 400
"""Price of one call, in units of 10^-6 USDC: $0.0004."""
DECIMALS: Final = 6
SCHEME: Final = "exact"
VALID_S: Final = 60
"""How long a client may take from the challenge to the payment."""

_OLD_NAMES: Final = {  # CAIP-2, as version 2 has it, to the name of version 1
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "solana",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana-devnet",
    "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z": "solana-testnet",
}
NETWORKS: Final = frozenset(_OLD_NAMES)

_DESCRIPTION: Final = "One call of Soltape's wallet API"
_MEDIA_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Terms:
    """To whom, in what and where a call is paid."""

    network: str  # CAIP-2
    asset: str  # mint
    pay_to: str  # wallet

    @property
    def old_network(self) -> str:
        """The network's name in version 1."""
        return _OLD_NAMES[self.network]

    def requirements(self, fee_payer: str) -> PaymentRequirements:
        """Return what a payment of version 2 must fulfil."""
        return PaymentRequirements(
            scheme=SCHEME,
            network=self.network,
            asset=self.asset,
            amount=str(PRICE_RAW),
            pay_to=self.pay_to,
            max_timeout_seconds=VALID_S,
            extra={"feePayer": fee_payer},
        )

    def old_requirements(self, fee_payer: str, url: str) -> PaymentRequirementsV1:
        """Return what a payment of version 1 must fulfil."""
        return PaymentRequirementsV1(
            scheme=SCHEME,
            network=self.old_network,
            max_amount_required=str(PRICE_RAW),
            resource=url,
            description=_DESCRIPTION,
            mime_type=_MEDIA_TYPE,
            pay_to=self.pay_to,
            max_timeout_seconds=VALID_S,
            asset=self.asset,
            extra={"feePayer": fee_payer},
        )

    def challenge(self, fee_payer: str, url: str, error: str) -> bytes:
        """Return the JSON of a challenge: in the header in base64, in the body as it is."""
        challenge = PaymentRequired(
            error=error,
            resource=ResourceInfo(url=url, description=_DESCRIPTION, mime_type=_MEDIA_TYPE),
            accepts=[self.requirements(fee_payer)],
        )
        return challenge.model_dump_json(by_alias=True, exclude_none=True).encode()


def header(json: bytes) -> bytes:
    """Return JSON as x402 writes it into a header."""
    return b64encode(json)
