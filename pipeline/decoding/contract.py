"""What a venue's file says: its programs, its instructions, and what each one's bytes mean.

A handler takes an `Instruction` and returns what the bytes say: a `Leg` (one pool swapped),
`Created`, `Migrated` or `Filled` (a keeper executed an order by other instructions' swaps), of
perps `FundingPaid`, `PositionChanged` or `Unread`, several of them, or None where the instruction
has no event for us.
It raises `Malformed`, or lets the errors of `UNREADABLE` through, where the bytes do not fit.
What the facts mean for a wallet (side, quote, fees, platform) is `pipeline.decoding.assemble`'s.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from pipeline.solana.transaction import TokenAccount, Transaction, Transfer
from schemas.solana.addresses import TOKEN_2022_PROGRAM, key, text


class Malformed(Exception):
    """An instruction we know carries bytes that do not fit it; the text names what is wrong."""


# What a read past the end, a bad index, text or key raises. Nothing else may leave a handler.
UNREADABLE: Final = (Malformed, struct.error, IndexError, ValueError)


_TOKEN_2022: Final = text(TOKEN_2022_PROGRAM)


@dataclass(slots=True)
class Leg:
    """One pool swapped: what its vaults moved, and what its event says.

    Accounts are indexes into the transaction's keys; amounts are raw units. `source` and
    `destination` are the trader's token accounts, `user` the account that the venue calls
    the user: these decide the wallet.
    """

    pool: str
    input_mint: str
    output_mint: str
    input_raw: int  # reached the pool's vault
    output_raw: int  # left the pool's vault
    source: int | None = None
    destination: int | None = None
    user: int | None = None
    vault_in: int | None = None
    vault_out: int | None = None
    paid_raw: int | None = None  # left the wallet; default: input_raw
    received_raw: int | None = None  # reached the wallet; default: output_raw
    second_mint: str = ""  # the pool's own second side (token B, token 1, Y, pc)
    fee_raw: int | None = None
    fee_mint: str = ""
    reserve_in_raw: int | None = None  # after the swap
    reserve_out_raw: int | None = None
    virtual_in_raw: int | None = None  # virtual reserves of a curve, after the swap
    virtual_out_raw: int | None = None
    for_sale_raw: int | None = None  # of the first mint: what the curve sells, then migrates
    migration_quote_raw: int | None = None  # of `second_mint`: what it gathers, then migrates
    liquidity: int | None = None
    sqrt_price_x64: int | None = None
    decimals: Mapping[str, int] = field(default_factory=dict)  # where balances may lack them
    config: str = ""  # account that names the launch platform, where the venue has one
    platform: str = ""  # only where the bytes themselves name it
    position: int | None = None  # default: the instruction's own
    owner: str = ""  # whose swap it is, where the bytes name it
    keeper: str = ""  # who executed it for that owner
    parts: tuple[int, ...] = ()  # earlier instructions of the venue whose transfers it includes


@dataclass(slots=True)
class Filled:
    """A keeper executed an order: the swaps that it made for that are the order's owner's.

    They lie between `begin` and the end of the instruction. Of what came out of them the owner
    received `received_raw`, where that is known: the rest is the keeper's, and fees.
    """

    owner: str
    keeper: str
    begin: int  # a position
    output_mint: str = ""
    received_raw: int | None = None


@dataclass(slots=True)
class Created:
    """A token was created."""

    mint: str
    name: str
    symbol: str
    uri: str
    creator: str
    pool: str
    quote_mint: str
    decimals: int | None = None
    supply_raw: int | None = None
    token_program: str = ""
    config: str = ""
    partners: tuple[str, ...] = ()  # took part in making `config` in this very transaction
    platform: str = ""  # only where the bytes themselves name it


@dataclass(slots=True)
class Migrated:
    """A token left its curve for a pool."""

    mint: str
    from_pool: str
    dex: str
    pool: str
    quote_mint: str
    amount_raw: int | None = None
    quote_amount_raw: int | None = None
    config: str = ""


@dataclass(slots=True)
class FundingPaid:
    """A position paid or received funding; units are those of `schemas.events.FundingPayment`."""

    log_index: int
    wallet: str
    account: str
    market_index: int
    payment_raw: int
    base_raw: int
    last_cumulative_funding: int
    cumulative_funding_long: int
    cumulative_funding_short: int


@dataclass(slots=True)
class PositionChanged:
    """A position grew, shrank or was liquidated; fields as in `schemas.events.PerpChange`."""

    wallet: str
    position: str
    pool: str
    custody: str
    collateral_custody: str
    mint: str
    is_long: bool
    change: str
    is_instant: bool
    size_usd_micros: int
    price_usd_micros: int
    fee_usd_micros: int
    size_delta_usd_micros: int | None = None
    collateral_delta_usd_micros: int | None = None
    pnl_usd_micros: int | None = None
    position_fee_usd_micros: int | None = None
    funding_fee_usd_micros: int | None = None
    price_impact_fee_usd_micros: int | None = None
    liquidation_fee_usd_micros: int | None = None
    paid_out_usd_micros: int | None = None
    collateral_usd_micros: int | None = None
    entry_price_usd_micros: int | None = None


@dataclass(slots=True)
class Unread:
    """Perp events of the instruction that cannot be read: their history has a gap here."""

    reason: str
    wallets: tuple[str, ...] = ()  # whose they may be; empty: anybody's
    malformed: str = ""  # what is wrong with bytes that do not fit; empty: they are not there


PerpFact = FundingPaid | PositionChanged | Unread
Fact = Leg | Created | Migrated | Filled | PerpFact


class Instruction:
    """One instruction of a venue's program, as a handler sees it."""

    __slots__ = ("accounts", "data", "position", "tx")

    def __init__(self, tx: Transaction, position: int) -> None:
        self.tx = tx
        self.position = position
        self.data = tx.data[position]
        self.accounts = tx.accounts[position]

    @property
    def program(self) -> str:
        """The program's address."""
        return text(self.tx.program(self.position))

    def account(self, number: int) -> int:
        """Return the index of the n-th account; too few accounts is IndexError."""
        return self.accounts[number]

    def address(self, number: int) -> str:
        """Return the address of the n-th account."""
        return text(self.tx.keys[self.accounts[number]])

    def token(self, number: int) -> TokenAccount | None:
        """Return the n-th account as a token account, if it is one."""
        return self.tx.token_account(self.accounts[number])

    def mint_of(self, index: int) -> str:
        """Return the mint of a token account by its index; Malformed where it is none."""
        account = self.tx.token_account(index)
        if account is None:
            raise Malformed(f"no token account at {text(self.tx.keys[index])}")
        return account.mint

    def transfers(self, *, nested: bool = False) -> list[Transfer]:
        """Return the token transfers this instruction made, in order."""
        return self.tx.transfers(self.position, nested=nested)

    def cpi_events(self) -> Iterator[bytes]:
        """Yield the events emitted by self-CPI, event tag first."""
        return self.tx.cpi_events(self.position)

    def log_events(self) -> list[bytes]:
        """Return the events logged as `Program data:`, event tag first."""
        return self.tx.log_events(self.position)

    def log_texts(self) -> list[str]:
        """Return the `Program log:` texts."""
        return self.tx.log_texts(self.position)

    def log_fault(self) -> str:
        """Return why the log may lack events of the instruction; empty where it has them all."""
        return self.tx.log_fault(self.position)

    def event(self, tag: bytes) -> bytes | None:
        """Return the first event with a tag, tag included: the CPI copy, else the log's."""
        for body in self.cpi_events():
            if body[:8] == tag:
                return body
        for body in self.log_events():
            if body[:8] == tag:
                return body
        return None


