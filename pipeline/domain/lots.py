"""First in, first out: one wallet's holding of one token.

- A purchase opens a lot with its cost, what is received one without. Lots are disposed of oldest
  first: sold, sent away, burned.
- A lot of quantity q and cost c of which x has been disposed of so far has given floor(c * x / q)
  of its cost: the piece from x to y costs the difference of two such floors. The last piece takes
  what is left, and a sale cut into smaller ones costs the same. Proceeds of a sale are spread over
  the lots it takes likewise, in their order.
- What is sold of a lot without a cost, or of more than the lots hold, or at an unknown value, is
  `unmatched`: no gain and no loss. The proceeds of that part are in `sold_*` and nowhere else.
- What is sent takes its cost along, without gain. What is sent beyond the lots takes nothing.
- What is burned is sold for nothing.
- SOL and dollars are kept apart, each at the time of the trade. A value that is not known in one
  of them is not known.

Nothing but the oldest lots is touched, so a trade costs the same however many are open. Lots stay
packed as `schemas.positions` says; of the full chunks only those a disposal needs are here.
Quantities are more than 0, and like values no more than 64 bits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from schemas.positions import (
    CHUNK_LOTS,
    LOT,
    Position,
    full_chunks,
    pack_position,
    tail_lots,
    unpack_lots,
    unpack_position,
)


class LotsMissing(LookupError):
    """A disposal reached a chunk that was not read: a bug of the loader."""


class Kind(IntEnum):
    """How a lot was disposed of."""

    SALE = 1
    TRANSFER = 2
    BURN = 3


class Match(NamedTuple):
    """What a disposal took of one lot; a sale beyond the lots ends in one without a lot."""

    kind: Kind
    lot_number: int | None
    lot_slot: int
    lot_tx_index: int
    lot_time_ms: int
    quantity_raw: int
    cost_lamports: int | None  # None where it is not known
    cost_usd_micros: int | None
    proceeds_lamports: int | None  # None where it is not known, and for a transfer
    proceeds_usd_micros: int | None


class Realized(NamedTuple):
    """What a sale or a burn came to, of the part that was matched."""

    proceeds_lamports: int
    proceeds_usd_micros: int
    cost_lamports: int
    cost_usd_micros: int
    unmatched_raw: int


class Holding:
    """A position with its lots."""

    __slots__ = ("_head", "_tail", "_tail_from", "chunks", "emptied", "filled", "position")

    def __init__(self, position: Position, tail: bytes = b"") -> None:
        self.position = position
        self.chunks: dict[int, bytes] = {}  # full chunks: those read, and those just filled
        self.filled: list[int] = []  # chunks to be written, and
        self.emptied: list[int] = []  # to be removed, since `changed_chunks`
        self._tail = bytearray(tail)
        self._tail_from = position.lots_opened - len(tail) // LOT.size
        self._head: tuple[int, ...] | None = None  # the oldest open lot, once it was looked at

    @classmethod
    def empty(cls) -> Holding:
        """Return the holding of a wallet that never had any."""
        return cls(Position())

    @classmethod
    def unpack(cls, data: bytes) -> Holding:
        """Return a holding without its full chunks; raises PackedError."""
        return cls(*unpack_position(data))

    def pack(self) -> bytes:
        """Return the holding without its full chunks."""
        tail = self._tail
        if tail:
            keep = len(tail_lots(self.position)) * LOT.size
            if len(tail) > keep:
                del tail[: len(tail) - keep]
                self._tail_from = self.position.lots_opened - keep // LOT.size
        return pack_position(self.position, bytes(tail))

    # What has to be read before a disposal.

    def missing_chunk(self, quantity_raw: int) -> int | None:
        """Return the first full chunk that disposing of so much may reach and that is not here."""
        position = self.position
        chunks = full_chunks(position)
        left = quantity_raw + position.head_taken_raw
        for number in chunks:
            if left <= 0:
                return None
            chunk = self.chunks.get(number)
            if chunk is None:
                return number
            closed = 0
            if number == chunks.start:  # some were closed before it was full, some since
                not_in_it = CHUNK_LOTS - len(chunk) // LOT.size
                closed = position.lots_closed % CHUNK_LOTS - not_in_it
            left -= sum(lot.quantity_raw for lot in unpack_lots(chunk[closed * LOT.size :]))
        return None

    def add(self, number: int, chunk: bytes) -> None:
        """Take a full chunk that was read."""
        self.chunks[number] = chunk

    def changed_chunks(self) -> tuple[dict[int, bytes], list[int]]:
        """Return the chunks filled and the numbers of those emptied since the last call."""
        filled = {number: self.chunks[number] for number in self.filled if number in self.chunks}
        emptied, self.filled, self.emptied = self.emptied, [], []
        return filled, emptied

    def forget_chunks(self, keep: int) -> None:
        """Keep the first chunks only; those that were not written yet stay as well."""
        first = self.position.lots_closed // CHUNK_LOTS
        for number in [*self.chunks]:
            if number >= first + keep and number not in self.filled:
                del self.chunks[number]

    # What happens to it.

    def buy(
        self,
        quantity_raw: int,
        lamports: int | None,
        usd_micros: int | None,
        slot: int,
        tx_index: int,
        time_ms: int,
    ) -> None:
        """Open a lot at a cost; None where it is not known."""
        position = self.position
        position.bought_raw += quantity_raw
        position.buys += 1
        if lamports is None or usd_micros is None:
            self._open(quantity_raw, 0, 0, slot, tx_index, time_ms, 0)
        else:
            position.held_known_raw += quantity_raw
            position.bought_lamports += lamports
            position.bought_usd_micros += usd_micros
            position.held_cost_lamports += lamports
            position.held_cost_usd_micros += usd_micros
            self._open(quantity_raw, lamports, usd_micros, slot, tx_index, time_ms, 1)
        self._traded(slot, time_ms)

    def receive(self, quantity_raw: int, slot: int, tx_index: int, time_ms: int) -> None:
        """Open a lot without a cost: a transfer in, an airdrop."""
        position = self.position
        position.received_raw += quantity_raw
        position.changed_slot = slot
        self._open(quantity_raw, 0, 0, slot, tx_index, time_ms, 0)

    def sell(
        self,
        quantity_raw: int,
        lamports: int | None,
        usd_micros: int | None,
        slot: int,
        time_ms: int,
        matches: list[Match],
    ) -> Realized:
        """Sell for a value; None where it is not known. Appends to `matches`."""
        position = self.position
        position.sold_raw += quantity_raw
        position.sells += 1
        if lamports is None or usd_micros is None:
            lamports = usd_micros = None
        else:
            position.sold_lamports += lamports
            position.sold_usd_micros += usd_micros
        realized = self._realize(Kind.SALE, quantity_raw, lamports, usd_micros, matches)
        gain = realized.proceeds_usd_micros - realized.cost_usd_micros
        if gain > 0:
            position.wins += 1
        elif gain < 0:
            position.losses += 1
        self._traded(slot, time_ms)
        return realized

    def burn(self, quantity_raw: int, slot: int, matches: list[Match]) -> Realized:
        """Dispose of a quantity for nothing. Appends to `matches`."""
        self.position.burned_raw += quantity_raw
        self.position.changed_slot = slot
        return self._realize(Kind.BURN, quantity_raw, 0, 0, matches)

    def send(self, quantity_raw: int, slot: int, matches: list[Match]) -> None:
        """Let a quantity go without gain. Appends to `matches`."""
        position = self.position
        position.sent_raw += quantity_raw
        position.changed_slot = slot
        while quantity_raw and position.held_raw:
            number, lot, piece, lamports, usd_micros = self._take(quantity_raw)
            quantity_raw -= piece
            matches.append(
                Match(
                    Kind.TRANSFER,
                    number,
                    lot[3],
                    lot[5],
                    lot[4],
                    piece,
                    lamports,
                    usd_micros,
                    None,
                    None,
                )
            )

    def pay(self, fee_lamports: int, priority_fee_lamports: int, tip_lamports: int) -> None:
        """Record what a transaction cost its payer, beside the gain."""
        position = self.position
        position.fee_lamports += fee_lamports
        position.priority_fee_lamports += priority_fee_lamports
        position.tip_lamports += tip_lamports

    def _traded(self, slot: int, time_ms: int) -> None:
        position = self.position
        if position.buys + position.sells == 1:
            position.first_trade_slot = slot
            position.first_trade_ms = time_ms
        position.last_trade_slot = slot
        position.last_trade_ms = time_ms
        position.changed_slot = slot

    def _realize(
        self,
        kind: Kind,
        quantity_raw: int,
        lamports: int | None,
        usd_micros: int | None,
        matches: list[Match],
    ) -> Realized:
        position = self.position
        proceeds_lamports = proceeds_usd_micros = total_lamports = total_usd_micros = 0
        done = unmatched = 0
        while done < quantity_raw and position.held_raw:
            number, lot, piece, cost_lamports, cost_usd_micros = self._take(quantity_raw - done)
            if lamports is None or usd_micros is None:
                part_lamports = part_usd_micros = None
            elif piece == quantity_raw:
                part_lamports, part_usd_micros = lamports, usd_micros
            else:
                part_lamports = _share(lamports, done, piece, quantity_raw)
                part_usd_micros = _share(usd_micros, done, piece, quantity_raw)
            done += piece
            matches.append(
                Match(
                    kind,
                    number,
                    lot[3],
                    lot[5],
                    lot[4],
                    piece,
                    cost_lamports,
                    cost_usd_micros,
                    part_lamports,
                    part_usd_micros,
                )
            )
            if cost_lamports is None or part_lamports is None:
                unmatched += piece
            else:
                assert cost_usd_micros is not None
                assert part_usd_micros is not None
                proceeds_lamports += part_lamports
                proceeds_usd_micros += part_usd_micros
                total_lamports += cost_lamports
                total_usd_micros += cost_usd_micros
        if rest := quantity_raw - done:
            unmatched += rest
            if lamports is None or usd_micros is None:
                part_lamports = part_usd_micros = None
            else:
                part_lamports = _share(lamports, done, rest, quantity_raw)
                part_usd_micros = _share(usd_micros, done, rest, quantity_raw)
            matches.append(
                Match(kind, None, 0, 0, 0, rest, None, None, part_lamports, part_usd_micros)
            )
        position.unmatched_raw += unmatched
        position.matched_proceeds_lamports += proceeds_lamports
        position.matched_proceeds_usd_micros += proceeds_usd_micros
        position.matched_cost_lamports += total_lamports
        position.matched_cost_usd_micros += total_usd_micros
        return Realized(
            proceeds_lamports, proceeds_usd_micros, total_lamports, total_usd_micros, unmatched
        )

    # The lots themselves.

    def _open(
        self,
        quantity_raw: int,
        lamports: int,
        usd_micros: int,
        slot: int,
        tx_index: int,
        time_ms: int,
        has_cost: int,
    ) -> None:
        position = self.position
        position.held_raw += quantity_raw
        tail = self._tail
        tail += LOT.pack(quantity_raw, lamports, usd_micros, slot, time_ms, tx_index, has_cost)
        position.lots_opened = opened = position.lots_opened + 1
        if not opened % CHUNK_LOTS:
            still_open = min(CHUNK_LOTS, opened - position.lots_closed)
            if still_open:
                number = opened // CHUNK_LOTS - 1
                self.chunks[number] = bytes(tail[-still_open * LOT.size :])
                self.filled.append(number)
            self._tail = bytearray()
            self._tail_from = opened

    def _oldest(self) -> tuple[int, ...]:
        number = self.position.lots_closed
        if number >= self._tail_from:
            return LOT.unpack_from(self._tail, (number - self._tail_from) * LOT.size)
        chunk = self.chunks.get(number // CHUNK_LOTS)
        if chunk is None:
            raise LotsMissing(f"chunk {number // CHUNK_LOTS} of {full_chunks(self.position)}")
        # The last lot ends the chunk; lots that were closed before it was full are not in it.
        from_end = CHUNK_LOTS - number % CHUNK_LOTS
        return LOT.unpack_from(chunk, len(chunk) - from_end * LOT.size)

    def _take(self, quantity_raw: int) -> tuple[int, tuple[int, ...], int, int | None, int | None]:
        """Dispose of up to a quantity of the oldest lot.

        Returns its number, itself, what was taken, and the cost of that.
        """
        position = self.position
        lot = self._head
        if lot is None:
            lot = self._head = self._oldest()
        number = position.lots_closed
        size, cost_lamports, cost_usd_micros, _, _, _, has_cost = lot
        taken = position.head_taken_raw
        piece = size - taken
        lamports: int | None = None
        usd_micros: int | None = None
        if piece <= quantity_raw:
            if has_cost:
                lamports = cost_lamports - cost_lamports * taken // size
                usd_micros = cost_usd_micros - cost_usd_micros * taken // size
            self._close()
        else:
            piece = quantity_raw
            position.head_taken_raw = taken + piece
            if has_cost:
                lamports = _share(cost_lamports, taken, piece, size)
                usd_micros = _share(cost_usd_micros, taken, piece, size)
        position.held_raw -= piece
        if lamports is not None and usd_micros is not None:
            position.held_known_raw -= piece
            position.held_cost_lamports -= lamports
            position.held_cost_usd_micros -= usd_micros
        return number, lot, piece, lamports, usd_micros

    def _close(self) -> None:
        """Leave the oldest lot behind."""
        position = self.position
        position.lots_closed = closed = position.lots_closed + 1
        position.head_taken_raw = 0
        self._head = None
        if not closed % CHUNK_LOTS:
            number = closed // CHUNK_LOTS - 1
            if self.chunks.pop(number, None) is not None:
                self.emptied.append(number)


def _share(total: int, start: int, piece: int, whole: int) -> int:
    """Return what falls to [start, start + piece) of a total spread over [0, whole)."""
    return total * (start + piece) // whole - total * start // whole
