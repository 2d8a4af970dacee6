"""What a protocol's file contains: its kinds of accounts, its routes, and what the bytes mean.

A reading computes positions from stored bytes when a wallet is asked for. It is a generator: it
yields the addresses it needs next, and is sent those of them that exist. The driver decides how
they are fetched; a test uses a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final, Literal, NamedTuple

Group = Literal["positions", "arrays", "tokens"]
_NOBODY: Final = bytes(32)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of account: how to recognize it, and the offsets of the addresses that find it.

    A kind is equal to itself alone: kinds of accounts are compared thousands of times a request.
    """

    name: str
    program: bytes  # its owner, 32 bytes
    tag: bytes = b""  # bytes at `tag_at`; without a tag, size or address alone identify the kind
    tag_at: int = 0
    size: int | None = None  # of its data, where all accounts of the kind have the same
    not_size: int | None = None  # of another kind's data, whose bytes may be the tag by chance
    addresses: tuple[bytes, ...] = ()  # a kind of a few accounts with fixed addresses
    wallets: tuple[int, ...] = ()  # offsets of the wallets it belongs to
    mints: tuple[int, ...] = ()  # offsets of mints that represent it: NFT, LP or share token
    mints_at: Callable[[bytes], Iterable[int]] | None = None
    """Returns offsets of such mints that depend on the data; bad bytes have none."""
    most_of_mint: int = 128  # accounts that a mint represents: of one with more a part is read
    group: Group = "positions"
    """`arrays`: large and often written; `tokens`: kept for tracked wallets and mints only."""

    @property
    def has_mints(self) -> bool:
        """Return whether mints represent accounts of this kind."""
        return bool(self.mints) or self.mints_at is not None

    def matches(self, address: bytes, program: bytes, data: bytes) -> bool:
        """Return whether an account is of this kind."""
        return (
            program == self.program
            and (self.size is None or len(data) == self.size)
            and len(data) != self.not_size
            and data[self.tag_at : self.tag_at + len(self.tag)] == self.tag
            and (not self.addresses or address in self.addresses)
        )

    def found_by(self, data: bytes) -> list[bytes]:
        """Return the wallets and mints that an account's data names, ascending, each once."""
        return _addresses(data, (*self.wallets, *self._mint_offsets(data)))

    def names(self, data: bytes, address: bytes) -> bool:
        """Return whether `found_by` has an address; none has the zero address."""
        return _names(data, self.wallets, address) or self.is_represented_by(data, address)

    def is_represented_by(self, data: bytes, mint: bytes) -> bool:
        """Return whether `represented_by` has a mint; none has the zero address."""
        return _names(data, self._mint_offsets(data), mint)

    def represented_by(self, data: bytes) -> list[bytes]:
        """Return the mints that represent an account, by its data, ascending, each once."""
        return _addresses(data, self._mint_offsets(data))

    def _mint_offsets(self, data: bytes) -> Iterable[int]:
        return self.mints if self.mints_at is None else (*self.mints, *self.mints_at(data))


def _addresses(data: bytes, offsets: Iterable[int]) -> list[bytes]:
    return sorted({data[at : at + 32] for at in offsets if len(data) >= at + 32} - {_NOBODY})


def _names(data: bytes, offsets: Iterable[int], address: bytes) -> bool:
    for at in offsets:
        if data[at : at + 32] == address:
            return address != _NOBODY
    return False


class Account(NamedTuple):
    """An account at the end of a slot."""

    address: bytes
    kind: Kind
    lamports: int
    data: bytes
    slot: int


class World(NamedTuple):
    """When the question is asked, by the chain."""

    slot: int
    time_s: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Held:
    """What a wallet has of a protocol: its accounts, and all of its tokens."""

    wallet: bytes
    accounts: Sequence[Account]
    tokens: Mapping[bytes, int] = field(default_factory=dict)  # mint -> raw amount

    def of(self, kind: Kind) -> Iterator[Account]:
        """Yield the accounts of a kind."""
        return (account for account in self.accounts if account.kind is kind)


class Role(StrEnum):
    """What a line of a position is to its wallet."""

    SUPPLY = "supply"
    BORROW = "borrow"
    REWARD = "reward"
    LOCKED = "locked"
    PENDING = "pending"


@dataclass(slots=True)
class Asset:
    """One line of a position."""

    role: Role
    mint: bytes
    amount_raw: int | None  # None: not known; the position's `unsupported_fields` says which
    decimals: int | None = None
    oracle_usd: Fraction | None = None  # of a whole token, as the protocol last saw it
    health_usd: Fraction | None = None  # likewise, in its health, where that differs
    weight: Fraction | None = None  # in its health: of a supply below 1, of a borrow above
    is_worthless: bool = False  # whatever a market paid for it: it has matured


