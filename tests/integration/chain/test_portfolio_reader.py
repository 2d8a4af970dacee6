"""The demo wallets as @sonarwatch/portfolio-plugins 0.16.15 reads them over the local chain's RPC.

This package reads positions without Soltape's code: its jobs and fetchers ask the chain, prices
are given to it. For what both know, positions and amounts must be the same but for the rounding of
its doubles. It silently drops what it has no market or price of, so each of its fetchers must
have found something.

The package is large: PORTFOLIO_READER names a folder where npm has installed
portfolio_reader/package.json, which leaves out what it depends on for other chains (`npm install
--ignore-scripts`, one to two minutes, 170 MB; the whole of it, with @drift-labs/vaults-sdk 0.6.29
for the one that is missing, takes three and 1.1 GB, and says the same). Without it, its recorded
answer is compared. To record anew: `PORTFOLIO_READER=<folder> PORTFOLIO_RECORD=1 pytest` with this
file.

Where it says something else than we, the bytes decide:

- Whirlpools, Raydium CLMM and Kamino's strategies over them: it takes the price of the pool's tick
  for the pool's, which is between two ticks. So here pools have the price of a tick.
- DLMM: it has a pending fee only where more has grown since; the program pays it anyway. It keeps
  20 digits of the product of share and reserve, so a bin may be a unit less than the program pays.
  Stake2Earn: what has grown since the last count is missing.
- Adrena: it shows the tokens of a bet's collateral as they were deposited. The program owes their
  dollars of then, in tokens of now.
- Drift's insurance fund: it counts all shares of a stake; of those whose withdrawal is requested
  the program pays at most what they were worth at the request.
- AMM v4: it has the pools from an API of Raydium, whose reserves are the vaults less the profit
  that waits there. A withdrawal takes Raydium's part of what was earned since that was counted, so
  here it has just been counted.
- DefiTuna: it rounds up what liquidity is worth, which the program rounds down.
- Raydium's farms: rewards are those of the last count, which here is the slot that is asked for.
- Loopscale's loans: its layout is an older one, where `last_interest_updated_time` was the interest
  that is repaid.
- A bet of Drift is a value to it, one of Jupiter Perps its collateral and size, a YT of Exponent an
  amount of its asset, and a share of Voltr or of a vault of Kamino a value.

`LEFT_OUT` and `LINES_LEFT_OUT` say what it does not show, `SILENT` what is not compared. It does
not know Jupiter Lend, Offerbook, Solstice, Solana Mobile, Tribeca, and Exponent's second version.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.server import LocalChain, ServerOptions
from schemas.protocols.contract import Account, Position, Role
from schemas.solana.addresses import key, text
from tests.infra.chain.market.test_still import GENESIS, market, positions
from tests.integration.chain.portfolio_world import PortfolioWorld
from tests.support.systems import bound

HERE: Final = Path(__file__).parent / "portfolio_reader"
RECORDED: Final = HERE / "recorded.json"
INSTALLED: Final = os.environ.get("PORTFOLIO_READER")
ANSWER_S: Final = 300.0  # on a busy machine; 15 s on an idle one

SOL: Final = "So11111111111111111111111111111111111111112"
NATIVE: Final = "11111111111111111111111111111111"  # SOL of a stake, as it writes it
USDC: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
EXPONENT_API: Final = "https://web-api.exponent.finance/api/markets"
RAYDIUM_API: Final = "https://api-v3.raydium.io/pools/info/list"
USD_OF: Final = {SOL: 150, NATIVE: 150}  # of all others 1
ROUNDED: Final = Fraction(1, 10**9)

ROUTES: Final[dict[str, tuple[str, ...]]] = {
    "adrena": ("positions", "staking"),
    "carrot": ("lending", "positions"),
    "defituna": ("positions",),
    "drift": ("positions", "staking"),
    "exponent": ("positions",),
    "helium": ("staking",),
    "huma_onre": ("positions",),
    "hylo": ("positions",),
    "jupiter_dao": ("staking",),
    "jupiter_lock": ("vesting",),
    "kamino": ("lending", "liquidity", "staking", "vaults"),
    "loopscale": ("vaults", "loans", "loops", "advanced-lending"),
    "marginfi": ("lending",),
    "meteora_damm_v2": ("liquidity",),
    "meteora_dlmm": ("liquidity",),
    "meteora_s2e": ("s2e/staking",),
    "native_stake": ("native",),
    "parcl": ("positions", "lp", "staking"),
    "perena": ("positions",),
    "pyth": ("staking",),
    "raydium_amm_v4": ("liquidity",),
    "raydium_clmm": ("liquidity",),
    "raydium_cpmm": ("liquidity",),
    "realms": ("deposits",),
    "star_atlas": ("staking",),
    "streamflow": ("staking",),
    "voltr": ("positions",),
    "whirlpools": ("liquidity",),
    "wormhole": ("staking",),
}
"""Our protocols and their routes that it knows too; Jupiter Perps is compared apart."""

FETCHERS: Final = {
    "adrena-positions": "adrena",
    "adrena-staking": "adrena",
    "carrot-deposits": "carrot",
    "defituna-lending": "defituna",
    "defituna-positions": "defituna",
    "drift-deposits": "drift",
    "exponent-liquidity": "exponent",
    "exponent-trade": "exponent",
    "jupiter-exchange-lock": "jupiter_lock",
    "jupiter-governance-vote": "jupiter_dao",
    "kamino-deposits": "kamino",
    "kamino-farms": "kamino",
    "loopscale-lend": "loopscale",
    "loopscale-lend-vaults": "loopscale",
    "loopscale-loans": "loopscale",
    "marginfi-deposits": "marginfi",
    "meteora-dlmm-positions": "meteora_dlmm",
    "meteora-stake-for-fee": "meteora_s2e",
    "native-stake-solana": "native_stake",
    "parcl-deposits": "parcl",
    "parcl-margin": "parcl",
    "parcl-staking": "parcl",
    "pyth-staking": "pyth",
    "raydium-farms": "raydium_amm_v4",
    "raydium-farms-v6": "raydium_amm_v4",
    "realms-deposits": "realms",
    "staratlas-lockers": "star_atlas",
    "staratlas-staking": "star_atlas",
    "streamflow-staking": "streamflow",
    "wormhole-staking": "wormhole",
}
"""Those that must have found something, and whose positions they are."""
TOKENS: Final = "wallet-tokens-solana"
"""The fetcher of positions that a wallet's tokens lead to; and of tokens that are none."""
PERPS: Final = "jupiter-exchange-perpetual"
SILENT: Final = {
    "jupiter-exchange-dca": "no route serves open orders",
    "jupiter-exchange-limit": "no route serves open orders",
    "jupiter-exchange-perpetual-borrow": "loans against JLP, which no demo wallet has",
    "jupiter-exchange-value-average": "no route serves open orders",
    "kamino-orders": "no route serves open orders",
    "meteora-dlmm-vaults": "vaults of launches, which we do not read",
    "meteora-farms": "farms of DAMM v1, which we do not read",
    "streamflow-merkles": "airdrops, which we do not read",
    "streamflow-vesting": "streams, which we do not read",
    "wormhole-legacy-staking": "stakes of an earlier program, which we do not read",
}
"""Those that find nothing, and why; any other that does would compare nothing unnoticed."""
REMOTE: Final = {
    "adrena-alp-price",  # the pool that it names is mainnet's
    "carrot-crt-yield",
    "drift-premarket",  # a market that is over; its oracle is mainnet's
    "exponent-pt-prices",
    "jupiter-exchange-perpetual-borrow-apr",
    "meteora-dlmm",
    "native-stake-solana-validators",
    "orca-whirlpools-stats",
}
"""Jobs that ask a service that is not the chain, and fail."""
IS_ONE: Final = {"jupiter_dao", "meteora_s2e"}
"""Protocols where it has parts of a position in accounts that are one to us, or the reverse."""


