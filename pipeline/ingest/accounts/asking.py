"""Asks RPC for what a wallet holds, a mint, or any accounts, and puts the answers into the lane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from enum import Enum, auto
from typing import Any, Final, TypeVar

import structlog
from solders.pubkey import Pubkey

from infra.solana_rpc.client import AnswerTooLarge, NotNow, RpcRefused
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.ledger import Update
from pipeline.ingest.accounts.mending import Mending
from pipeline.ingest.accounts.rpc import (
    MOST_A_CALL,
    WALLET_ANSWER_BYTES,
    AccountsRpc,
    BadAnswer,
    Found,
)
from pipeline.ingest.accounts.shared_calls import SharedCalls
from pipeline.ingest.accounts.tracked import LARGEST, Tracked
from schemas.accounts import MOST_OF_WALLET, followed_of, largest_of, mint_account_of
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text

log = structlog.get_logger(__name__)

CONCURRENCY: Final = 64  # wallets and mints that are asked at a time
SLOW: Final = 16  # of those that the node did not answer at once
MENDING: Final = 32  # calls for what a hole or a difference needs
FIRST_TRIES, SLOW_TRIES = 1, 2
TOKEN_PROGRAMS: Final = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)

T = TypeVar("T")
Multiple = Callable[[Sequence[bytes], int], Coroutine[Any, Any, Found]]
"""`AccountsRpc.multiple`, alone or shared."""


class Ended(Enum):
    """How asking for a wallet or mint ended."""

    ANSWERED = auto()
    TOO_LARGE = auto()  # asked again it would be as large
    NOT_KEPT = auto()  # it is none of what is kept by its address
    FAILED = auto()  # the node refuses, or does not answer: it is asked again later


class Asking:
    """Answers rest on a slot at or above the last one that was settled when they were asked.

    `settled` waits for the first settled slot and returns the last: from it on, the stream brings
    what an answer does not have. `is_streamed`: token accounts are among what it brings.

    A wallet or mint has a place for one call of each method, then one of the few for the slow: a
    node that does not answer for some of them keeps nobody else waiting. What is not answered then
    is withdrawn, with the reason. Holes are mended apart, for as long as it takes.
    """

    def __init__(
        self,
        rpc: AccountsRpc,
        answers: AnswerQueue,
        settled: Callable[[], Awaitable[int]],
        tracked: Tracked,
        *,
        is_streamed: bool = True,
    ) -> None:
        self._rpc = rpc
        self._answers = answers
        self._settled = settled
        self._tracked = tracked
        self._is_streamed = is_streamed
        self._places = asyncio.Semaphore(CONCURRENCY)
        self._slow_places = asyncio.Semaphore(SLOW)
        self._mending_places = asyncio.Semaphore(MENDING)
        self._first = rpc.bounded(FIRST_TRIES)
        self._shared = SharedCalls(rpc)
        self._later = rpc.bounded(SLOW_TRIES)

    async def wallet(self, wallet: bytes) -> Ended:
        """Ask for all token accounts and the lamports of a wallet.

        Of one with too many token accounts nothing goes into the lane: the caller lets go of it.
        """
        least = await self._settled()
        return await self._put(
            wallet,
            Covered.WALLET,
            lambda rpc, multiple: _of_wallet(rpc, multiple, wallet, least),
            "getTokenAccountsByOwner",
        )

    async def lamports(self, wallet: bytes) -> None:
        """Ask for a wallet's own account alone."""
        least = await self._settled()
        try:
            slot, found = await self._bounded(lambda _, multiple: multiple([wallet], least))
        except (NotNow, RpcRefused, BadAnswer) as error:
            log.warning("lamports could not be asked for", of=text(wallet), why=str(error))
            return
        self._answers.put(Answer.of((slot, update) for update in found))
        metrics.ASKED.labels("account").inc()

    async def mint(self, mint: bytes) -> Ended:
        """Ask for a mint and its Metaplex metadata."""
        least = await self._settled()
        asked = [mint, metadata_address(mint)]

        async def ask(_: AccountsRpc, multiple: Multiple) -> list[Found]:
            return [await multiple(asked, least)]

        return await self._put(mint, Covered.MINT, ask, "getMultipleAccounts")

    async def holders(self, mint: bytes) -> Ended:
        """Ask for the largest token accounts of a mint.

        They are covered as of the slot of the list, and followed from then on. Where the node
        refuses the list, or no stream brings token accounts, they are not covered: the lane says
        why.
        """
        least = await self._settled()
        subject = largest_of(mint)
        method = "getTokenLargestAccounts"
        if not self._is_streamed:
            reason = f"{method}: ACCOUNT_GROUPS lacks `tokens`, which would follow them"
            self._answers.withdraw(Covered(kind=Covered.HOLDERS, address=subject, reason=reason))
            return Ended.ANSWERED

        async def ask(
            rpc: AccountsRpc, multiple: Multiple
        ) -> tuple[int, list[tuple[bytes, int]], Found]:
            slot, listed = await rpc.largest_accounts(mint, least)
            accounts = [address for address, _ in listed]
            # From now on: an account that changes often would outdate every answer.
            self._tracked.follow_largest(subject, accounts)
            found = await multiple(accounts, slot) if accounts else (slot, [])
            return slot, listed, found

        try:
            slot, listed, (ready, found) = await self._bounded(ask)
        except RpcRefused as error:
            self._failed(Covered.HOLDERS, subject, method, error)
            return Ended.ANSWERED  # it refuses for good: the next request asks again
        except (NotNow, BadAnswer) as error:
            self._failed(Covered.HOLDERS, subject, method, error)
            return Ended.FAILED
        accounts = [address for address, _ in listed]
        covered = Covered(kind=Covered.HOLDERS, address=subject, slot=slot, accounts=accounts)
        if len(listed) >= LARGEST:
            covered.least_raw = min(amount_raw for _, amount_raw in listed)
        answer = ((ready, update) for update in found)
        self._answers.put(Answer.of(answer, [covered], subject, ready))
        metrics.ASKED.labels("holders").inc()
        return Ended.ANSWERED

    async def account(self, address: bytes) -> Ended:
        """Ask for one token account or mint by its address.

        It is followed from its slot on. Where no stream brings token accounts, it is not covered:
        the lane says why. Of any other account nothing goes into the lane.
        """
        least = await self._settled()
        subject = followed_of(address)
        method = "getMultipleAccounts"
        if not self._is_streamed:
            reason = f"{method}: ACCOUNT_GROUPS lacks `tokens`, which would follow it"
            self._answers.withdraw(Covered(kind=Covered.ACCOUNT, address=subject, reason=reason))
            return Ended.ANSWERED
        try:
            slot, found = await self._bounded(lambda _, multiple: multiple([address], least))
        except (NotNow, RpcRefused, BadAnswer) as error:
            self._failed(Covered.ACCOUNT, subject, method, error)
            return Ended.FAILED
        if not all(map(_is_followed_by_address, found)):
            return Ended.NOT_KEPT
        covered = Covered(kind=Covered.ACCOUNT, address=subject, slot=slot)
        self._answers.put(Answer.of(((slot, each) for each in found), [covered], subject, slot))
        metrics.ASKED.labels("account").inc()
        return Ended.ANSWERED

    async def accounts(
        self, addresses: Iterable[bytes], least_slot: int, mending: Mending | None = None
    ) -> bool:
        """Ask for accounts as they are at or after a slot; `mending` counts the answers.

        Return whether all answers wait for their slots: False where RPC refuses some.
        """
        wanted = sorted(set(addresses))
        parts = [wanted[at : at + MOST_A_CALL] for at in range(0, len(wanted), MOST_A_CALL)]
        asked = await asyncio.gather(*(self._some(part, least_slot, mending) for part in parts))
        return all(asked)

    async def _some(self, addresses: list[bytes], least_slot: int, mending: Mending | None) -> bool:
        try:
            async with self._mending_places:
                slot, found = await self._rpc.multiple(addresses, least_slot)
        except (RpcRefused, BadAnswer) as error:
            log.error("accounts could not be asked for", accounts=len(addresses), why=str(error))
            metrics.REFUSED.inc()
            return False
        if mending is not None:
            mending.begin()
        updates = ((slot, update) for update in found)
        self._answers.put(Answer.of(updates, mends=mending is not None))
        metrics.ASKED.labels("account").inc(len(addresses))
        return True

    async def _bounded(self, ask: Callable[[AccountsRpc, Multiple], Awaitable[T]]) -> T:
        """Ask for a subject; raises NotNow, RpcRefused and BadAnswer."""
        try:
            async with self._places:
                return await ask(self._first, self._shared.multiple)
        except NotNow:
            async with self._slow_places:
                return await ask(self._later, self._later.multiple)

    def _failed(
        self,
        kind: Covered.Kind,
        subject: bytes,
        method: str,
        error: NotNow | RpcRefused | BadAnswer,
    ) -> None:
        log.error("RPC does not answer", of=text(subject), method=method, why=str(error))
        metrics.REFUSED.inc()
        reason = f"{method}: {reason_of(error)}"
        self._answers.withdraw(Covered(kind=kind, address=subject, reason=reason))

    async def _put(
        self,
        address: bytes,
        kind: Covered.Kind,
        ask: Callable[[AccountsRpc, Multiple], Awaitable[list[Found]]],
        method: str,
    ) -> Ended:
        """Ask for a wallet or mint: the lane names both by their addresses."""
        try:
            found = await self._bounded(ask)
        except (NotNow, RpcRefused, BadAnswer) as error:
            if kind == Covered.WALLET and isinstance(error, AnswerTooLarge):
                return Ended.TOO_LARGE
            self._failed(kind, address, method, error)
            return Ended.FAILED
        updates = ((slot, update) for slot, updates in found for update in updates)
        if self._is_streamed:
            covered = Covered(kind=kind, address=address, slot=min(slot for slot, _ in found))
            subject = mint_account_of(address) if kind == Covered.MINT else address
            ready_slot = max(slot for slot, _ in found)
            self._answers.put(Answer.of(updates, [covered], subject, ready_slot))
        else:  # as of the asking: it is shown, and not taken for all that there is now
            self._answers.put(Answer.of(updates))
            reason = f"{method}: ACCOUNT_GROUPS lacks `tokens`, which would follow it"
            self._answers.withdraw(Covered(kind=kind, address=address, reason=reason))
        metrics.ASKED.labels(Covered.Kind.Name(kind).lower()).inc()
        return Ended.ANSWERED