class Stake(NamedTuple):
    """What a stake account is delegated to, and how much of it is effective."""

    validator: bytes | None  # its vote account; None: delegated to none
    status: Literal["inactive", "activating", "active", "deactivating"]
    effective_lamports: int | None  # None: the stake history that it needs is not there
    activation_epoch: int | None
    deactivation_epoch: int | None  # None: it is not deactivated
    authority: Literal["withdrawer", "staker"]  # the wallet's; a staker owns nothing of it
    epoch: int  # of the chain, in which `status` and `effective_lamports` are so
    epoch_slot: int  # of the chain's clock that says so
    locked_until_ms: int | None = None
    locked_until_epoch: int | None = None


class Health(NamedTuple):
    """How far a loan is from its liquidation, by the protocol's own prices and weights."""

    health_factor: Fraction | None  # below 1 it may be liquidated; None: no debt, or not known
    ltv: Fraction | None  # debt by collateral
    liquidation_ltv: Fraction | None  # the `ltv` from which it may be liquidated


class Range(NamedTuple):
    """Between which prices liquidity earns; a price is of a whole `base` in whole `quote`."""

    base: bytes  # mints
    quote: bytes
    lower_index: int | None  # tick or bin; None: at any price
    upper_index: int | None  # the last one that is in it
    current_index: int | None
    lower: Fraction | None  # price; None: at any, or a token's decimals are not known
    upper: Fraction | None
    current: Fraction | None
    is_in_range: bool | None


class Lock(NamedTuple):
    """What keeps a part of a position from being withdrawn, and until when."""

    kind: Literal["permanent", "vesting", "cooldown", "escrow", "term"]
    locked_raw: int | None = None  # of what the position counts: liquidity, shares or tokens
    claimable_raw: int | None = None  # of it, what is free already
    ends_ms: int | None = None  # None: never, or not by time
    ends_slot: int | None = None


class Perp(NamedTuple):
    """An open bet on a price; what is owed for it is in the position's assets.

    A profit that is not settled is a line of role `pending`, a loss one of role `borrow`, both of
    the mint that it is settled in. So the lines of a position sum to what closing it would pay.
    """

    symbol: str | None  # of the market, as the protocol writes it: "SOL-PERP"
    side: Literal["long", "short"]
    size: Fraction | None  # whole units of what is traded, positive
    notional_usd: Fraction | None  # at the mark price
    entry_price_usd: Fraction | None
    mark_price_usd: Fraction | None  # as the protocol last saw it
    liquidation_price_usd: Fraction | None
    leverage: Fraction | None  # notional by collateral
    unrealized_usd: Fraction | None  # by the price alone, without fees and funding
    funding_usd: Fraction | None  # not settled: received, or owed where negative; borrow fees too


class Margin(NamedTuple):
    """What backs an account's bets and loans together, by the protocol's own prices and weights."""

    collateral_usd: Fraction | None  # weighted, for maintenance
    maintenance_usd: Fraction | None  # required; with less collateral it is liquidated
    initial_usd: Fraction | None  # required to open more
    free_usd: Fraction | None  # what may back more
    leverage: Fraction | None
    health_pct: Fraction | None  # 0 to 100, as the protocol shows it; 0 is liquidated


class Voting(NamedTuple):
    """What a deposit or lock counts for in votes."""

    power_raw: int | None  # votes of it, in the unit that the program counts
    open_votes: int | None  # not relinquished: until then the deposit cannot be withdrawn
    delegate: bytes | None  # who votes with it in the wallet's place


class Points(NamedTuple):
    """A count that a protocol keeps for its users; no mint represents it, and nothing prices it."""

    name: str  # what it counts, as the protocol writes it: "fuel_taker"
    amount: int