class Line(NamedTuple):
    wallet: str
    account: str
    side: str  # owned, owed, reward, or bet: the profit of one, negative for a loss
    mint: str


Amounts = dict[Line, Fraction]
"""Raw amounts."""


@lru_cache(maxsize=1)
def world() -> PortfolioWorld:
    return PortfolioWorld(market())


@lru_cache(maxsize=1)
def there() -> Mapping[bytes, Account]:
    return world().accounts()


def found(protocol: str) -> Iterator[tuple[str, Position]]:
    """Yield our positions of the demo wallets, and whose they are."""
    for wallet in ADDRESSES.values():
        for each in positions(protocol, wallet, GENESIS, there()):
            if each.route in ROUTES[protocol]:
                yield text(wallet), each


def u64(position: Position, at: int) -> int:
    return int.from_bytes(position.account.data[at : at + 8], "little")


def ours(protocol: str) -> Amounts:
    """Return our amounts of a protocol, as it counts them by the same bytes."""
    amounts: Amounts = defaultdict(Fraction)
    for wallet, position in found(protocol):
        for side, mint, amount in counted(position):
            account = "" if protocol in IS_ONE else text(position.account.address)
            amounts[Line(wallet, account, side, text(mint))] += amount
    return {line: amount for line, amount in amounts.items() if amount}


