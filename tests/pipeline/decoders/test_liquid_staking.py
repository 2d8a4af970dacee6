"""Stake pools' tokens for SOL and back, alone and in a route."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from schemas.events import Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder
from tests.support.decoding.builder import address

STAKE_POOL = "SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy"
MARINADE = "MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD"
SANCTUM_ROUTER = "stkitrT1Uoy18Dk1fTrgPw8W6MVzoCfYoAFT4MLsmhq"
TITAN = "T1TANpTeScyeqVzzgNViGDNrkQ6qHz9KrSBS4aNXvGT"
LIQUID_UNSTAKE = bytes.fromhex("1e1e77f0bfe30c10")
ADD_LIQUIDITY = bytes.fromhex("b59d59438fb63448")
STAKE_PROGRAM = "Stake11111111111111111111111111111111111111"


def swaps_of(tx: Any) -> list[Swap]:
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    return [event for event in decoded.events if isinstance(event, Swap)]


def test_sol_is_deposited_for_a_pools_token() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("lst", "pool token", "trader")
    tx.token("manager", "pool token", "manager")
    call = tx.call(STAKE_POOL, "stake-pool authority reserve trader lst", bytes([14]) + bytes(8))
    tx.send(call, "trader", "reserve", 1_000)
    tx.mint_to(call, "pool token", "lst", 880)
    tx.mint_to(call, "pool token", "manager", 3)
    (swap,) = swaps_of(tx)
    assert (swap.dex, swap.pool) == ("stake-pool", address("stake-pool"))
    assert (swap.wallet, swap.side) == (address("trader"), Side.BUY)
    assert (swap.amount_raw, swap.quote_mint, swap.quote_amount_raw) == (880, WSOL, 1_000)


def test_marinade_pays_sol_for_its_token_at_once() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("msol", "msol mint", "trader", 900)
    tx.token("leg", "msol mint", "liquidity", 10**6)
    tx.token("treasury", "msol mint", "treasury owner")
    data = LIQUID_UNSTAKE + bytes(8)
    call = tx.call(MARINADE, "state mint leg-sol leg treasury msol trader", data)
    tx.transfer(call, "msol", "leg", "trader", 490)
    tx.transfer(call, "msol", "treasury", "trader", 10)
    tx.send(call, "leg-sol", "trader", 600)
    (swap,) = swaps_of(tx)
    assert (swap.dex, swap.pool, swap.side) == ("marinade", address("state"), Side.SELL)
    assert (swap.wallet_amount_raw, swap.wallet_quote_amount_raw) == (500, 600)
    assert swap.amount_raw == 490


@pytest.mark.parametrize("tag", [16, 26])
def test_a_pools_token_is_withdrawn_for_sol_of_its_stake(tag: int) -> None:
    """The pool's reserve is a stake account: its lamports leave by the Stake program."""
    tx = builder.TransactionBuilder("trader")
    tx.token("lst", "pool token", "trader", 900)
    tx.token("manager", "pool token", "manager")
    call = tx.call(STAKE_POOL, "stake-pool x trader lst reserve trader", bytes([tag]) + bytes(8))
    tx.transfer(call, "lst", "manager", "trader", 3)
    tx.burn(call, "pool token", "lst", "trader", 497)
    withdraw = pack("<IQ", 4, 600)
    tx.call(STAKE_PROGRAM, "reserve trader clock history authority", withdraw, under=call)
    tx.gain("trader", 600)
    tx.gain("reserve", -600)
    (swap,) = swaps_of(tx)
    assert (swap.dex, swap.pool, swap.side) == ("stake-pool", address("stake-pool"), Side.SELL)
    assert (swap.wallet, swap.quote_mint) == (address("trader"), WSOL)
    assert (swap.wallet_amount_raw, swap.wallet_quote_amount_raw) == (500, 600)


def test_sol_for_a_share_of_marinades_liquidity_is_no_swap() -> None:
    """It is paid back in SOL and in Marinade's token."""
    tx = builder.TransactionBuilder("trader")
    tx.token("lp", "lp mint", "trader")
    accounts = "state lp-mint authority leg leg-sol trader lp"
    call = tx.call(MARINADE, accounts, ADD_LIQUIDITY + bytes(8))
    tx.send(call, "trader", "leg-sol", 1_000)
    tx.mint_to(call, "lp mint", "lp", 900)
    assert swaps_of(tx) == []


def test_a_deposited_stake_account_is_no_swap() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("lst", "pool token", "trader")
    call = tx.call(STAKE_POOL, "stake-pool x x trader lst", bytes([9]))
    tx.call(STAKE_PROGRAM, "stake trader", b"\x01" + bytes(35), under=call)
    tx.mint_to(call, "pool token", "lst", 880)
    assert swaps_of(tx) == []


def test_a_withdrawal_through_sanctum_is_one_hop_of_the_route() -> None:
    """The stake account pays lamports into a wrapped account that no transfer shows."""
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner, raw in (
        ("trader lst", "pool token", "trader", 1_000),
        ("shared lst", "pool token", "shared", 0),
        ("shared sol", WSOL, "shared", 0),
        ("bridge", WSOL, "bridge", 5),
        ("manager", "pool token", "manager", 0),
        ("trader sol", WSOL, "trader", 0),
    ):
        tx.token(name, mint, owner, raw)
    route = tx.call(TITAN, "trader", b"any swap")
    tx.transfer(route, "trader lst", "shared lst", "trader", 1_000)
    call = tx.call(SANCTUM_ROUTER, "shared shared-lst", bytes([8]) + bytes(8), under=route)
    pool = tx.call(STAKE_POOL, "stake-pool x shared", bytes([16]) + bytes(8), under=call)
    tx.burn(pool, "pool token", "shared lst", "shared", 997)
    tx.transfer(pool, "shared lst", "manager", "shared", 3)
    tx.call(STAKE_PROGRAM, "reserve bridge", b"\x04" + bytes(11), under=pool)
    tx.tokens[address("bridge")].post_raw += 1_150
    tx.transfer(call, "bridge", "shared sol", "bridge", 1_140)
    tx.transfer(route, "shared sol", "trader sol", "shared", 1_140)
    (swap,) = swaps_of(tx)
    assert (swap.dex, swap.router, swap.wallet) == ("sanctum-router", "titan", address("trader"))
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.SELL, 1_000, 1_140)