@dataclass(slots=True)
class Position:
    """One position; each fact of the chain is in one position only."""

    route: str
    account: Account
    id: bytes | None = None  # of an account with several positions, or of an NFT; None: the account
    market: bytes | None = None
    assets: list[Asset] = field(default_factory=list)
    stands_for: dict[bytes, int] = field(default_factory=dict)
    """Tokens of the wallet that the position is the meaning of: mint -> raw amount."""
    open_markets: list[bytes] = field(default_factory=list)
    """Markets that anybody can open, by whose prices, rates or interest its figures are made.

    The position counts where all of them are verified (`Protocol.verified_markets`).
    """
    can_be_given: bool = False
    """Anybody can give any wallet such a position with its debts, which the wallet need not pay.

    While its worth is not known, it counts without what is not known of its deposits, or 0.
    """
    missing: list[bytes] = field(default_factory=list)
    """Accounts it needs that do not exist: an error where it counts, and asked for anywhere."""
    lacking: list[bytes] = field(default_factory=list)
    """Token accounts that pay rewards, and are not known: they are asked for, and are no error.

    A reward counts 0 without its own: what is not known of it can only be more.
    """
    reference_slot: int | None = None  # the oldest of the other accounts it was computed from
    stake: Stake | None = None
    health: Health | None = None
    range: Range | None = None
    locks: list[Lock] = field(default_factory=list)
    perp: Perp | None = None
    margin: Margin | None = None
    voting: Voting | None = None
    points: list[Points] = field(default_factory=list)
    unsupported_fields: list[str] = field(default_factory=list)  # what is null here, and why

    def counts_in(self, verified: frozenset[bytes]) -> bool:
        """Return whether it counts in sums, where some of the open markets are verified."""
        return not self.open_markets or verified.issuperset(self.open_markets)


Reading = Generator[Sequence[bytes], Mapping[bytes, Account], list[Position]]

_ADDRESS_BYTES: Final = 32
_OF_KIND: Final = b"/"


def issuer_of(mint: bytes, kind: Kind) -> bytes:
    """Return what a reading yields, beside addresses, for the account that a mint represents.

    That is a pool or vault of a kind whose share the mint is; it is sent by this same key.
    """
    return mint + _OF_KIND + kind.name.encode()


def is_issuer(wanted: bytes) -> bool:
    """Return whether what a reading wants is of `issuer_of`, and no address."""
    return wanted[_ADDRESS_BYTES : _ADDRESS_BYTES + 1] == _OF_KIND


def issuer_among(accounts: Iterable[Account], wanted: bytes) -> Account | None:
    """Return the account that `issuer_of` asks for, None where not one alone is it."""
    mint, name = wanted[:_ADDRESS_BYTES], wanted[_ADDRESS_BYTES + 1 :].decode(errors="replace")
    found = [
        each
        for each in accounts
        if each.kind.name == name and each.kind.is_represented_by(each.data, mint)
    ]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class PoolShare:
    """What a share token of a pool of SOL represents, as the pool says."""

    mint: bytes
    lamports: int  # of the whole pool
    supply_raw: int  # of the token, as the pool counts it
    epoch: int | None  # in which the pool last counted both; None: with each change

    def worth(self, amount_raw: int) -> Fraction | None:
        """Return what an amount is worth in lamports; None for a pool without tokens."""
        if not self.supply_raw or not self.lamports:
            return None
        return Fraction(amount_raw * self.lamports, self.supply_raw)


class LpTokens(NamedTuple):
    """The LP tokens of a pool, as it counts them."""

    mint: bytes
    supply_raw: int


class Shape(StrEnum):
    """Which block a route's positions have beside their assets."""

    LENDING = "lending"
    PERPS = "perps"
    YIELD = "yield"
    LIQUIDITY = "liquidity"
    STAKING = "staking"
    GOVERNANCE = "governance"
    REWARDS = "rewards"


class Unreadable(ValueError):
    """An account's bytes are not what its kind says; the text names the offset or field.

    Where it names the account, the others of the wallet are read without it.
    """

    def __init__(self, detail: str, account: bytes | None = None) -> None:
        super().__init__(detail)
        self.account = account


@dataclass(frozen=True, slots=True)
class Route:
    """A path below a protocol's slug."""

    path: str
    shape: Shape
    about: str
    unsupported: str | None = None  # why no answer can be computed; None: it is supported


@dataclass(frozen=True, slots=True, eq=False)
class Protocol:
    """A protocol: everything that ingest and the API derive from.

    A protocol is equal to itself alone, as a kind is: it is looked up several times a request.
    """

    name: str
    kinds: tuple[Kind, ...]
    routes: tuple[Route, ...] = ()
    read: Callable[[Held, World], Reading] | None = None  # raises Unreadable
    identified: Literal["certain", "likely", "guess"] = "certain"
    unsupported_fields: tuple[str, ...] = ()
    verified_markets: frozenset[bytes] = frozenset()
    """Of markets that anybody can open, those known to be the protocol's own or widely used."""
    reads_tokens: bool = False
    """A wallet's tokens lead to its positions: by an NFT, LP or share token."""
    reads_derived: bool = False
    """A wallet's address leads to positions that none of its accounts says are there."""
    share: Callable[[Account], PoolShare] | None = None
    """Of a pool of SOL: what its token represents; raises Unreadable. The token finds it."""
    lp: Callable[[Account], LpTokens | None] | None = None
    """Of a pool: its LP tokens, all of which `read` has withdraw its reserves; raises Unreadable.

    None for other accounts. The token finds it.
    """
