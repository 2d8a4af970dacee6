"""`soltape bench holdings`: wallets that nobody asked for before, while the market runs.

Each is asked for once, at a steady rate, and again until its answer is complete. Then each is
compared with what the chain's RPC says before and after the same slot.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import click

from infra.bench import progress, report
from infra.bench.roles import BenchFailed, Role, environment_of, stack, wait_until
from infra.local import running
from schemas.plans import ENTERPRISE
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text

PROGRAMS: Final = (text(TOKEN_PROGRAM), text(TOKEN_2022_PROGRAM))
OWNER: Final = {"offset": 32, "length": 32}
WARM_UP_S: Final = 15.0
KEYS: Final = 16  # one key waits for a part of the answers only
GIVES_UP_S: Final = 30.0
TRIES: Final = 20  # of a comparison: the wallet may move between two reads
MOST_P50_MS: Final = 1_000.0  # the bars, until complete; a wallet that never is takes GIVES_UP_S
MOST_P99_MS: Final = 2_000.0

Amounts = dict[str, int]  # token account -> raw amount, without those that are empty


@dataclass(slots=True)
class Seen:
    """What the wallets' answers were."""

    complete_ms: list[float] = field(default_factory=list)
    asked: int = 0  # requests
    late: int = 0  # wallets that were not complete within GIVES_UP_S
    compared: int = 0
    moving: int = 0  # wallets that moved in each of the tries
    accounts: int = 0
    different: list[str] = field(default_factory=list)

    def quantile_ms(self, share: float) -> float:
        """Return within what time a share of the wallets was complete."""
        ordered = sorted(self.complete_ms) + [GIVES_UP_S * 1000] * self.late
        return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)

    def missed(self) -> list[str]:
        """Return the bars that were missed, each with its figure."""
        found = [
            f"{name} is {figure:.0f} ms, at most {most:.0f} are allowed"
            for name, share, most in (("p50", 0.5, MOST_P50_MS), ("p99", 0.99, MOST_P99_MS))
            if (figure := self.quantile_ms(share)) > most
        ]
        if self.different:
            which = ", ".join(self.different[:5])
            found.append(f"{len(self.different)} of {self.compared} differ from the chain: {which}")
        if not self.compared:
            found.append("no wallet could be compared with the chain")
        return found


class Asker:
    """Asks the API and the chain of a running stack."""

    def __init__(
        self, session: aiohttp.ClientSession, addresses: dict[str, str], keys: Sequence[str]
    ) -> None:
        self._session = session
        self._api = f"http://127.0.0.1:{addresses['API_PORT']}"
        self._rpc = addresses["RPC_ENDPOINT"]
        self._keys = keys
        self._number = 0

    async def holdings(self, wallet: str) -> dict[str, Any]:
        """Return what the API answers; raises BenchFailed."""
        self._number += 1
        headers = {"x-api-key": self._keys[self._number % len(self._keys)]}
        url = f"{self._api}/api/wallets/{wallet}/holdings"
        asked = {"include_unverified": "true"}
        async with self._session.get(url, params=asked, headers=headers) as answer:
            if answer.status != 200:
                raise BenchFailed(f"{wallet} is answered {answer.status}: {await answer.text()}")
            found: dict[str, Any] = await answer.json()
            return found

    async def rpc(self, method: str, *parameters: Any) -> Any:
        """Return what the chain answers; raises BenchFailed."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        async with self._session.post(self._rpc, json=asked) as answer:
            found = await answer.json()
        if "error" in found:
            raise BenchFailed(f"{method}: {found['error']}")
        return found["result"]

    async def owners(self) -> list[str]:
        """Return all who own token accounts on the chain, ascending."""
        found: set[str] = set()
        for program in PROGRAMS:
            form: dict[str, Any] = {"encoding": "base64", "commitment": "confirmed"}
            form["dataSlice"] = OWNER
            form["filters"] = ["tokenAccountState"]
            for each in await self.rpc("getProgramAccounts", program, form):
                found.add(text(b64decode(each["account"]["data"][0])))
        return sorted(found)

    async def on_chain(self, wallet: str) -> tuple[int, int, Amounts]:
        """Return the oldest and newest slot of what the chain says, and what it says."""
        amounts: Amounts = {}
        slots = []
        for program in PROGRAMS:
            form = {"encoding": "jsonParsed", "commitment": "confirmed"}
            found = await self.rpc("getTokenAccountsByOwner", wallet, {"programId": program}, form)
            slots.append(found["context"]["slot"])
            for each in found["value"]:
                info = each["account"]["data"]["parsed"]["info"]
                amounts[each["pubkey"]] = int(info["tokenAmount"]["amount"])
        return min(slots), max(slots), {each: raw for each, raw in amounts.items() if raw}


def answered(holdings: dict[str, Any]) -> Amounts:
    """Return what the API says that a wallet's token accounts hold."""
    accounts = [each for token in holdings["tokens"] for each in token["accounts"]]
    return {each["account"]: raw for each in accounts if (raw := int(each["amount_raw"]))}