def _is_followed_by_address(update: Update) -> bool:
    """Return whether an account is of a kind that is kept where somebody asked; or does not exist.

    All others of a subscribed program are in the lane anyway.
    """
    if not update.lamports:
        return True
    kind = kind_of(update.address, update.owner, update.data)
    return kind is not None and kind.group == "tokens"


def metadata_address(mint: bytes) -> bytes:
    """Return the address of a mint's Metaplex metadata."""
    seeds = [b"metadata", METAPLEX_PROGRAM, mint]
    found, _ = Pubkey.find_program_address(seeds, Pubkey(METAPLEX_PROGRAM))
    return bytes(found)


async def _of_wallet(
    rpc: AccountsRpc, multiple: Multiple, wallet: bytes, least: int
) -> list[Found]:
    """Return a wallet's own account and its token accounts; where a call fails, the others end.

    The wallet's own account is not older than these: SOL that became a token would count twice.
    Raises AnswerTooLarge also where these are too many.
    """
    try:
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(multiple([wallet], least)),
                *(
                    group.create_task(rpc.token_accounts(wallet, each, least))
                    for each in TOKEN_PROGRAMS
                ),
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    found = [call.result() for call in calls]
    if sum(len(updates) for _, updates in found) > 1 + MOST_OF_WALLET:  # its own is one
        raise AnswerTooLarge(WALLET_ANSWER_BYTES)
    own, *tokens = found
    newest = max(slot for slot, _ in tokens)
    if own[0] < newest:
        own = await multiple([wallet], newest)
    return [own, *tokens]


def reason_of(error: NotNow | RpcRefused | BadAnswer) -> str:
    """Return why something is not covered, in words of which none is the provider's."""
    match error:
        case RpcRefused():
            return f"RPC refuses it (error {error.code})"
        case NotNow():
            return "RPC does not answer; it is asked again"
        case _:
            return "RPC's answer cannot be read; it is asked again"
