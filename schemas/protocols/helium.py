"""Helium's vote escrow of HNT, MOBILE and IOT: a position is an NFT, and locked tokens vote.

Source: helium-program-library's `voter-stake-registry` (`state/position.rs`, `lockup.rs`,
`registrar.rs`, `voting_mint_config.rs`, `instructions/withdraw_v0.rs`) and its IDL 0.4.4. Factors
are in 1e-9; votes are cut off at each division. Of a lockup of kind Constant votes do not fall, but
`withdraw_v0` lets its tokens go at `end_ts` as those of any other kind. The program's time is that
of the chain and the registrar's `time_offset`.
"""

from __future__ import annotations

from struct import error
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
    Voting,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader, i64, raw_pubkey, u16, u64

PROGRAM: Final = key("hvsrNC3NKbcryqDs2DocYHZ9yPKEVzdSjQG6RVtK1s8")

_MINT_AT: Final = 40
POSITION: Final = Kind(
    "helium_position", PROGRAM, bytes.fromhex("98839a2e9e2a1fe9"), mints=(_MINT_AT,)
)
REGISTRAR: Final = Kind("helium_registrar", PROGRAM, bytes.fromhex("c1cacd334ea89680"))

_ROUTE: Final = "staking"
_NONE: Final = 0  # lockups; 1 is Cliff
_CONSTANT: Final = 2
_MINT_CONFIG_SIZE: Final = 66
_FACTOR: Final = 1_000_000_000
_U64: Final = 1 << 64
_U128: Final = 1 << 128
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_REGISTRAR: Final = (
    "assets, locks, voting power: the registrar, which has tokens and terms, is not known"
)
_OVERFLOW: Final = "voting.power_raw: more than the program can compute"


class _Locked(NamedTuple):
    account: Account
    registrar: bytes
    nft: bytes
    start_s: int
    end_s: int
    kind: int
    amount_raw: int
    config: int  # which of the registrar's mints
    open_votes: int
    genesis_end_s: int


class _Terms(NamedTuple):
    registrar: Account
    offset_s: int
    mint: bytes
    baseline: int  # factors of votes, in 1e-9
    most_extra: int
    genesis_multiplier: int
    saturation_s: int


def read(held: Held, world: World) -> Reading:
    """Return the positions whose NFTs a wallet has; raises Unreadable."""
    own = [
        _locked(account)
        for account in held.of(POSITION)
        if held.tokens.get(account.data[_MINT_AT : _MINT_AT + 32])
    ]
    own = [each for each in own if each.amount_raw]
    if not own:
        return []
    found = yield tuple(dict.fromkeys(each.registrar for each in own))
    return [_position(each, _terms(found.get(each.registrar), each), world.time_s) for each in own]


def _locked(account: Account) -> _Locked:
    data = account.data
    try:
        locked = _Locked(
            account=account,
            registrar=raw_pubkey(data, 8),
            nft=raw_pubkey(data, _MINT_AT),
            start_s=i64(data, 72),
            end_s=i64(data, 80),
            amount_raw=u64(data, 89),
            open_votes=u16(data, 98),
            genesis_end_s=i64(data, 100),
            kind=data[88],
            config=data[97],
        )
    except error:
        raise Unreadable(f"position of {len(data)} bytes", account.address) from None
    if locked.kind > _CONSTANT:
        raise Unreadable(f"lockup.kind {locked.kind} at 88", account.address)
    return locked


def _terms(account: Account | None, of: _Locked) -> _Terms | None:
    if account is None:
        return None
    if account.kind is not REGISTRAR:
        raise Unreadable(f"registrar: {account.kind.name}", of.account.address)
    reader = Reader(account.data, 8 + 4 * 32)
    try:
        offset_s = reader.i64()
        reader.skip(32 if reader.flag() else 0)  # position_update_authority
        reader.skip(32 + 1 + 1 + 4 + 24 + 32)  # collection to proxy_config
        count = reader.u32()
        if of.config >= count:
            detail = f"voting_mint_config_idx {of.config} of {count}"
            raise Unreadable(detail, of.account.address)
        reader.skip(of.config * _MINT_CONFIG_SIZE)
        mint, baseline, most_extra = reader.raw_pubkey(), reader.u64(), reader.u64()
        multiplier = reader.u8()
        reader.skip(8)  # until when new positions get the multiplier
        saturation_s = reader.u64()
    except error:
        detail = f"registrar of {len(account.data)} bytes"
        raise Unreadable(detail, of.account.address) from None
    return _Terms(account, offset_s, mint, baseline, most_extra, multiplier, saturation_s)


def _position(of: _Locked, terms: _Terms | None, now_s: int) -> Position:
    position = Position(_ROUTE, of.account, of.nft, of.registrar, stands_for={of.nft: 1})
    power_raw = None
    if terms is None:
        position.missing.append(of.registrar)
        position.unsupported_fields.append(_NO_REGISTRAR)
    else:
        position.reference_slot = terms.registrar.slot
        now_s += terms.offset_s
        is_free = of.end_s <= now_s and not of.open_votes
        role = Role.SUPPLY if is_free else Role.LOCKED
        position.assets.append(Asset(role, terms.mint, of.amount_raw))
        ends_ms = max(0, min((of.end_s - terms.offset_s) * 1000, _LATEST_MS))
        amounts = (0, of.amount_raw) if is_free else (of.amount_raw, 0)
        position.locks.append(Lock("escrow", *amounts, ends_ms))
        power_raw = _power(of, terms, now_s)
        if power_raw is None:
            position.unsupported_fields.append(_OVERFLOW)
    position.voting = Voting(power_raw, of.open_votes, None)
    return position


def _power(of: _Locked, terms: _Terms, now_s: int) -> int | None:
    """Return the votes of a position; None where the program's integers overflow."""
    baseline = of.amount_raw * terms.baseline // _FACTOR
    extra = _extra(of, terms, now_s)
    if extra is None:
        return None
    has_multiplier = now_s < of.genesis_end_s and terms.genesis_multiplier > 0
    power = (baseline + extra) * (terms.genesis_multiplier if has_multiplier else 1)
    return power if power < _U128 else None


def _extra(of: _Locked, terms: _Terms, now_s: int) -> int | None:
    """Return the votes of a lockup for the time that is left of it."""
    most = of.amount_raw * terms.most_extra // _FACTOR
    left_s = max(0, of.end_s - (of.start_s if of.kind == _CONSTANT else now_s))
    if not left_s or not most or of.kind == _NONE:
        return 0
    product = most * min(left_s, terms.saturation_s)
    if not terms.saturation_s or left_s >= _U64 // 2 or product >= _U128:
        return None
    return product // terms.saturation_s


PROTOCOL: Final = Protocol(
    "helium",
    (POSITION, REGISTRAR),
    (Route(_ROUTE, Shape.STAKING, "HNT, MOBILE and IOT locked to vote; each position is an NFT"),),
    read,
    unsupported_fields=(
        "rewards of positions delegated to a sub-network: they are claimed epoch by epoch",
        "voting.delegate: proxies are assigned in accounts of another program",
    ),
    reads_tokens=True,
)