def counted(position: Position) -> Iterator[tuple[str, bytes, Fraction]]:
    """Yield side, mint and amount of a position's lines, without those that it does not have."""
    kind = position.account.kind.name
    if is_left_out(position):
        return
    if kind == "exponent_yield_position":
        assert position.market is not None
        vault, [yt, *_] = there()[position.market], position.assets
        assert yt.amount_raw is not None
        yield "owned", vault.data[40:72], Fraction(yt.amount_raw)
        return
    if kind == "adrena_position":
        yield "owned", position.assets[0].mint, Fraction(u64(position, 224))
        return
    if kind == "s2e_escrow":
        stake, fee_a, fee_b = position.assets
        yield "owned", stake.mint, Fraction(u64(position, 80))
        yield "owned", fee_a.mint, Fraction(u64(position, 184))
        yield "owned", fee_b.mint, Fraction(u64(position, 192))
        return
    if kind == "drift_insurance_stake":
        stays = position.assets[0]
        shares, requested = u64(position, 40), u64(position, 56)
        assert stays.amount_raw is not None
        yield "owned", stays.mint, Fraction(stays.amount_raw * shares, shares - requested)
        return
    for each in position.assets:
        if each.amount_raw is None or (kind, each.role) in LINES_LEFT_OUT:
            continue
        is_owed = each.role is Role.BORROW
        if kind == "stake":  # it counts the stake without the rent reserve
            yield "owned", each.mint, Fraction(each.amount_raw - u64(position, 4))
        elif kind == "drift_user" and position.id is not None:
            yield "bet", each.mint, Fraction(-each.amount_raw if is_owed else each.amount_raw)
        else:
            side = "owed" if is_owed else "reward" if each.role is Role.REWARD else "owned"
            yield side, each.mint, Fraction(each.amount_raw)
    if kind == "loopscale_loan":
        yield "owed", position.assets[1].mint, Fraction(-u64(position, 180))


def is_left_out(position: Position) -> bool:
    kind = position.account.kind.name
    if kind == "defituna_lp_position":
        kind += f" of {kind_at(text(position.account.data[43:75]))}"
    return kind in LEFT_OUT


LEFT_OUT: Final = {
    "defituna_lp_position of fusion_pool": "it knows those over Whirlpools",
    "defituna_spot_position": "it does not know them",
    "exponent_market": "LP tokens in the wallet: it knows those that are deposited",
    "loopscale_vault": "what a share is worth is not published; it takes a part of the principal",
    "loopscale_vault_stake": "likewise",
    "parcl_lp_position": "it shows shares as dollars; we do not know what one is worth",
    "voltr_withdrawal_request": "it does not know them",
    "wormhole_vesting": "it does not know them",
}
LINES_LEFT_OUT: Final = {
    ("stake", Role.SUPPLY): "what is above the stake and the rent reserve",
    ("exponent_lp_position", Role.REWARD): "emissions",
    ("dlmm_position", Role.REWARD): "fees that are pending, where none has grown since",
    ("kamino_farm_user", Role.PENDING): "an unstaking",
    ("loopscale_strategy", Role.PENDING): "interest of loans that run",
    ("star_atlas_stake", Role.REWARD): "it shows that there is a reward, and not how much",
}