Handler = Callable[[Instruction], Fact | Iterable[Fact] | None]


@dataclass(frozen=True, slots=True)
class Venue:
    """A venue: who it is and how its instructions are read.

    `handlers` are keyed by the tag an instruction's data begins with, all of one length;
    `ignored` are tags we know to hold no event; `any_tag` reads programs whose data is
    opaque. A tag that is in neither is counted as unknown. `vaults_are_reserves`: no event has a
    pool's reserves, but its vaults are its own: they are what the vaults hold afterwards.
    `has_perps`: perp events are among its facts.
    """

    dex: str
    programs: tuple[str, ...]
    handlers: Mapping[bytes, Handler] = field(default_factory=dict)
    ignored: frozenset[bytes] = frozenset()
    any_tag: Handler | None = None
    tag_size: int = 8
    vaults_are_reserves: bool = False
    has_perps: bool = False

    def program_keys(self) -> Iterator[bytes]:
        """Yield the programs as bytes."""
        return map(key, self.programs)


def tags(*hexes: str) -> frozenset[bytes]:
    """Return instruction tags written in hexadecimal."""
    return frozenset(bytes.fromhex(tag) for tag in hexes)


def named(*names: str) -> frozenset[bytes]:
    """Return the tags Anchor gives to instructions of these names."""
    return frozenset(sha256(f"global:{name}".encode()).digest()[:8] for name in names)


def swap_by_pair(ix: Instruction, pool: int, paid: Transfer, received: Transfer) -> Leg:
    """Read a swap from its two token transfers; `pool` is a place in the accounts."""
    return Leg(
        pool=ix.address(pool),
        input_mint=ix.mint_of(paid.destination),
        output_mint=ix.mint_of(received.source),
        input_raw=paid.received_raw,
        output_raw=received.amount_raw,
        paid_raw=paid.amount_raw,
        received_raw=received.received_raw,
        source=paid.source,
        destination=received.destination,
        user=paid.authority,
        vault_in=paid.destination,
        vault_out=received.source,
    )


