"""Which values of a checkpoint cannot be read: it must not carry them on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from pipeline.agents.settled.quarantine import UNREADABLE
from pipeline.domain.market import Token
from pipeline.domain.price import MintPrice
from schemas import accounts
from schemas.markets import (
    check_series,
    unpack_account,
    unpack_candles,
    unpack_exact,
    unpack_head,
    unpack_pool,
)
from schemas.positions import (
    COLD_MARK,
    unpack_balance,
    unpack_lots,
    unpack_position,
    unpack_wallet_day,
)
from schemas.rows import Row
from schemas.solana.addresses import text

_ADDRESS_BYTES: Final = 32


def unreadable(rows: Iterable[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield the wallet or mint, the place and the cause of each value that cannot be read."""
    for _, _, key, _, field, value, _, is_deleted in rows:
        family = key.partition(b":")[0]
        check = _CHECKS.get(family)
        if check is None or is_deleted or field == COLD_MARK or not (value or field):
            continue
        try:
            check(field, value)
        except UNREADABLE as error:
            name = text(field) if family in _BY_WALLET else key.split(b":")[2].decode()
            yield name, f"{key.decode()} {field!r}".strip(), f"{type(error).__name__}: {error}"


def _position(_: bytes, value: bytes) -> None:
    unpack_position(value)


def _lots(_: bytes, value: bytes) -> None:
    list(unpack_lots(value))


def _balance(_: bytes, value: bytes) -> None:
    unpack_balance(value)


def _day(_: bytes, value: bytes) -> None:
    unpack_wallet_day(value)


def _account(field: bytes, value: bytes) -> None:
    (unpack_account if len(field) == _ADDRESS_BYTES else unpack_exact)(value)


_MARKET: Final[dict[bytes, Callable[[bytes], Any]]] = {
    b"head": unpack_head,
    b"token": lambda value: Token(**orjson.loads(value)),
    b"price": MintPrice.unpack,
    b"candles": unpack_candles,
    b"minutes": check_series,
    b"quarters": check_series,
    b"pool": lambda value: check_series(unpack_pool(value)[1]),
}


def _market(field: bytes, value: bytes) -> None:
    check = _MARKET.get(field.partition(b":")[0])
    if check is not None:
        check(value)


def _stored(_: bytes, value: bytes) -> None:
    accounts.unpack(value).data()


_BY_WALLET: Final = frozenset({b"wallets", b"days"})  # a field is a raw wallet
_CHECKS: Final[dict[bytes, Callable[[bytes, bytes], None]]] = {
    b"pos": _position,
    b"lots": _lots,
    b"bal": _balance,
    b"wallets": _day,
    b"days": _day,
    b"market": _market,
    b"accounts": _account,
    b"acct": _stored,
}
