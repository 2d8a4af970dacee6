"""The ground truth: what really happened, written down by the ones who did it.

Tests compare a pipeline's output with these records; nothing here is read from the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

import orjson

from infra.chain.market.runtime.events import FundingPayment, Launch, Leg, Move, PerpChange
from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.flows import flow
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import QUOTES
from infra.chain.market.runtime.wire import truncated
from infra.chain.source import BlockHeader
from schemas.solana import base58


def base_and_quote(sides: tuple[Mint, Mint]) -> tuple[Mint, Mint]:
    """Say which side is traded and which is the quote: SOL, USDC, USDT, USD1, else the second."""
    first, second = sides
    for quote in QUOTES:
        if second.address == quote:
            return first, second
        if first.address == quote:
            return second, first
    return first, second


class Truth:
    """Writes the ground truth as JSON lines, one record an event; raw amounts are strings.

    With `flows` also one record a transaction of what it moved (`runtime.flows`); raw amounts are
    numbers there.
    """

    def __init__(self, sink: IO[bytes], *, flows: bool = False) -> None:
        self._sink = sink
        self._flows = flows

    def _write(self, record: dict[str, Any]) -> None:
        self._sink.write(orjson.dumps(record) + b"\n")

    def transaction(
        self,
        tx: Execution,
        signature: str,
        index: int,
        canonical: bool,
        time_ms: int,
        accounts: Iterable[bytes],
    ) -> None:
        """Write all events of an executed transaction; `accounts` are all that it names."""
        if tx.err_code is not None:
            return
        intent = tx.intent
        common: dict[str, Any] = {
            "signature": signature,
            "slot": tx.slot,
            "canonical": canonical,
            "tx_index": index,
            "block_time_ms": time_ms,
        }

        def write(kind: str, fields: dict[str, Any]) -> None:
            if intent.mangled:  # a reader may find nothing, or just this
                self._write({"kind": "malformed", "of": kind, **common, **fields})
            else:
                self._write({"kind": kind, **common, **fields})

        paid = {
            "fee_payer": base58.encode(intent.payer),
            "fee_lamports": str(intent.fee_lamports),
            "priority_fee_lamports": str(intent.priority_fee_lamports),
            "tip_lamports": str(tx.tip_lamports),
            "router": "jupiter" if intent.tag == "jupiter" else "",
        }
        for leg in tx.legs:
            write("swap", {**_swap_fields(leg), **paid})
        for launch in tx.launches:
            write("creation", _creation_fields(launch))
        for move in tx.moves:
            write("migration", _migration_fields(move))
        for change in tx.perps:
            write("perp", _perp_fields(change))
        for fields in _funding_fields(tx.funding, tx.logs):
            write("funding", fields)
        if self._flows and not intent.is_vote:
            self._write({"kind": "flow", **common, **flow(tx, accounts)})

    def slot(
        self,
        header: BlockHeader,
        canonical: bool,
        transactions: int,
        *,
        is_rolled_back: bool = False,
    ) -> None:
        """Write what became of a slot; a dead one has the header it would have had.

        A slot that is rolled back was confirmed before the chain left it.
        """
        self._write(
            {
                "kind": "slot",
                "slot": header.slot,
                "parent": header.parent_slot,
                "blockhash": header.blockhash,
                "block_time_ms": header.block_time * 1_000,
                "canonical": canonical,
                "rolled_back": is_rolled_back,
                "transactions": transactions,
            }
        )

    def balances(self, ledger: Ledger, slot: int) -> None:
        """Write every token account's balance after `slot`."""
        for account in ledger.tokens.values():
            self._write(
                {
                    "kind": "balance",
                    "slot": slot,
                    "account": base58.encode(account.address),
                    "owner": account.owner_text,
                    "mint": account.mint.text,
                    "amount_raw": str(account.amount_raw),
                }
            )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _swap_fields(leg: Leg) -> dict[str, Any]:
    mint, quote = base_and_quote(leg.pool_sides)
    buys = leg.mint_out is mint
    sold, bought = (leg.vault_in_raw, leg.vault_out_raw)
    gave, got = (leg.trader_in_raw, leg.trader_out_raw)
    straight = leg.pool_sides[0] is mint
    reserve, quote_reserve = leg.reserves_raw if straight else leg.reserves_raw[::-1]
    virtual, virtual_quote = leg.virtual_raw if straight else leg.virtual_raw[::-1]
    vault, quote_vault = leg.vaults_raw if straight else leg.vaults_raw[::-1]
    return {
        "event_index": leg.place,
        "dex": leg.dex,
        "program_id": leg.program_id,
        "pool": base58.encode(leg.pool),
        "wallet": base58.encode(leg.trader),
        "keeper": base58.encode(leg.keeper),
        "token_owner": base58.encode(leg.token_owner or leg.trader),
        "mint": mint.text,
        "quote_mint": quote.text,
        "side": "buy" if buys else "sell",
        "amount_raw": str(bought if buys else sold),
        "decimals": mint.decimals,
        "quote_amount_raw": str(sold if buys else bought),
        "quote_decimals": quote.decimals,
        "wallet_amount_raw": str(got if buys else gave),
        "wallet_quote_amount_raw": str(gave if buys else got),
        "pool_fee_raw": _text(leg.fee_raw),
        "pool_fee_mint": leg.fee_mint.text if leg.fee_mint else "",
        "reserve_raw": _text(reserve),
        "quote_reserve_raw": _text(quote_reserve),
        "virtual_reserve_raw": _text(virtual),
        "virtual_quote_reserve_raw": _text(virtual_quote),
        "for_sale_raw": _text(leg.for_sale_raw),
        "migration_quote_raw": _text(leg.migration_quote_raw),
        "vault_raw": str(vault),
        "quote_vault_raw": str(quote_vault),
        "liquidity": _text(leg.liquidity),
        "sqrt_price_x64": _text(leg.sqrt_price_x64),
        "platform": mint.platform,
    }


