"""Jupiter Offerbook: loans of a fixed term between two wallets, and the offers of them.

Source: the program's IDL (`Offer`, `Loan`, `Asset`: a C enum of 265 bytes). An offer moves
no tokens: what it promises is in an escrow, which all offers of a mint share: the associated token
account of its creator's `User`, whose seeds are those of a public reader of the chain. A loan's
collateral is in a vault of its own.

The program does not publish how much of `interest` is owed before the end, nor its fees: principal
and collateral are as stored, interest is a line without an amount.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64
from schemas.solana.derived import derived
from schemas.solana.token_accounts import BadAccount, read_token_account

PROGRAM: Final = key("offerbkFMvVfpQhL8ZQ5iromnjct5rz3r52B9ewu3ie")
_ASSOCIATED: Final = key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")

_OWNER_AT: Final = 8  # of an offer's creator, of a loan's lender
_BORROWER_AT: Final = 40


def _kind(name: str, tag: str, size: int, *wallets: int) -> Kind:
    return Kind(f"offerbook_{name}", PROGRAM, bytes.fromhex(tag), size=size, wallets=wallets)


OFFER: Final = _kind("offer", "d7583c47aaa249e5", 1224, _OWNER_AT)
LOAN: Final = _kind("loan", "14c34675a5e3b601", 808, _OWNER_AT, _BORROWER_AT)

_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)
_ACTIVE: Final = 0  # status of a loan
_OPEN: Final = (0, 1)  # of an offer: active, partially filled
_STATUSES: Final = {OFFER: 4, LOAN: 3}
_SIDES: Final = 2
_COLLATERAL_SIDE: Final = 1
_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not

_INTEREST: Final = "interest: how much of it is owed before the end, and fees, are not published"
_OFFERED: Final = "assets: what is offered is in the escrow that all offers of its token share"


class _Asset(NamedTuple):
    mint: bytes  # of a Core NFT: its address
    token_program: bytes | None  # None: an NFT


def read(held: Held, world: World) -> Reading:
    """Return a wallet's escrow deposits, open offers and loans of either side."""
    for account in held.accounts:
        if account.kind in (OFFER, LOAN) and len(account.data) != account.kind.size:
            detail = f"{account.kind.name} of {len(account.data)} bytes"
            raise Unreadable(detail, account.address)
    offers = [each for each in _of(held, OFFER) if _status(each, 41) in _OPEN]
    escrows: dict[bytes, bytes] = {}  # address -> mint
    user = user_of(held.wallet)
    for offer in offers:
        asset, _ = _offered(offer)
        if asset.token_program is not None:
            escrows[escrow_of(user, asset.mint, asset.token_program)] = asset.mint
    found: Mapping[bytes, Account] = {}
    if escrows:
        found = yield tuple(sorted(escrows))
    deposits = (
        _deposit(found[address], user, mint)
        for address, mint in escrows.items()
        if address in found
    )
    loans = [each for each in held.of(LOAN) if _status(each, 136) == _ACTIVE]
    positions = [
        *deposits,
        *(_offer(each, user, found) for each in offers),
        *(_loan(each, held.wallet) for each in loans),
    ]
    return [each for each in positions if each.assets or each.locks]


def user_of(wallet: bytes) -> bytes:
    """Return the address of a wallet's `User`."""
    return derived(PROGRAM, b"user", wallet)


def escrow_of(user: bytes, mint: bytes, token_program: bytes) -> bytes:
    """Return the associated token account of a user."""
    return derived(_ASSOCIATED, user, token_program, mint)


def _of(held: Held, kind: Kind) -> Iterator[Account]:
    return (each for each in held.of(kind) if raw_pubkey(each.data, _OWNER_AT) == held.wallet)


def _status(account: Account, at: int) -> int:
    status = account.data[at]
    if status >= _STATUSES[account.kind]:
        raise Unreadable(f"status {status} at {at}", account.address)
    return status


def _asset(account: Account, at: int) -> _Asset | None:
    """Return an `Asset`, None for none; raises Unreadable."""
    variant = account.data[at]
    if variant == 0:
        return None
    if variant == 1:
        return _Asset(raw_pubkey(account.data, at + 1), raw_pubkey(account.data, at + 33))
    if variant in (2, 3, 4):
        return _Asset(raw_pubkey(account.data, at + 1), None)
    raise Unreadable(f"asset {variant} at {at}", account.address)


