"""What of a partition's books is in ClickHouse, and how it is written and read there.

Everything is read as it was before a slot. A row of a later one was written by a life of the books
that Redis does not remember: it is written again when its slot comes. The wallet of a row that
cannot be read goes into quarantine, and the row is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from infra.clickhouse.sql import parts
from pipeline.agents.settled.quarantine import UNREADABLE, Quarantine
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.positions import (
    ColdWallet,
    PackedError,
    full_chunks,
    unpack_cold,
    unpack_cold_wallet,
    unpack_lots,
    unpack_position,
    unpack_wallet_day,
)
from schemas.rows import COLD_POSITIONS, COLD_WALLETS, Row

_OF_MINTS: Final = f"""
SELECT wallet, mint, packed FROM {COLD_POSITIONS.name}
WHERE partition = {{partition:UInt8}} AND mint IN {{mints:Array(String)}} AND slot < {{slot:UInt64}}
"""  # noqa: S608
_NEWEST: Final = "ORDER BY mint, wallet, slot DESC LIMIT 1 BY mint, wallet"
_PLACES: Final = f"""
SELECT DISTINCT wallet, mint FROM {COLD_POSITIONS.name}
WHERE wallet IN {{wallets:Array(String)}} AND slot < {{slot:UInt64}}
"""  # noqa: S608
_WALLETS: Final = f"""
SELECT wallet, packed FROM {COLD_WALLETS.name}
WHERE wallet IN {{wallets:Array(String)}} AND slot < {{slot:UInt64}}
ORDER BY wallet, slot DESC LIMIT 1 BY wallet
"""  # noqa: S608


class Asleep(NamedTuple):
    """A position that was put away."""

    wallet: str
    mint: str
    packed: bytes
    chunks: list[bytes]  # its full chunks of lots


class ColdRows(Protocol):
    """Reads of one partition. All raise ClickHouseError."""

    async def positions(
        self, mints: Sequence[str], slot: int, wallets: Sequence[str] = ()
    ) -> list[Asleep]:
        """Return the positions in some mints before a slot, of some wallets or of all."""

    async def places(self, wallets: Sequence[str], slot: int) -> list[tuple[str, str]]:
        """Return wallet and mint of all positions of some wallets before a slot."""

    async def wallets(self, wallets: Sequence[str], slot: int) -> dict[str, ColdWallet]:
        """Return the wallets, as they were put away last before a slot."""


class ColdTables:
    """`ColdRows` of ClickHouse."""

    def __init__(self, sink: ClickHouseSink, place: int, quarantine: Quarantine) -> None:
        self._sink = sink
        self._place = place
        self._quarantine = quarantine

    async def positions(
        self, mints: Sequence[str], slot: int, wallets: Sequence[str] = ()
    ) -> list[Asleep]:
        """Return the positions in some mints before a slot, of some wallets or of all."""
        of_wallets = "AND wallet IN {wallets:Array(String)} " if wallets else ""
        found = [
            row
            for some in parts(mints)
            for owners in (parts(wallets) if wallets else [()])
            for row in await self._query(
                f"{_OF_MINTS}{of_wallets}{_NEWEST}",
                partition=self._place,
                mints=some,
                slot=slot,
                **({"wallets": owners} if owners else {}),
            )
        ]
        asleep = []
        for wallet, mint, packed in found:
            try:
                asleep.append(_asleep(wallet, mint, bytes(packed)))
            except UNREADABLE as error:
                self._quarantine.put(wallet, f"{COLD_POSITIONS.name} {wallet} {mint}", error)
        return asleep

    async def places(self, wallets: Sequence[str], slot: int) -> list[tuple[str, str]]:
        """Return wallet and mint of all positions of some wallets before a slot."""
        return [
            (wallet, mint)
            for some in parts(wallets)
            for wallet, mint in await self._query(_PLACES, wallets=some, slot=slot)
        ]

    async def wallets(self, wallets: Sequence[str], slot: int) -> dict[str, ColdWallet]:
        """Return the wallets, as they were put away last before a slot."""
        away = {}
        rows = [
            row
            for some in parts(wallets)
            for row in await self._query(_WALLETS, wallets=some, slot=slot)
        ]
        for wallet, packed in rows:
            try:
                found = away[wallet] = unpack_cold_wallet(bytes(packed))
                if found.total:
                    unpack_wallet_day(found.total)
            except UNREADABLE as error:
                self._quarantine.put(wallet, f"{COLD_WALLETS.name} {wallet}", error)
        return away

    async def _query(self, sql: str, **parameters: Any) -> Sequence[Sequence[Any]]:
        client = await self._sink.client()
        answer = await client.query(
            sql,
            parameters=parameters,
            column_formats={"packed": "bytes"} if "packed" in sql else None,
        )
        return answer.result_rows


def _asleep(wallet: str, mint: str, row: bytes) -> Asleep:
    packed, chunks = unpack_cold(row)
    position, _ = unpack_position(packed)
    if len(chunks) != len(full_chunks(position)):
        raise PackedError(f"cold position: {len(chunks)} chunks, not {full_chunks(position)}")
    for chunk in chunks:
        unpack_lots(chunk)
    return Asleep(wallet, mint, packed, chunks)


class Journal:
    """Rows and commands of one take, in the order of what happened."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self.commands: list[tuple[Any, ...]] = []

    def take(self) -> tuple[defaultdict[str, list[Row]], list[tuple[Any, ...]]]:
        """Return them, and begin anew."""
        taken = self.rows, self.commands
        self.rows, self.commands = defaultdict(list), []
        return taken
