"""Jupiter's RFQ: a maker and a taker exchange two tokens in one instruction, without a pool.

The swap is the taker's; the maker's address is its pool. The maker's own side is in the
movements, not a second swap, which would count the volume twice. Either side may be native SOL:
the maker's is unwrapped on the way to the taker. Source: jup-ag/rfq-webhook-toolkit's
programs/order-engine, and mainnet transactions.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Malformed, Venue
from pipeline.decoding.flows import flows
from schemas.solana.addresses import text

TAKER, MAKER = 0, 1
INPUT_MINT, OUTPUT_MINT = 6, 8


def _fill(ix: Instruction) -> Leg:
    tx, taker = ix.tx, ix.account(TAKER)
    address = text(tx.keys[taker])
    input_mint, output_mint = ix.address(INPUT_MINT), ix.address(OUTPUT_MINT)
    moved = {input_mint: 0, output_mint: 0}
    places: dict[str, int] = {}
    for flow in flows(tx, ix.position + 1, tx.subtree_end(ix.position)):
        if flow.owner != address or flow.mint not in moved:
            continue
        moved[flow.mint] += flow.amount_raw
        if tx.token_accounts.get(flow.account) is not None:
            places[flow.mint] = flow.account
    paid_raw, received_raw = -moved[input_mint], moved[output_mint]
    if paid_raw <= 0 or received_raw <= 0:
        raise Malformed(f"the taker gave {paid_raw} for {received_raw}")
    return Leg(
        pool=ix.address(MAKER),
        input_mint=input_mint,
        output_mint=output_mint,
        input_raw=paid_raw,
        output_raw=received_raw,
        source=places.get(input_mint),
        destination=places.get(output_mint),
        owner=address,
        second_mint=output_mint,
    )


VENUES: Final = (
    Venue(
        dex="jupiter-rfq",
        programs=("61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH",),
        handlers={bytes.fromhex("a860b7a35c0a28a0"): _fill},
    ),
)
