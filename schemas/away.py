"""Which wallets and tokens may have been put away into ClickHouse: a bitmap of fixed size.

Redis keeps nothing else of them. The partitions by wallet and those by mint have a bitmap each. A
bit is set for good when an address is put away. An address that Redis does not have and whose bit
is not set is new; one whose bit is set is looked up in ClickHouse, in vain where it shares its bit
with another.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 1 << 25  # of a partition, 4 MiB: a tenth of them set at 27 million addresses in all


def bit(raw: bytes) -> int:
    """Return the bit of a raw address; from its middle, which nobody chooses for its looks."""
    return int.from_bytes(raw[12:16], "little") % (BITS - 1)