async def _ask(asker: Asker, wallet: str, seen: Seen) -> None:
    began = time.perf_counter()
    while time.perf_counter() - began < GIVES_UP_S:
        seen.asked += 1
        if (await asker.holdings(wallet))["coverage"]["is_complete"]:
            seen.complete_ms.append((time.perf_counter() - began) * 1000)
            return
    seen.late += 1


async def _compare(asker: Asker, wallet: str, seen: Seen) -> None:
    """Compare a wallet as of a slot before and after which the chain says the same of it."""
    for _ in range(TRIES):
        _, before, amounts = await asker.on_chain(wallet)
        holdings = await asker.holdings(wallet)
        while holdings["as_of_slot"] < before:
            await asyncio.sleep(0.2)
            holdings = await asker.holdings(wallet)
        after, _, again = await asker.on_chain(wallet)
        if amounts == again and holdings["as_of_slot"] <= after:
            seen.compared += 1
            seen.accounts += len(amounts)
            if answered(holdings) != amounts or not holdings["coverage"]["is_complete"]:
                seen.different.append(wallet)
            return
    seen.moving += 1


async def _measure(addresses: dict[str, str], keys: list[str], count: int, rate: float) -> Seen:
    seen = Seen()
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        asker = Asker(session, addresses, keys)
        owners = await asker.owners()
        if len(owners) < count:
            raise BenchFailed(f"only {len(owners)} wallets of the chain have token accounts")
        wallets = random.Random(1).sample(owners, count)  # noqa: S311 - which ones
        progress(f"{count} of {len(owners)} wallets, {rate:g} a second")
        began = time.perf_counter()
        asks = []
        for number, wallet in enumerate(wallets):
            await asyncio.sleep(began + number / rate - time.perf_counter())
            asks.append(asyncio.create_task(_ask(asker, wallet, seen)))
        await asyncio.gather(*asks)
        progress("comparing each with the chain")
        for at in range(0, count, 8):
            await asyncio.gather(*(_compare(asker, each, seen) for each in wallets[at : at + 8]))
    return seen


@click.command("holdings")
@click.option("--quick", is_flag=True, help="100 wallets instead of 1,000.")
@click.option("--wallets", type=int, help="Wallets that are asked for.  [default: 1000]")
@click.option(
    "--asks", type=float, default=50.0, show_default=True, help="Wallets asked for in a second."
)
@click.option("--rate", type=float, default=100.0, show_default=True, help="Transactions a second.")
def holdings(quick: bool, wallets: int | None, asks: float, rate: float) -> None:
    """Measure how long a wallet that nobody asked for takes until its holdings are complete.

    `soltape up` runs on a simulated chain. Every answer is compared with the chain's RPC
    afterwards. It fails where half of the wallets take more than 1 s, one of a hundred more than
    2 s, or one differs.
    """
    count = wallets or (100 if quick else 1_000)
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name:
        folder = Path(name)
        limits = {"API_NEW_ACCOUNTS_PER_KEY": str(count), "API_NEW_ACCOUNTS": str(20 * count)}
        with stack(folder, "--rate", str(rate), "--seed", "1", **limits) as up:
            keys = _keys(folder, up)
            progress(f"{WARM_UP_S:.0f} s to warm up")
            time.sleep(WARM_UP_S)
            seen = asyncio.run(_measure(running.addresses(folder), keys, count, asks))
            up.check()
    report(
        "holdings",
        seen.quantile_ms(0.5),
        "ms",
        p50_ms=seen.quantile_ms(0.5),
        p99_ms=seen.quantile_ms(0.99),
        max_ms=seen.quantile_ms(1.0),
        wallets=count,
        not_complete=seen.late,
        requests=seen.asked,
        compared=seen.compared,
        moving=seen.moving,
        accounts=seen.accounts,
        differences=len(seen.different),
        wallets_per_s=asks,
        rate=rate,
        runs=1,
    )
    if missed := seen.missed():
        raise BenchFailed("; ".join(missed))


def _keys(folder: Path, up: Role) -> list[str]:
    """Return keys of the stack, made as an operator makes them."""
    wait_until(lambda: (folder / running.DEMO_KEY).exists(), (up,))
    command = [sys.executable, "-m", "infra.cli", "keys", "create", "--name", "bench"]
    return [
        subprocess.run(
            [*command, "--plan", ENTERPRISE.name],
            env=environment_of(folder),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(KEYS)
    ]
