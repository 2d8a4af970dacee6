"""What a wallet's accounts hold, and how completely that is known: from the chain or the tape.

Of a wallet that is followed, the lane of accounts has all token accounts and the wallet's own
lamports, as they are on the chain. Of any other wallet the books know what moved since the tape
began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from api.accounts.following import FollowState
from api.accounts.mints import Mint
from api.accounts.wallets import LaneReading, NotCovered, WalletAccounts
from api.tokens.reader import Tokens
from api.wallets.answers import COVERAGE, COVERED, Coverage, Reason
from api.wallets.state import WalletState
from schemas.positions import Balance
from schemas.solana.addresses import TOKEN_2022_PROGRAM, key, text
from schemas.solana.token_accounts import TokenAccountState
from schemas.solana.ui_amounts import ui_amount

MAX_LAG_MS: Final = 60_000  # of the lane behind the books; then these know better

REASONS: Final[Mapping[FollowState, tuple[Reason, str]]] = {
    FollowState.NOT_INGESTED: (
        "not_ingested",
        "No accounts are taken in here (`soltape ingest accounts`).",
    ),
    FollowState.LANE_STALLED: ("lane_stalled", "The accounts are behind; ask again later."),
    FollowState.PENDING: (
        "pending",
        "The wallet's accounts were asked for and are not all here yet; ask again.",
    ),
    FollowState.WITHDRAWN: (
        "withdrawn",
        "The wallet's accounts were known, and are asked for again.",
    ),
    FollowState.KEY_LIMIT: (
        "key_limit",
        "This key has asked for too many new wallets within this minute.",
    ),
    FollowState.LIMIT: (
        "limit",
        "Too many new wallets were asked for within this minute; ask again later.",
    ),
    FollowState.TOO_MANY_WAIT: (
        "too_many_wait",
        "The wallet's accounts were asked for; too many requests wait now.",
    ),
    FollowState.NOT_ASKED: (
        "not_asked",
        "The wallet's accounts could not be asked for; ask again.",
    ),
    FollowState.NOT_FOLLOWED: (
        "not_followed",
        "The wallet is not followed, or not all here yet; `/api/wallets/{wallet}/holdings` has it "
        "followed.",
    ),
    FollowState.UNREADABLE: ("unreadable", "An account of the wallet cannot be read."),
    FollowState.TOO_MANY_ACCOUNTS: (
        "too_many_accounts",
        "The wallet has more than 2,000 accounts, or the wallets of the batch up to it have more "
        "than 5,000.",
    ),
}


@dataclass(slots=True)
class HeldAccount:
    """A token account of a wallet that holds something."""

    address: bytes
    mint: str
    amount_raw: int
    decimals: int | None  # None: the mint's account is not known, and nobody else says
    is_token_2022: bool
    state: TokenAccountState | None = None  # None: known by its balance alone


@dataclass(slots=True)
class HeldAccounts:
    """What a wallet's accounts hold."""

    wallet: str
    as_of_slot: int
    as_of_ms: int
    lamports: int | None  # the wallet's own; None: not known
    lamports_slot: int | None  # at the end of which it had them; None: by the tape, some slot
    tokens: list[HeldAccount]
    known: int  # accounts that hold something, the wallet's own among them
    read: int  # of these
    is_complete: bool
    since_slot: int | None
    since_ms: int | None
    standing: FollowState
    withdrawn: str = ""  # what ingest says of it
    reading: LaneReading | None = None  # that this is from; None: the books'
    mints: Mapping[str, Mint] = field(default_factory=dict)  # those whose account is known

    @property
    def has_all(self) -> bool:
        """Return whether all accounts that are known were read."""
        return self.known == self.read

    def shown(self, mint: str, amount_raw: int) -> float | None:
        """Return the amount of a token as wallets show it, with interest or scale."""
        found = self.mints.get(mint)
        if found is None:
            return None
        shown = ui_amount(found.account, amount_raw, self.as_of_ms // 1000)
        return None if shown is None else float(shown)

    def coverage(self) -> Coverage:
        """Return how complete this is."""
        note, reason = COVERED, None
        if not self.is_complete:
            reason, words = REASONS[self.standing]
            why = f" ({self.withdrawn})" if self.withdrawn else ""
            note = f"{COVERAGE} {words}{why}"
        return {
            "is_complete": self.is_complete,
            "reason": reason,
            "since_slot": self.since_slot,
            "since_ms": self.since_ms,
            "known_accounts": self.known,
            "read_accounts": self.read,
            "note": note,
        }


def from_books(
    state: WalletState,
    beginning: tuple[int, int] | None,
    standing: FollowState,
    withdrawn: str = "",
) -> HeldAccounts:
    """Return what the books know of a wallet; `standing` says why not what the chain has."""
    wallet = key(state.wallet)
    lamports = None
    tokens = []
    for account, mint, balance in state.balances:
        if account == wallet:
            lamports = balance.amount_raw
        else:
            tokens.append(_of_balance(account, mint, balance))
    slot, time_ms = beginning or (None, None)
    return HeldAccounts(
        state.wallet,
        state.as_of_slot,
        state.as_of_ms,
        lamports,
        None,
        tokens,
        state.account_count,
        len(state.balances),
        is_complete=False,
        since_slot=slot,
        since_ms=time_ms,
        standing=standing,
        withdrawn=withdrawn,
    )


def _of_balance(account: bytes, mint: str, balance: Balance) -> HeldAccount:
    return HeldAccount(account, mint, balance.amount_raw, balance.decimals, balance.is_token_2022)


def held_accounts(
    state: WalletState,
    read: WalletAccounts | NotCovered,
    beginning: tuple[int, int] | None,
    asked: FollowState | None,
) -> HeldAccounts:
    """Return what a wallet's accounts hold: from the chain where that is known, else the books.

    `asked` is how asking for the wallet ended; None: this answer does not ask.
    """
    if isinstance(read, NotCovered):
        standing = read.standing
        if standing is FollowState.NOT_FOLLOWED and asked is not None:
            standing = FollowState.PENDING if asked is FollowState.COMPLETE else asked
        return from_books(state, beginning, standing, read.withdrawn)
    if state.as_of_ms - read.as_of_ms > MAX_LAG_MS:
        return from_books(state, beginning, FollowState.LANE_STALLED)
    tokens = [_of_chain(*each) for each in read.tokens if each[2].amount_raw]
    count = len(tokens) + bool(read.lamports)
    return HeldAccounts(
        state.wallet,
        read.as_of_slot,
        read.as_of_ms,
        read.lamports,
        read.lamports_slot,
        tokens,
        count,
        count,
        is_complete=True,
        since_slot=read.since_slot,
        since_ms=None,
        standing=FollowState.COMPLETE,
        reading=read.reading,
    )


def _of_chain(address: bytes, program: bytes, state: TokenAccountState) -> HeldAccount:
    return HeldAccount(
        address,
        text(state.mint),
        state.amount_raw,
        None,
        program == TOKEN_2022_PROGRAM,
        state,
    )


def fill_in_decimals(
    held: HeldAccounts, books: WalletState, mints: Mapping[str, Mint], tokens: Tokens
) -> None:
    """Fill in the decimals: those of the mint's account, else as the tape has seen them."""
    seen = {mint: balance.decimals for _, mint, balance in books.balances}
    held.mints = mints
    for each in held.tokens:
        if each.state is None:
            continue
        if (mint := mints.get(each.mint)) is not None:
            each.decimals = mint.account.decimals
        elif (token := tokens.get(each.mint)) is not None and token.decimals is not None:
            each.decimals = token.decimals
        else:
            each.decimals = seen.get(each.mint)


def unknown_mints(held: HeldAccounts) -> list[str]:
    """Return the tokens whose mint account is needed to show their amounts, and is not known."""
    needed = (
        each.mint
        for each in held.tokens
        if each.mint not in held.mints and (each.is_token_2022 or each.decimals is None)
    )
    return [*dict.fromkeys(needed)] if held.is_complete else []
