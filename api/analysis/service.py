"""What every door answers about all that a wallet has."""

from __future__ import annotations

from typing import Final, NamedTuple

from api.accounts.following import FollowState
from api.analysis.answers import Analysis, NetWorth, PortfolioWithWorth, Worth
from api.analysis.figures import amounts_of, categories, net_worth, without
from api.analysis.native import changed_since
from api.http.encoding import Encoded
from api.positions.answers import AggregatePositions
from api.positions.reader import Everything
from api.positions.service import PositionService
from api.stores.caches import CachedAnswers, now_s
from api.wallets.answers import Holdings
from api.wallets.holdings import Wanted, holdings
from api.wallets.reader import Facts, Wallets, portfolio

KEPT_BYTES: Final = 32 << 20
FRESH_FOR_S: Final = 1.0
WAIT_S: Final = 1.5  # until all of a wallet's accounts are known, and its SOL is as new as they
_MOST_READINGS: Final = 3  # until holdings and positions are of the same tokens


class Measured(NamedTuple):
    """What a wallet is worth, the positions of it, and as of when."""

    worth: NetWorth
    positions: AggregatePositions
    as_of_slot: int
    as_of_ms: int


class _Read(NamedTuple):
    """What a wallet holds and its positions."""

    facts: Facts
    found: Everything
    moved: bool  # tokens did, between holdings and positions
    changed_slot: int | None  # of what changed since its SOL is known; None: nothing did


class AnalysisService:
    """Encoded answers, cached. Every method raises Problem."""

    def __init__(self, wallets: Wallets, positions: PositionService) -> None:
        self._wallets = wallets
        self._positions = positions
        self._cached = CachedAnswers(KEPT_BYTES, FRESH_FOR_S)

    async def analyze(self, wallet: str, holder: str) -> Encoded:
        """Return all that is known of a wallet (`answers.Analysis`), and have it followed.

        `holder` is the fingerprint of the key, on whose account more is asked for.
        """
        return await self._cached.get(self._analysis, wallet, holder)

    async def portfolio(self, wallet: str, holder: str) -> Encoded:
        """Return a wallet at a glance with its worth (`answers.PortfolioWithWorth`); follow it.

        Both are of the same reading, so what it is worth is what `analyze` says.
        """
        return await self._cached.get(self._portfolio, wallet, holder)

    async def measure(self, wallet: str, holder: str) -> Measured:
        """Return what a wallet is worth, and its positions, as `analyze` has them.

        Of a wallet that is followed already: it is not asked for again. The accounts that its
        positions need are, for `holder`.
        """
        read = await self._try(wallet, holder, FollowState.NOT_FOLLOWED, renews=False)
        facts, answer = read.facts, read.found.answer
        own, _ = without(facts.balances, read.found.stands_for)
        listed = holdings(own, facts.pooled, facts.backed, Wanted())
        return Measured(_worth(listed, read), answer, *_least(facts, answer))

    async def ask_native(self, wallet: str, holder: str) -> None:
        """Have the SOL of a followed wallet asked for; `measure` has it a moment later.

        It keeps the wallet followed no longer.
        """
        await self._wallets.renew_lamports(wallet, 0, holder, 0)

    async def _analysis(self, wallet: str, holder: str) -> Analysis:
        read = await self._read(wallet, holder)
        facts, found = read.facts, read.found
        own, taken = without(facts.balances, found.stands_for)
        listed = holdings(own, facts.pooled, facts.backed, Wanted())
        glance, answer = portfolio(facts), found.answer
        worth = _worth(listed, read)
        as_of = facts.as_of()
        least = min(as_of, answer, key=lambda each: each["as_of_slot"])
        return {
            "as_of_slot": least["as_of_slot"],
            "as_of_ms": least["as_of_ms"],
            "gaps": facts.gaps,
            "wallet": wallet,
            "net_worth": worth,
            "is_complete": not worth["reasons"] and not answer["pending"],
            "categories": categories(answer, self._positions.shape_of),
            "holdings": listed,
            "taken_out": [
                {"mint": mint, "amount_raw": str(amount)} for mint, amount in sorted(taken.items())
            ],
            "positions": answer["positions"],
            "dex": {"positions": glance["positions"], "pnl": glance["pnl"]},
            "protocols": answer["protocols"],
            "pending": answer["pending"],
            "coverage": answer["coverage"],
            "errors": answer["errors"],
        }

    async def _portfolio(self, wallet: str, holder: str) -> PortfolioWithWorth:
        read = await self._read(wallet, holder)
        facts, answer, as_of = read.facts, read.found.answer, read.facts.as_of()
        own, _ = without(facts.balances, read.found.stands_for)
        listed = holdings(own, facts.pooled, facts.backed, Wanted())
        worth = _worth(listed, read)
        slot, time_ms = _least(facts, answer)
        section: Worth = {
            "as_of_slot": slot,
            "as_of_ms": time_ms,
            "net_worth": worth,
            "is_complete": not worth["reasons"] and not answer["pending"],
            "categories": categories(answer, self._positions.shape_of),
            "pending": answer["pending"],
            "coverage": answer["coverage"],
            "errors": answer["errors"],
        }
        return {**as_of, "wallet": wallet, **portfolio(facts), "worth": section}

    async def _read(self, wallet: str, holder: str) -> _Read:
        """Return what a wallet holds and its positions, and have it followed on account of this.

        Where its SOL is older than they are, it is asked for, waited for, and all is read again.
        """
        until_s = now_s() + WAIT_S
        asked = await self._wallets.follow(wallet, holder, WAIT_S)
        read = await self._try(wallet, holder, asked)
        await self._wallets.ask_unknown_of(read.facts, holder)
        if read.changed_slot is None or read.moved:
            return read
        wait_s = until_s - now_s()
        renewed = await self._wallets.renew_lamports(wallet, read.changed_slot, holder, wait_s)
        return await self._try(wallet, holder, asked) if renewed else read

    async def _try(
        self, wallet: str, holder: str, asked: FollowState, *, renews: bool = True
    ) -> _Read:
        """Return what a wallet holds and its positions, and whether tokens moved in between.

        Both are of one reading of its accounts where that serves both. A deposit between two
        readings would count twice, or not at all: both must have seen the same amounts of every
        token. `renews`: the wallet is followed on account of this; `asked` is how that ended.
        """
        for _ in range(_MOST_READINGS):
            facts = await self._wallets.facts(wallet, asked)
            held = facts.balances
            found = await self._positions.everything(
                wallet, holder, renews=renews, reading=held.reading
            )
            changed_slot = changed_since(held, found.answer["positions"], found.own)
            covered = found.answer["coverage"]
            is_whole = held.is_complete and covered["known_accounts"] == covered["read_accounts"]
            if not is_whole or amounts_of(held) == found.tokens:
                return _Read(facts, found, moved=False, changed_slot=changed_slot)
        return _Read(facts, found, moved=True, changed_slot=changed_slot)


def _worth(listed: Holdings, read: _Read) -> NetWorth:
    outdated = read.changed_slot is not None
    return net_worth(listed, read.found.answer, moved=read.moved, outdated=outdated)


def _least(facts: Facts, found: AggregatePositions) -> tuple[int, int]:
    """Return the slot and time that balances and positions are as of, together."""
    held = facts.balances
    return min((held.as_of_slot, held.as_of_ms), (found["as_of_slot"], found["as_of_ms"]))