class Tokens:
    """What its answers about tokens are read with."""

    def __init__(self) -> None:
        ledger = market().world.ledger
        self.decimals = {text(mint): each.decimals for mint, each in ledger.mints.items()}
        self.decimals[NATIVE] = self.decimals[SOL]
        self.mint_of = {text(at): text(each.mint.address) for at, each in ledger.tokens.items()}
        self.held_raw = {
            text(at): each.amount_raw
            for at, each in ledger.tokens.items()
            if each.owner in ADDRESSES.values() and each.amount_raw
        }
        self.by_account: dict[str, str] = {}
        self.by_mint: dict[tuple[str, str], tuple[str, Position]] = {}  # by wallet and mint
        for protocol in ROUTES:
            for wallet, position in found(protocol):
                self.by_account[text(position.account.address)] = protocol
                for mint in position.stands_for:
                    self.by_mint[wallet, text(mint)] = protocol, position

    @property
    def priced(self) -> set[str]:
        """All but the shares whose price its jobs make from the chain."""
        shares = {mint for (_, mint), (of, _) in self.by_mint.items() if of not in BALANCES}
        return self.decimals.keys() - shares

    def prices(self) -> list[dict[str, Any]]:
        return [
            {"mint": mint, "decimals": self.decimals[mint], "usd": USD_OF.get(mint, 1)}
            for mint in sorted(self.priced)
        ]

    def raw(self, mint: str, amount: Decimal | int) -> Fraction:
        return Fraction(amount) * 10 ** self.decimals[mint]


@lru_cache(maxsize=1)
def tokens() -> Tokens:
    return Tokens()


BALANCES: Final = {"carrot", "exponent", "huma_onre", "hylo", "perena"}
"""Protocols of which a token is what a wallet has: PT of Exponent."""


def theirs(answer: Mapping[str, Any]) -> dict[str, Amounts]:
    """Return its amounts, by our name of the protocol; tokens that are no position are left out."""
    amounts: dict[str, Amounts] = {each: defaultdict(Fraction) for each in ROUTES}
    for each in answer["lines"]:
        if each["fetcher"] == PERPS or kind_at(each["account"]) in LEFT_OUT:
            continue
        placed = by_token(each) if each["fetcher"] == TOKENS else by_fetcher(each)
        if placed is not None:
            protocol, line, raw = placed
            line = line._replace(account="") if protocol in IS_ONE else line
            amounts[protocol][line] += raw
    return amounts


def by_fetcher(line: Mapping[str, Any]) -> tuple[str, Line, Fraction]:
    protocol, of = FETCHERS[line["fetcher"]], (line["wallet"], line["account"])
    if line["role"] == "unsettled":
        return protocol, Line(*of, "bet", USDC), tokens().raw(USDC, line["usd"])
    mint = SOL if line["mint"] == NATIVE else line["mint"]
    return protocol, Line(*of, SIDES[line["role"]], mint), tokens().raw(mint, line["amount"])


def by_token(line: Mapping[str, Any]) -> tuple[str, Line, Fraction] | None:
    """Return what a line that a token led to is of; None for a token that is no position."""
    wallet, account = line["wallet"], line["account"]
    mint, side = line["mint"], SIDES[line["role"]]
    token = tokens().mint_of.get(account)
    if token is None:  # an NFT led to the account of its position
        at = Line(wallet, account, side, mint)
        return tokens().by_account[account], at, tokens().raw(mint, line["amount"])
    if (wallet, token) not in tokens().by_mint:
        return None
    protocol, position = tokens().by_mint[wallet, token]
    if is_left_out(position) or protocol in NFTS:
        return None
    account, asset = text(position.account.address), text(position.assets[0].mint)
    if mint == token != asset:  # it has no more than the value of a share
        raw = tokens().raw(asset, line["usd"]) / USD_OF.get(asset, 1)
        return protocol, Line(wallet, account, side, asset), raw
    return protocol, Line(wallet, account, side, mint), tokens().raw(mint, line["amount"])


ROUNDINGS: Final = {"meteora_dlmm": 41}
"""Units of a token that it loses more than others: one for each of a position's bins."""
SIDES: Final = {"supply": "owned", "borrow": "owed", "reward": "reward"}
NFTS: Final = {"helium", "meteora_damm_v2", "raydium_clmm", "whirlpools"}


