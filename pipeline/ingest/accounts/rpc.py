"""Accounts by JSON-RPC: each answer with its context slot, at whose end it is the state."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from infra.backoff import Backoff
from infra.solana_rpc import client as rpc
from infra.solana_rpc.client import MOST_ANSWER_BYTES, NotNow, RpcRefused
from pipeline.ingest.accounts.ledger import UNSEEN, Update
from pipeline.ingest.accounts.updates import closing
from schemas.protocols.contract import Kind
from schemas.solana import base58
from schemas.solana.addresses import key, text

MOST_A_CALL: Final = 100  # of getMultipleAccounts
BACKOFF_S: Final = (0.05, 5.0)
WALLET_ANSWER_BYTES: Final = 1 << 20
"""Some 2,000 token accounts: programs own many more, as authorities of their vaults."""
DETAIL_MOST: Final = 200  # characters of what cannot be read
LAG_PAUSE_S: Final = 0.1  # until a node that is behind may have a slot
LAG_MOST_S: Final = 10.0  # that a bounded request waits for a node that is behind
CALL_MOST_S: Final = 10.0  # that one call of a bounded request takes

_BEHIND: Final = frozenset({-32005, -32016, -32004, -32014})  # unhealthy, or before minContextSlot

Found = tuple[int, list[Update]]  # context slot, accounts


class BadAnswer(Exception):
    """An answer of RPC that is no answer to the request; the text names what is wrong."""


class AccountsRpc:
    """The methods of a node that give accounts; each asks until the node is at `least_slot`.

    Raises RpcRefused where the node refuses the request itself, and BadAnswer. Outages and limits
    are waited for; `bounded` raises NotNow instead, after `tries` calls that failed.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        pace: rpc.Pace,
        tries: int | None = None,
        call_most_s: float | None = None,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._pace = pace
        self._tries = tries
        self._call_most_s = call_most_s

    def bounded(self, tries: int, call_most_s: float | None = None) -> AccountsRpc:
        """Return the same methods with a bound: a call has CALL_MOST_S or what is given.

        A node that is behind has LAG_MOST_S.
        """
        return AccountsRpc(self._session, self._endpoint, self._pace, tries, call_most_s)

    async def multiple(
        self, addresses: Sequence[bytes], least_slot: int, most_bytes: int = MOST_ANSWER_BYTES
    ) -> Found:
        """Return accounts, at most MOST_A_CALL; those that do not exist as closings."""
        params = [[text(each) for each in addresses], self._options()]
        slot, value = await self._ask("getMultipleAccounts", params, least_slot, most_bytes)
        if not isinstance(value, list) or len(value) != len(addresses):
            raise BadAnswer(f"getMultipleAccounts: {len(addresses)} accounts were asked for")
        return slot, [
            closing(address) if item is None else _account(address, item)
            for address, item in zip(addresses, value, strict=True)
        ]

    async def token_accounts(self, wallet: bytes, program: bytes, least_slot: int) -> Found:
        """Return a wallet's token accounts of a token program; raises AnswerTooLarge."""
        params = [text(wallet), {"programId": text(program)}, self._options()]
        method = "getTokenAccountsByOwner"
        return await self._list(method, params, least_slot, WALLET_ANSWER_BYTES)

    async def largest_accounts(
        self, mint: bytes, least_slot: int
    ) -> tuple[int, list[tuple[bytes, int]]]:
        """Return the context slot and a mint's largest token accounts with their amounts."""
        method = "getTokenLargestAccounts"
        params = [text(mint), {"commitment": "confirmed"}]
        slot, value = await self._ask(method, params, least_slot)
        try:
            return slot, [(key(item["address"]), _amount(item["amount"])) for item in value]
        except (KeyError, TypeError, ValueError) as error:
            raise BadAnswer(f"{method}: {_short(error)}") from None

    async def epoch(self) -> int:
        """Return the chain's epoch."""
        answer = await self._ask_plain("getEpochInfo", [{"commitment": "confirmed"}])
        try:
            return _u64(answer["epoch"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadAnswer(f"getEpochInfo: {error!r}") from None

    async def inflation_rewards(
        self, accounts: Sequence[bytes], epoch: int
    ) -> list[tuple[int, int, int | None, int] | None]:
        """Return what an epoch paid to accounts, None for nothing.

        That is the lamports, the balance with them, the commission in per cent and the slot.
        """
        params = [[text(each) for each in accounts], {"commitment": "confirmed", "epoch": epoch}]
        answer = await self._ask_plain("getInflationReward", params)
        if not isinstance(answer, list) or len(answer) != len(accounts):
            raise BadAnswer(f"getInflationReward: {len(accounts)} accounts were asked for")
        return [None if each is None else _reward(each) for each in answer]

    async def _ask_plain(self, method: str, params: list[Any]) -> Any:
        """Return an answer without a context slot; outages are waited for, as often as may be."""
        backoff = Backoff(*BACKOFF_S)
        failures = 0
        while True:
            await self._pace.wait()
            try:
                return await self._call(method, params, WALLET_ANSWER_BYTES)
            except NotNow:
                failures += 1
                if failures == self._tries:
                    raise
                await backoff.wait()

    async def of_kind(
        self,
        kind: Kind,
        least_slot: int,
        part: tuple[int, int] | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> Found:
        """Return the accounts of a kind; `part`: an offset, and the byte that they have there.

        Raises AnswerTooLarge where the answer has more than `most_bytes`.
        """
        filters: list[dict[str, Any]] = []
        if kind.size is not None:
            filters.append({"dataSize": kind.size})
        if kind.tag:
            filters.append(_memcmp(kind.tag_at, kind.tag))
        if part is not None:
            filters.append(_memcmp(part[0], bytes([part[1]])))
        options = self._options() | {"filters": filters, "withContext": True}
        params = [text(kind.program), options]
        return await self._list("getProgramAccounts", params, least_slot, most_bytes)

    async def _list(
        self, method: str, params: list[Any], least_slot: int, most_bytes: int = MOST_ANSWER_BYTES
    ) -> Found:
        slot, value = await self._ask(method, params, least_slot, most_bytes)
        try:
            return slot, [_account(key(item["pubkey"]), item["account"]) for item in value]
        except (KeyError, TypeError, ValueError) as error:
            raise BadAnswer(f"{method}: {_short(error)}") from None

    async def _ask(
        self, method: str, params: list[Any], least_slot: int, most_bytes: int = MOST_ANSWER_BYTES
    ) -> tuple[int, Any]:
        backoff = Backoff(*BACKOFF_S)
        failures, lag_s = 0, 0.0
        while True:
            await self._pace.wait()
            try:
                answer = await self._call(method, params, most_bytes)
            except (NotNow, RpcRefused) as error:
                if isinstance(error, RpcRefused) and error.code not in _BEHIND:
                    raise
                failures += 1
                if failures == self._tries:
                    raise NotNow(f"{method}: {error}") from None
                await backoff.wait()
                continue
            try:
                slot = _u64(answer["context"]["slot"])
                value = answer["value"]
            except (KeyError, TypeError, ValueError) as error:
                raise BadAnswer(f"{method}: no context slot ({_short(error)})") from None
            if slot >= least_slot:
                return slot, value
            if self._tries is not None and lag_s >= LAG_MOST_S:
                raise NotNow(f"{method}: the node is at slot {slot}, not at {least_slot}")
            lag_s += LAG_PAUSE_S
            await asyncio.sleep(LAG_PAUSE_S)

    async def _call(self, method: str, params: list[Any], most_bytes: int) -> Any:
        most_s = None if self._tries is None else self._call_most_s or CALL_MOST_S
        try:
            async with asyncio.timeout(most_s):
                return await rpc.call(self._session, self._endpoint, method, params, most_bytes)
        except TimeoutError:
            raise NotNow(f"no answer within {most_s:g} s") from None

    @staticmethod
    def _options() -> dict[str, Any]:
        return {"encoding": "base64", "commitment": "confirmed"}


def _reward(item: Any) -> tuple[int, int, int | None, int]:
    try:
        found = (item["amount"], item["postBalance"], item.get("commission"), item["effectiveSlot"])
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(f"getInflationReward: {_short(error)}") from None
    for value in found:
        if value is not None:
            try:
                _u64(value)
            except ValueError as error:
                raise BadAnswer(f"getInflationReward: {error}") from None
    lamports, balance, commission, slot = found
    if None in (lamports, balance, slot) or (commission or 0) > 100:
        raise BadAnswer("getInflationReward: a reward without an amount, a balance or a slot")
    return lamports, balance, commission, slot


def _u64(value: Any) -> int:
    """Return an integer that the lane's messages can hold; raises ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{str(value)[:40]!r} is no u64")
    return value


def _amount(value: Any) -> int:
    """Return a raw amount, which JSON-RPC has as text; raises ValueError."""
    return _u64(int(value) if isinstance(value, str) else None)


def _short(error: Exception) -> str:
    return repr(error)[:DETAIL_MOST]


def _memcmp(offset: int, data: bytes) -> dict[str, Any]:
    return {"memcmp": {"offset": offset, "bytes": base58.encode(data), "encoding": "base58"}}


def _account(address: bytes, item: Any) -> Update:
    try:
        data = b64decode(item["data"][0])
        return Update(address, key(item["owner"]), _u64(item["lamports"]), data, UNSEEN)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise BadAnswer(f"account {text(address)}: {_short(error)}") from None