def mint_listed_second(ix: Instruction, leg: Leg) -> str:
    """Return the mint whose vault comes later among the instruction's accounts."""
    for account in ix.accounts:
        if account == leg.vault_in:
            return leg.output_mint
        if account == leg.vault_out:
            return leg.input_mint
    return ""


def swap_by_authority(ix: Instruction, pool: int, authority: int) -> Leg:
    """Read a swap where one authority signs all that leaves the pool's vaults.

    `pool` and `authority` are places in the instruction's accounts. The transfer in is the
    nearest before the last one out: some programs settle an order book first. Raises Malformed
    where there is none.
    """
    signer = ix.account(authority)
    paid = received = None
    for transfer in reversed(ix.transfers()):
        if received is None:
            if transfer.authority == signer:
                received = transfer
        elif transfer.authority != signer:
            paid = transfer
            break
    if paid is None or received is None:
        raise Malformed("no transfer into a vault, then out of another")
    return swap_by_pair(ix, pool, paid, received)


def swap_by_vaults(
    ix: Instruction,
    pool: int,
    vaults: tuple[int, int],
    *,
    user: int | None = None,
    transfers: list[Transfer] | None = None,
    fee_accounts: Iterable[int] = (),
) -> Leg:
    """Read a swap from its token transfers: into one vault, out of the other.

    `pool`, `vaults` (first and second side), `user` and `fee_accounts` (where a trader pays
    fees beside the vault) are places in the instruction's accounts. The amounts are what the
    vaults gained and lost, so fees that a vault pays out of the input are not in the input.
    True for every venue that moves tokens by its own calls, whatever its event says. Raises
    Malformed where the transfers are not there.
    """
    first, second = ix.account(vaults[0]), ix.account(vaults[1])
    moved = ix.transfers() if transfers is None else transfers
    gained = {first: 0, second: 0}
    for transfer in moved:
        if transfer.destination in gained:
            gained[transfer.destination] += transfer.received_raw
        if transfer.source in gained:
            gained[transfer.source] -= transfer.amount_raw
    vault_in, vault_out = first, second
    if gained[second] > gained[first] or (
        not any(gained.values()) and any(transfer.destination == second for transfer in moved)
    ):
        vault_in, vault_out = second, first
    paid = received = None
    for transfer in moved:
        if transfer.destination == vault_in:
            if paid is None or transfer.amount_raw > paid.amount_raw:
                paid = transfer
        elif transfer.source == vault_out and (
            received is None or transfer.amount_raw > received.amount_raw
        ):
            received = transfer
    if paid is None or received is None:
        raise Malformed(f"{len(moved)} transfers, none into or none out of the vaults")
    leg = swap_by_pair(ix, pool, paid, received)
    leg.input_raw, leg.output_raw = gained[vault_in], -gained[vault_out]
    leg.second_mint = ix.mint_of(second)
    if user is not None:
        leg.user = ix.account(user)
    if fee_accounts:
        fees_to = {ix.account(place) for place in fee_accounts}
        leg.paid_raw = paid.amount_raw + sum(
            transfer.amount_raw
            for transfer in moved
            if transfer.source == paid.source and transfer.destination in fees_to
        )
    return leg


def migration_by_vaults(
    ix: Instruction,
    dex: str,
    *,
    curve: int,
    pool: int,
    mints: tuple[int, int],
    vaults: tuple[int, int],
    config: int | None = None,
) -> Migrated:
    """Read a migration from the token transfers into the vaults of the new pool, nested ones too.

    All are places in the instruction's accounts; `mints` and `vaults` the token's first, then its
    quote's. `config` is the platform's, where an account names it.
    """
    moved = ix.transfers(nested=True)
    base, quote = ix.account(vaults[0]), ix.account(vaults[1])
    return Migrated(
        mint=ix.address(mints[0]),
        from_pool=ix.address(curve),
        dex=dex,
        pool=ix.address(pool),
        quote_mint=ix.address(mints[1]),
        amount_raw=sum(move.received_raw for move in moved if move.destination == base),
        quote_amount_raw=sum(move.received_raw for move in moved if move.destination == quote),
        config="" if config is None else ix.address(config),
    )


def withhold(ix: Instruction, leg: Leg, paid_fee_raw: int, received_fee_raw: int) -> None:
    """Take off the transfer fees that an event states, where the balances did not show them."""
    if paid_fee_raw and leg.input_raw == leg.paid_raw and _withholds(ix, leg.vault_in):
        leg.input_raw -= paid_fee_raw
    if received_fee_raw and leg.received_raw == leg.output_raw and _withholds(ix, leg.vault_out):
        leg.received_raw -= received_fee_raw


def _withholds(ix: Instruction, index: int | None) -> bool:
    """Return whether an account's token is of the program that has transfer fees."""
    account = None if index is None else ix.tx.token_account(index)
    return account is not None and account.program == _TOKEN_2022
