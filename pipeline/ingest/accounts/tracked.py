"""Which wallets and mints are kept, in the order they were asked for; pure."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from schemas.accounts import MOST_OF_WALLET, followed_of, largest_of, mint_account_of
from schemas.solana.addresses import METAPLEX_PROGRAM

LARGEST: Final = 20
"""Token accounts of a mint that `getTokenLargestAccounts` returns, at most."""


class Asked:
    """Addresses by when they were last asked for, at most `most`."""

    def __init__(self, most: int, known: Iterable[tuple[bytes, int]] = ()) -> None:
        self._most = most
        self._at_ms = OrderedDict(sorted(known, key=lambda each: each[1]))

    def __contains__(self, address: bytes) -> bool:
        return address in self._at_ms

    def __len__(self) -> int:
        return len(self._at_ms)

    def __iter__(self) -> Iterator[bytes]:
        """Yield them, the last asked first."""
        return reversed(list(self._at_ms))

    def ask(self, address: bytes, at_ms: int) -> list[bytes]:
        """Note that an address is asked for; return those that leave, least recently asked."""
        self._at_ms[address] = max(at_ms, self._at_ms.pop(address, 0))
        return self.leaving()

    def discard(self, address: bytes) -> None:
        """Remove an address, where it is there."""
        self._at_ms.pop(address, None)

    def leaving(self) -> list[bytes]:
        """Remove what is above the bound and return it."""
        left = []
        while len(self._at_ms) > self._most:
            left.append(self._at_ms.popitem(last=False)[0])
        return left


class Tracked:
    """The wallets and mints whose accounts are kept, and the token accounts let through.

    A token account that was let through once is followed further under any later owner: what the
    lane has of it must not stay its last word.
    """

    def __init__(
        self,
        most: int,
        wallets: Iterable[tuple[bytes, int]] = (),
        mints: Iterable[tuple[bytes, int]] = (),
        holders: Iterable[tuple[bytes, int]] = (),
        accounts: Iterable[tuple[bytes, int]] = (),
    ) -> None:
        self.wallets = Asked(most, wallets)
        self.mints = Asked(most, mints)
        self.holders = Asked(max(1, most // LARGEST), holders)  # mints; all count as accounts
        self.accounts = Asked(most, accounts)  # token accounts and mints, by their addresses
        self._account_of = {followed_of(account): account for account in self.accounts}
        self._mint_by_account = {mint_account_of(mint): mint for mint in self.mints}
        self._mint_of = {largest_of(mint): mint for mint in self.holders}
        self._largest: defaultdict[bytes, set[bytes]] = defaultdict(set)  # by `largest_of`
        # In how many of these: an account that is closed can be made again, of another mint.
        self._listed: Counter[bytes] = Counter()
        self._wallet_of: dict[bytes, bytes] = {}
        self._accounts_of: defaultdict[bytes, set[bytes]] = defaultdict(set)
        self._overgrown: set[bytes] = set()

    def follows(self, account: bytes) -> bool:
        """Return whether an account was let through, was asked for, or is a mint's largest."""
        return account in self._wallet_of or account in self._listed or account in self.accounts

    def keeps(self, account: bytes) -> bool:
        """Return whether somebody keeps an account by its address, as whatever it was asked for."""
        return self.follows(account) or account in self.mints or account in self.wallets

    def lets_through(self, account: bytes, program: bytes, found_by: Iterable[bytes]) -> bool:
        """Return whether the lane has an account of group `tokens`, by what its bytes name.

        A mint finds its Metaplex metadata. What it owns itself, as a wallet, is of nobody unless it
        is tracked as a wallet, too.
        """
        finders = self.mints if program == METAPLEX_PROGRAM else self.wallets
        return self.keeps(account) or any(each in finders for each in found_by)

    def follow(self, account: bytes, found_by: Iterable[bytes]) -> None:
        """Note a token account that is let through, with the wallets it names now."""
        self.leave(account)
        # Of no tracked wallet any more: it need not be followed.
        for wallet in found_by:
            if wallet in self.wallets:
                self._wallet_of[account] = wallet
                self._accounts_of[wallet].add(account)
                if len(self._accounts_of[wallet]) > MOST_OF_WALLET:
                    self.outgrew(wallet)
                return

    def leave(self, account: bytes) -> None:
        """Forget a token account."""
        wallet = self._wallet_of.pop(account, None)
        if wallet is not None:
            self._accounts_of[wallet].discard(account)
            if not self._accounts_of[wallet]:
                del self._accounts_of[wallet]

    def outgrew(self, wallet: bytes) -> None:
        """Note that a wallet has more accounts than are kept of one."""
        self._overgrown.add(wallet)

    def take_overgrown(self) -> list[bytes]:
        """Return the tracked wallets that have too many accounts; once."""
        found = sorted(each for each in self._overgrown if each in self.wallets)
        self._overgrown.clear()
        return found

    def forget_wallet(self, wallet: bytes) -> None:
        """Forget the token accounts of a wallet that left."""
        for account in self._accounts_of.pop(wallet, ()):
            del self._wallet_of[account]

    def account_of(self, subject: bytes) -> bytes | None:
        """Return the account that a subject is `followed_of`, None where it is not kept."""
        return self._account_of.get(subject)

    def ask_account(self, address: bytes, at_ms: int) -> list[bytes]:
        """Note that an account is asked for by its address; return those that leave."""
        self._account_of[followed_of(address)] = address
        return self.accounts.ask(address, at_ms)

    def forget_account(self, address: bytes) -> None:
        """Forget an account that left."""
        self.accounts.discard(address)
        self._account_of.pop(followed_of(address), None)

    def mint_with_account(self, subject: bytes) -> bytes | None:
        """Return the mint whose account a subject is, None where it is not kept."""
        return self._mint_by_account.get(subject)

    def ask_mint(self, mint: bytes, at_ms: int) -> list[bytes]:
        """Note that a mint's account is asked for; return the mints that leave."""
        self._mint_by_account[mint_account_of(mint)] = mint
        return self.mints.ask(mint, at_ms)

    def forget_mint(self, mint: bytes) -> None:
        """Forget a mint that left."""
        self._mint_by_account.pop(mint_account_of(mint), None)

    def mint_of(self, subject: bytes) -> bytes | None:
        """Return the mint whose largest accounts a subject is, None where they are not kept."""
        return self._mint_of.get(subject)

    def ask_holders(self, mint: bytes, at_ms: int) -> list[bytes]:
        """Note that a mint's largest accounts are asked for; return the mints that leave."""
        self._mint_of[largest_of(mint)] = mint
        return self.holders.ask(mint, at_ms)

    def follow_largest(self, subject: bytes, accounts: Iterable[bytes]) -> None:
        """Let accounts through that may become the largest of a mint."""
        new = {*accounts} - self._largest[subject]
        self._largest[subject] |= new
        self._listed.update(new)

    def keep_largest(self, subject: bytes, accounts: Iterable[bytes]) -> list[bytes]:
        """Note which accounts are the largest of a mint; return those nobody keeps any more."""
        kept = {*accounts}
        gone = self._largest[subject] - kept
        self._largest[subject] -= gone
        self._listed.subtract(gone)
        for account in gone:
            if not self._listed[account]:
                del self._listed[account]
        self.follow_largest(subject, kept)
        return sorted(account for account in gone if not self.keeps(account))

    def forget_holders(self, mint: bytes) -> list[bytes]:
        """Forget the largest accounts of a mint that left; return those nobody keeps any more."""
        subject = largest_of(mint)
        self._mint_of.pop(subject, None)
        gone = self.keep_largest(subject, ())
        self._largest.pop(subject, None)
        return gone
