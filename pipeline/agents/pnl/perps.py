"""What became of the wallets' perpetual positions: rows alone, nothing of it is state.

From which slot on a venue's events are written is a row as well: after a start the first slot of
this process, and the table keeps the least. It is one a partition: while one process still is of a
version that wrote no events, another may be newer.
"""

from __future__ import annotations

from schemas import rows, tape_rows
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import Row


class PerpRows:
    """The rows of one partition since the last `take`."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._rows: dict[str, list[Row]] = {}
        self._known: set[str] = set()  # venues whose first slot has been written

    def apply(self, batch: SlotBatch) -> None:
        """Make the rows of a slot; raises CodecError, and then keeps none of it."""
        begun = [dex for dex in batch.perp_dexes if dex not in self._known]
        for table, made in (
            (rows.FUNDING_PAYMENTS, [*map(tape_rows.funding_row, batch.funding_payments)]),
            (rows.PERP_CHANGES, [*map(tape_rows.perp_change_row, batch.perp_changes)]),
            (rows.PERP_GAPS, [*map(tape_rows.perp_gap_row, batch.perp_gaps)]),
            (rows.PERP_HISTORIES, [(dex, self._place, batch.slot) for dex in begun]),
        ):
            if made:
                self._rows.setdefault(table.name, []).extend(made)
        self._known.update(begun)

    def take(self) -> dict[str, list[Row]]:
        """Return the rows by table."""
        taken, self._rows = self._rows, {}
        return taken