def _offered(offer: Account) -> tuple[_Asset, int]:
    """Return what an offer gives, and how much of it remains; raises Unreadable."""
    side = offer.data[40]
    if side >= _SIDES:
        raise Unreadable(f"side {side} at 40", offer.address)
    asset_at, remaining_at = (320, 888) if side == _COLLATERAL_SIDE else (48, 872)
    asset = _asset(offer, asset_at)
    if asset is None:
        raise Unreadable(f"an offer of nothing at {asset_at}", offer.address)
    return asset, 1 if asset.token_program is None else u64(offer.data, remaining_at)


def _ms(time_s: int) -> int | None:
    return min(time_s * 1000, _LATEST_MS) if time_s else None


def _deposit(account: Account, user: bytes, mint: bytes) -> Position:
    """Return what is in an escrow; raises Unreadable."""
    try:
        if account.kind not in _TOKENS:
            raise BadAccount(f"{account.kind.name} is no token account")
        state = read_token_account(account.kind.program, account.data)
    except BadAccount as error:
        raise Unreadable(f"escrow: {error}", account.address) from None
    if (state.owner, state.mint) != (user, mint):
        raise Unreadable("an escrow of another user or mint", account.address)
    assets = [Asset(Role.SUPPLY, mint, state.amount_raw)] if state.amount_raw else []
    return Position("positions", account, assets=assets)


def _offer(offer: Account, user: bytes, found: Mapping[bytes, Account]) -> Position:
    """Return an open offer: it holds nothing itself, its lock says how much it promises."""
    asset, remaining = _offered(offer)
    position = Position("positions", offer)
    position.assets = [Asset(Role.LOCKED, asset.mint, 0)]  # the escrow's position has the tokens
    position.locks = [Lock("escrow", remaining, ends_ms=_ms(u64(offer.data, 920)))]
    position.unsupported_fields.append(_OFFERED)
    if asset.token_program is not None:
        escrow = escrow_of(user, asset.mint, asset.token_program)
        if escrow in found:
            position.reference_slot = found[escrow].slot
        else:
            position.missing.append(escrow)
    return position


def _loan(loan: Account, wallet: bytes) -> Position:
    """Return a loan as its lender or borrower has it, one who is both as both."""
    data = loan.data
    principal, collateral = _asset(loan, 152), _asset(loan, 424)
    position = Position("positions", loan, market=raw_pubkey(data, 104))
    if principal is None or collateral is None:
        raise Unreadable("a loan without principal or collateral", loan.address)
    sides: list[tuple[Role, Role]] = []
    if raw_pubkey(data, _OWNER_AT) == wallet:
        sides.append((Role.LOCKED, Role.PENDING))
        locked = u64(data, 704)
        position.locks.append(Lock("term", locked, ends_ms=_ms(u64(data, 736))))
    if raw_pubkey(data, _BORROWER_AT) == wallet:
        amount = 1 if collateral.token_program is None else u64(data, 712)
        position.assets.append(Asset(Role.SUPPLY, collateral.mint, amount))
        sides.append((Role.BORROW, Role.BORROW))
    for role, of_interest in sides:
        position.assets.append(Asset(role, principal.mint, u64(data, 704)))
        if u64(data, 720):
            position.assets.append(Asset(of_interest, principal.mint, None))
            if _INTEREST not in position.unsupported_fields:
                position.unsupported_fields.append(_INTEREST)
    return position


PROTOCOL: Final = Protocol(
    "offerbook",
    (OFFER, LOAN),
    (
        Route(
            "positions",
            Shape.LENDING,
            "Escrow deposits, open offers, and loans of either side until they are settled",
        ),
    ),
    read,
    identified="likely",
    unsupported_fields=(
        "interest until now and fees, and health: a loan is due by time, not by price",
        "escrow deposits of tokens that no open offer of the wallet gives, and of NFTs",
        "loans in default, before their collateral is claimed",
    ),
)
