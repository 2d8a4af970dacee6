"""Accounts that a wallet's tokens lead to: positions of an NFT, pools and vaults of their shares.

`own:{mint}` would name them too, but anybody can fill that, with stake accounts that name the mint
as their staker. So they are found by the index that has the accounts of `Kind.mints` alone, which
is a hint: the bytes of each account are looked at.

Anybody can send a wallet tokens, and most lead to nothing: all of a wallet's are looked up, in one
trip, and the bounds are on what they lead to. Of a mint a few accounts are asked for first; of one
that leads to more, as a bundle of positions does, all that its kinds allow are asked for in a
second trip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final

from api.positions.accounts_reader import AccountsReader, WalletAccounts
from api.stores.clients import Stores
from infra.redis.pipelined import ForEach, Form
from schemas.accounts import BadAccount
from schemas.money import MONEY
from schemas.protocols.contract import Account, Kind, issuer_among
from schemas.redis_keys import POOLS_OF, account_tag, account_tags
from schemas.solana.addresses import key, text

MOST_MINTS: Final = 2_000  # of a wallet that are looked up: more than are read of its accounts
FEW_OF_MINT: Final = 16  # accounts of one partition that the first trip asks for
MOST_CROWDED: Final = 100  # partitions of mints with more, that the second trip asks for
MOST_FOUND: Final = 2_000  # accounts of all mints
_ADDRESS: Final = attrgetter("address")
_ADDRESS_BYTES: Final = 32
_MONEY: Final = frozenset(map(key, MONEY))
_POOLS_OF: Final = tuple(POOLS_OF.make(tag=tag, mint="") for tag in account_tags())
# SRANDMEMBER of a positive count: all there are, or as many of them.
_LOOK_UP: Final = Form(
    lambda mint: [("SRANDMEMBER", pools_of + mint, FEW_OF_MINT + 1) for pools_of in _POOLS_OF]
)


@dataclass(slots=True)
class Found:
    """What the tokens of a wallet lead to."""

    accounts: list[Account] = field(default_factory=list)
    unreadable: dict[bytes, str] = field(default_factory=dict)  # address -> what is wrong
    left_out: list[str] = field(default_factory=list)  # what was not looked at, in words


class ByMint:
    """Finds accounts by mints. Every method raises Problem."""

    def __init__(self, stores: Stores, accounts: AccountsReader) -> None:
        self._stores = stores
        self._accounts = accounts

    async def find(
        self, held: WalletAccounts, tokens: Mapping[bytes, int], kinds: Collection[Kind]
    ) -> Found:
        """Return the accounts of some kinds that tokens of a wallet lead to, mint -> raw amount.

        `held` is what was read of the wallet: what it has is not read again.
        """
        found = Found()
        mints = sorted(mint for mint, raw in tokens.items() if raw and mint not in _MONEY)
        if len(mints) > MOST_MINTS:
            detail = f"of the wallet's {len(mints)} tokens {MOST_MINTS} were looked up"
            found.left_out.append(detail)
            mints = mints[:MOST_MINTS]
        if not mints or not kinds:
            return found
        by_mint = await self._look_up(mints, max(each.most_of_mint for each in kinds), found)
        known = {account.address for account in held.accounts} | held.unreadable.keys()
        wanted = {
            address: mint
            for mint, addresses in by_mint.items()
            for address in addresses
            if address not in known
        }
        if len(wanted) > MOST_FOUND:
            detail = f"the wallet's tokens lead to {len(wanted)} accounts; {MOST_FOUND} were read"
            found.left_out.append(detail)
            wanted = dict(sorted(wanted.items())[:MOST_FOUND])
        stored = await self._accounts.stored(wanted)
        for address, mint in wanted.items():
            if (packed := stored[address]) is None:
                found.unreadable[address] = "the account was put away, and a token leads to it"
                continue
            state = held.states[account_tag(text(address))]
            try:
                account = self._accounts.living(mint, state, address, packed)
            except BadAccount as error:
                found.unreadable[address] = str(error)
                continue
            if (
                account is not None
                and account.kind in kinds
                and account.kind.is_represented_by(account.data, mint)
            ):
                found.accounts.append(account)
        found.accounts.sort(key=_ADDRESS)
        return found

    async def issuers(
        self, held: WalletAccounts, wanted: Collection[bytes], kinds: Collection[Kind]
    ) -> dict[bytes, Account]:
        """Return what readings want by `issuer_of`, of some kinds, where it is known."""
        found = await self.find(held, {each[:_ADDRESS_BYTES]: 1 for each in wanted}, kinds)
        return {
            each: issuer
            for each in wanted
            if (issuer := issuer_among(found.accounts, each)) is not None
        }

    async def _look_up(
        self, mints: Collection[bytes], most: int, found: Found
    ) -> dict[bytes, list[bytes]]:
        """Return the addresses that mints lead to, of each `most` at most."""
        answers = iter(await self._stores.ask(ForEach(_LOOK_UP, [*map(text, mints)])))
        by_mint: dict[bytes, list[bytes]] = {}
        crowded: list[tuple[bytes, str]] = []  # mints, each with a key that has more of it
        for mint in mints:
            of_mint = by_mint[mint] = []
            for number, addresses in enumerate(islice(answers, len(_POOLS_OF))):
                if not addresses:  # as in most partitions
                    continue
                if len(addresses) > FEW_OF_MINT:
                    crowded.append((mint, _POOLS_OF[number] + text(mint)))
                else:
                    of_mint += addresses
        cut = {mint for mint, _ in crowded[MOST_CROWDED:]}
        if crowded := crowded[:MOST_CROWDED]:
            asked = [("SRANDMEMBER", name, most + 1) for _, name in crowded]
            for (mint, _), addresses in zip(crowded, await self._stores.ask(asked), strict=True):
                by_mint[mint] += addresses
        cut |= {mint for mint in mints if len(by_mint[mint]) > most}
        found.left_out += [f"token {text(each)} leads to too many accounts" for each in sorted(cut)]
        return {mint: sorted(of_mint)[:most] for mint, of_mint in by_mint.items()}
