"""What the truth says of accounts is what the transactions' own metadata shows."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.market.runtime.programs import USDC, USDT, WSOL
from infra.chain.source import SlotTransactions
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import text

pytestmark = pytest.mark.slow  # runs a market

MONEY = {text(mint) for mint in (WSOL, USDC, USDT)}
Place = tuple[int, int]


@pytest.fixture(scope="module")
def chain() -> tuple[dict[Place, SubscribeUpdateTransactionInfo], list[dict[str, Any]]]:
    sink = io.BytesIO()
    infos = {
        (event.slot, transaction.index): SubscribeUpdateTransactionInfo.FromString(transaction.info)
        for event in Market(Knobs(seed=5, rate=300), Truth(sink, flows=True)).generate(60)
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
    }
    return infos, [json.loads(line) for line in sink.getvalue().splitlines()]


def flows(chain: Any) -> list[dict[str, Any]]:
    return [row for row in chain[1] if row["kind"] == "flow"]


def test_every_successful_transaction_has_its_flow(chain):
    infos, rows = chain
    reported = {row["slot"] for row in rows if row["kind"] == "slot"}
    wanted = {
        place
        for place, info in infos.items()
        if place[0] in reported and not info.is_vote and not info.meta.HasField("err")
    }
    found = [(row["slot"], row["tx_index"]) for row in flows(chain) if row["slot"] in reported]
    assert len(found) == len(set(found)) > 2_500
    assert set(found) == wanted


def test_balances_are_those_of_the_metadata(chain):
    infos, _ = chain
    for row in flows(chain):
        info = infos[row["slot"], row["tx_index"]]
        meta = info.meta
        keys = [
            *info.transaction.message.account_keys,
            *meta.loaded_writable_addresses,
            *meta.loaded_readonly_addresses,
        ]
        before, after = (
            {text(keys[b.account_index]): (b, int(b.ui_token_amount.amount)) for b in balances}
            for balances in (meta.pre_token_balances, meta.post_token_balances)
        )
        for account, owner, mint, decimals, pre, post, _ in row["tokens"]:
            for balance, raw in ((before.get(account), pre), (after.get(account), post)):
                assert (balance and balance[1]) == raw
                if balance:
                    assert balance[0].owner == owner
                    assert balance[0].mint == mint
                    assert balance[0].ui_token_amount.decimals == decimals
        assert before.keys() | after.keys() <= {token[0] for token in row["tokens"]}
        assert row["signers"][0] == text(keys[0])
        changed = {
            text(key): (pre, post)
            for key, pre, post in zip(keys, meta.pre_balances, meta.post_balances, strict=True)
            if pre != post
        }
        tokens = {token[0] for token in row["tokens"]}
        assert {a: (b, c) for a, b, c, _ in row["sol"]} == {
            account: both for account, both in changed.items() if account not in tokens
        }


def test_holders_do_all_they_are_said_to(chain):
    """Beside swaps, seen and unseen: gifts, airdrops, burns, wraps, liquidity."""
    legs: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    swaps = [row for row in chain[1] if row["kind"] == "swap"]
    for row in swaps:
        sign = 1 if row["side"] == "buy" else -1
        of = legs[row["signature"]]
        of[row["wallet"], row["mint"]] += sign * int(row["wallet_amount_raw"])
        of[row["wallet"], row["quote_mint"]] -= sign * int(row["wallet_quote_amount_raw"])
    receivers: dict[str, int] = defaultdict(int)
    burned: set[bool] = set()
    wraps = lp = 0
    for row in flows(chain):
        moved: dict[tuple[str, str], int] = defaultdict(int)
        for _, owner, mint, _, pre, post, vault in row["tokens"]:
            if vault is None:
                moved[owner, mint] += (post or 0) - (pre or 0)
        wraps += not row["seen"] and any(token[2] == text(WSOL) for token in row["tokens"])
        burned |= {row["seen"]} if row["burned"] else set()
        for key, raw in legs[row["signature"]].items():
            moved[key] -= raw
        gains = sum(raw > 0 for (_, mint), raw in moved.items() if mint not in MONEY)
        if row["seen"]:
            receivers[row["signature"]] = gains
            lp += not legs[row["signature"]] and gains > 0
    assert burned == {True, False}
    assert wraps
    assert lp
    assert sum(count == 1 for count in receivers.values()) > 20
    assert max(receivers.values()) > 2
    assert any(row["quote_mint"] not in MONEY for row in swaps)