def kind_at(account: str | None) -> str | None:
    held = None if account is None else there().get(key(account))
    return None if held is None else held.kind.name


def is_same(its: Fraction | None, mine: Fraction, more: int = 0) -> bool:
    """It rounds a double to the token's decimals; we round down, as the program does."""
    within = max(Fraction(3, 2), abs(mine) * ROUNDED) + more
    return its is not None and abs(its - mine) <= within


def check(answer: Mapping[str, Any]) -> None:
    failed = {job for job, error in answer["jobs"].items() if error is not None}
    assert failed <= REMOTE, {job: answer["jobs"][job] for job in failed - REMOTE}
    assert {each: error for each, error in answer["fetchers"].items() if error is not None} == {}
    with_lines = {line["fetcher"] for line in answer["lines"]}
    assert {*FETCHERS, TOKENS, PERPS} == with_lines, "fetchers that found something"
    assert answer["fetchers"].keys() - with_lines == SILENT.keys(), "and those that did not"
    its = theirs(answer)
    different = []
    for protocol in ROUTES:
        mine = ours(protocol)
        assert mine, protocol
        different += [
            f"{protocol}: {line} is {float(its[protocol].get(line, 0))}, ours {float(amount)}"
            for line, amount in mine.items()
            if not is_same(its[protocol].get(line), amount, ROUNDINGS.get(protocol, 0))
        ]
        different += [f"{protocol}: {line} is not ours" for line in its[protocol].keys() - mine]
    assert different == []
    check_perps(answer)
    check_tokens(answer)


def check_tokens(answer: Mapping[str, Any]) -> None:
    """Compare what is in the wallets' token accounts."""
    its = {
        line["account"]: tokens().raw(line["mint"], line["amount"])
        for line in answer["lines"]
        if line["platform"] == "wallet-tokens"
    }
    held = tokens().held_raw
    assert its.keys() == {at for at in held if tokens().mint_of[at] in tokens().priced}
    assert not [at for at, raw in its.items() if not is_same(raw, Fraction(held[at]))]


def check_perps(answer: Mapping[str, Any]) -> None:
    """Compare bets of Jupiter Perps: side, size and prices, and what their collateral is worth."""
    its = {line["wallet"]: line for line in answer["lines"] if line["fetcher"] == PERPS}
    assert its.keys() == {text(each) for each in ADDRESSES.values()}
    for wallet in ADDRESSES.values():
        [position] = positions("jupiter_perps", wallet, GENESIS, there())
        perp, line = position.perp, its[text(wallet)]
        collateral = position.assets[0]
        assert perp is not None
        assert perp.size is not None
        assert perp.entry_price_usd is not None
        assert collateral.amount_raw is not None
        assert collateral.oracle_usd is not None
        assert line["role"] == perp.side
        decimals = tokens().decimals[text(collateral.mint)]
        worth = collateral.amount_raw * collateral.oracle_usd / 10**decimals
        for said, mine in (
            (line["amount"], perp.size),
            (line["entryPrice"], perp.entry_price_usd),
            (line["usd"], worth),
        ):
            assert abs(Fraction(said) - mine) <= mine * ROUNDED


def exponent_markets() -> list[dict[str, Any]]:
    """Return what Exponent's API says of markets where SY is the asset and PT is worth nothing.

    So a YT, which it shows as an amount of the asset, is one SY.
    """
    answer = []
    for market_at in there().values():
        if market_at.kind.name != "exponent_market":
            continue
        data = market_at.data
        vault = there()[data[104:136]]
        supply_raw = market().world.ledger.mints[data[136:168]].supply_raw
        pt_raw, sy_raw = (int.from_bytes(data[at : at + 8], "little") for at in (372, 380))
        start_s, lasts_s = (int.from_bytes(vault.data[at : at + 4], "little") for at in (264, 268))
        stats = {"syAmountPerLpShare": sy_raw / supply_raw, "syPriceInAsset": 1}
        stats |= {"ptAmountPerLpShare": pt_raw / supply_raw, "ptPriceInAsset": 0}
        mints = {"mintPt": data[40:72], "mintSy": data[72:104], "mintAsset": vault.data[40:72]}
        answer.append(
            {
                "id": text(market_at.address),
                "vault": {
                    "id": text(vault.address),
                    "start": start_s,
                    "duration": lasts_s,
                    "platform": "",
                    "decimals": 6,
                    **{name: text(mint) for name, mint in mints.items()},
                },
                "stats": stats,
            }
        )
    return answer


