"""Raydium CLMM: concentrated liquidity, Token-2022 aware; SwapEvent in the log.

The event has price and liquidity after the swap, not the fee. `swap_router_base_in` swaps
through several pools in one instruction. Byreal and PancakeSwap run forks of this program.
Source: raydium-clmm states/pool.rs, instructions/swap_router_base_in.rs. Not decoded: pool
creation, liquidity, rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipeline.decoding.contract import (
    Handler,
    Instruction,
    Leg,
    Malformed,
    Venue,
    named,
    swap_by_vaults,
    withhold,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader

DEX: Final = "raydium-clmm"
PROGRAM: Final = "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK"

SWAP_EVENT: Final = bytes.fromhex("40c6cde8260871e2")

PAYER, POOL_STATE, INPUT_VAULT, OUTPUT_VAULT = 0, 2, 5, 6

_ROUTER_ACCOUNTS: Final = 6  # payer, input account, input mint, token programs, memo program

_POOL_FROM_OUTPUT, _INPUT_FROM_OUTPUT = -3, -1  # of a hop, counted from its output vault


def swap(ix: Instruction) -> Leg:
    """Read a swap."""
    leg = swap_by_vaults(ix, pool=POOL_STATE, vaults=(INPUT_VAULT, OUTPUT_VAULT), user=PAYER)
    _add_event(ix, leg, [body for body in ix.log_events() if body[:8] == SWAP_EVENT])
    return leg


def swap_router_base_in(ix: Instruction) -> list[Leg]:
    """Read a swap through several pools: two transfers a hop.

    After six accounts of its own, the payer first, the instruction lists for each hop: config,
    pool, output account, input vault, output vault, output mint, observation, tick arrays.
    """
    transfers = ix.transfers()
    if not transfers or len(transfers) % 2:
        raise Malformed(f"{len(transfers)} transfers in a route of pools")
    events = [body for body in ix.log_events() if body[:8] == SWAP_EVENT]
    accounts = ix.accounts
    legs = []
    place = _ROUTER_ACCOUNTS
    for hop in range(0, len(transfers), 2):
        paid, received = transfers[hop : hop + 2]
        place = accounts.index(received.source, place)
        if accounts[place + _INPUT_FROM_OUTPUT] != paid.destination:
            raise Malformed("the hop's vaults do not follow each other")
        pool, vaults = place + _POOL_FROM_OUTPUT, (place + _INPUT_FROM_OUTPUT, place)
        leg = swap_by_vaults(ix, pool, vaults, user=PAYER, transfers=[paid, received])
        if hop:
            leg.position = paid.position
        _add_event(ix, leg, events)
        legs.append(leg)
    return legs


def _add_event(ix: Instruction, leg: Leg, events: list[bytes]) -> None:
    """Add what the event of the leg's pool has, and take it off the list."""
    leg.second_mint = max(leg.input_mint, leg.output_mint, key=key)  # token 1: the greater key
    for number, body in enumerate(events):
        event = Reader(body, 8)
        if event.pubkey() == leg.pool:
            event.skip(32 + 64 + 8)  # sender, token accounts, amount of token 0
            fee_0_raw = event.u64()
            event.skip(8)  # amount of token 1
            fee_1_raw = event.u64()
            if event.flag():  # zero for one
                withhold(ix, leg, fee_0_raw, fee_1_raw)
            else:
                withhold(ix, leg, fee_1_raw, fee_0_raw)
            leg.sqrt_price_x64, leg.liquidity = event.u128(), event.u128()
            del events[number]
            return


SWAPS: Final[Mapping[bytes, Handler]] = {
    bytes.fromhex("f8c69e91e17587c8"): swap,  # swap
    bytes.fromhex("2b04ed0b1ac91e62"): swap,  # swap_v2
    bytes.fromhex("457d73daf5baf2c4"): swap_router_base_in,
}
IGNORED: Final = named(
    "close_position",
    "collect_fund_fee",
    "collect_protocol_fee",
    "collect_remaining_rewards",
    "create_amm_config",
    "create_operation_account",
    "create_pool",
    "create_support_mint_associated",
    "decrease_liquidity",
    "decrease_liquidity_v2",
    "increase_liquidity",
    "increase_liquidity_v2",
    "initialize_reward",
    "open_position",
    "open_position_v2",
    "open_position_with_token22_nft",
    "set_reward_params",
    "transfer_reward_owner",
    "update_amm_config",
    "update_operation_account",
    "update_pool_status",
    "update_reward_infos",
)

VENUES: Final = (
    Venue(dex=DEX, programs=(PROGRAM,), vaults_are_reserves=True, handlers=SWAPS, ignored=IGNORED),
)