def _creation_fields(launch: Launch) -> dict[str, Any]:
    mint = launch.mint
    return {
        "event_index": launch.place,
        "mint": mint.text,
        "name": mint.name,
        "symbol": mint.symbol,
        "uri": mint.uri,
        "creator": base58.encode(launch.creator),
        "platform": launch.platform,
        "dex": launch.dex,
        "pool": base58.encode(launch.pool),
        "quote_mint": launch.quote.text,
        "decimals": mint.decimals,
        "supply_raw": str(mint.supply_raw),
        "token_program": mint.program.name,
    }


def _migration_fields(move: Move) -> dict[str, Any]:
    return {
        "event_index": move.place,
        "mint": move.mint.text,
        "platform": move.platform,
        "from_dex": move.from_dex,
        "from_pool": base58.encode(move.from_pool),
        "dex": move.dex,
        "pool": base58.encode(move.pool),
        "quote_mint": move.quote.text,
        "amount_raw": str(move.amount_raw),
        "quote_amount_raw": str(move.quote_amount_raw),
    }


def _perp_fields(change: PerpChange) -> dict[str, Any]:
    fields = change.layout.as_json(change.values)
    return {
        "event_index": change.place,
        "cpi_index": change.cpi_place,
        "event": change.layout.name,
        "wallet": fields["owner"],
        "position": fields["position_key"],
        "pool": fields["pool"],
        "custody": fields["position_custody"],
        "collateral_custody": fields["position_collateral_custody"],
        "mint": base58.encode(change.mint),
        "collateral_mint": base58.encode(change.collateral_mint),
        "side": "long" if change.is_long else "short",
        "fields": fields,
    }


def _funding_fields(payments: list[FundingPayment], logs: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a transaction's payments; `lost` are those whose line the runtime cut off."""
    kept = set(truncated(logs)) if payments else set()
    for number, payment in enumerate(payments):
        fields = payment.layout.as_json(payment.values)
        yield {
            "event_index": payment.place,
            "number": number,
            "lost": logs[payment.log_place] not in kept,
            "wallet": fields["user_authority"],
            "user": fields["user"],
            "market_index": payment.values["market_index"],
            "fields": fields,
        }