def raydium_pools() -> dict[str, Any]:
    """Return what Raydium's API says of AMM v4's pools: reserves without the profit that waits."""
    found: list[dict[str, Any]] = []
    for pool in there().values():
        if pool.kind.name != "raydium_amm_pool":
            continue
        sides = [
            raydium_side(pool.data, decimals_at, profit_at, vault_at, mint_at)
            for decimals_at, profit_at, vault_at, mint_at in (
                (32, 192, 336, 400),
                (40, 200, 368, 432),
            )
        ]
        lp_mint = text(pool.data[464:496])
        decimals = tokens().decimals[lp_mint]
        found.append(
            {
                "id": text(pool.address),
                "mintA": sides[0][0],
                "mintB": sides[1][0],
                "mintAmountA": sides[0][1],
                "mintAmountB": sides[1][1],
                "lpMint": {"address": lp_mint, "decimals": decimals},
                "lpAmount": int.from_bytes(pool.data[720:728], "little") / 10**decimals,
                "tvl": 10**6,
                "feeRate": 0.0025,
                "day": {"volume": 0, "volumeFee": 0, "apr": 0},
                "week": {"apr": 0},
            }
        )
    return {"data": {"count": len(found), "data": found, "hasNextPage": False}}


def raydium_side(
    pool: bytes, decimals_at: int, profit_at: int, vault_at: int, mint_at: int
) -> tuple[dict[str, Any], float]:
    """Return a mint of a pool, and its reserve."""
    decimals, profit_raw = (
        int.from_bytes(pool[at : at + 8], "little") for at in (decimals_at, profit_at)
    )
    vault = there()[pool[vault_at : vault_at + 32]].data
    reserve_raw = int.from_bytes(vault[64:72], "little") - profit_raw
    mint = {"address": text(pool[mint_at : mint_at + 32]), "decimals": decimals}
    return mint, reserve_raw / 10**decimals


async def asked() -> dict[str, Any]:
    """Return what it finds on a local chain with the demo wallets' accounts."""
    options = ServerOptions(grpc_port=0, rpc_port=0)
    async with LocalChain(world(), options) as chain:
        node = await asyncio.create_subprocess_exec(
            *bound(["node", str(HERE / "read.cjs"), str(INSTALLED)]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        question = {
            "rpc": f"http://127.0.0.1:{chain.rpc_port}",
            "now_ms": GENESIS.time_s * 1_000,
            "prices": tokens().prices(),
            "answers": {EXPONENT_API: {"data": exponent_markets()}, RAYDIUM_API: raydium_pools()},
            "wallets": [text(each) for each in ADDRESSES.values()],
        }
        out, err = await asyncio.wait_for(node.communicate(json.dumps(question).encode()), ANSWER_S)
        assert node.returncode == 0, err.decode()
    return read(out)


def read(answer: bytes) -> dict[str, Any]:
    """Return an answer; its numbers are as they are written."""
    value: dict[str, Any] = json.loads(answer, parse_float=Decimal)
    return value


@pytest.mark.node
@pytest.mark.slow
@pytest.mark.skipif(
    INSTALLED is None,
    reason="PORTFOLIO_READER names no folder where portfolio_reader/package.json is installed",
)
async def test_another_reader_finds_the_positions_and_amounts_that_we_do() -> None:
    answer = await asked()
    check(answer)
    if os.environ.get("PORTFOLIO_RECORD"):
        lines = ",\n ".join(json.dumps(each, default=float) for each in answer.pop("lines"))
        RECORDED.write_text(f'{json.dumps(answer)[:-1]}, "lines": [\n {lines}\n]}}\n')


def test_another_reader_found_the_positions_and_amounts_that_we_do() -> None:
    check(read(RECORDED.read_bytes()))
