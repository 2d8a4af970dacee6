"""How often somebody may do what costs us much: so many times in a window, in this process."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic

from cachetools import TTLCache

_KEPT = 10_000


class Pace:
    """Counts what each does within a window that begins with the first of it."""

    def __init__(self, most: int, window_s: float, now_s: Callable[[], float] = monotonic) -> None:
        self.most = most
        self.window_s = window_s
        # A list, so that counting does not begin the window anew.
        self._counts: TTLCache[str, list[int]] = TTLCache(_KEPT, window_s, timer=now_s)

    def take(self, name: str) -> bool:
        """Count one more of somebody; return False where it is one too many."""
        count = self._counts.get(name)
        if count is None:
            self._counts[name] = [1]
            return True
        if count[0] >= self.most:
            return False
        count[0] += 1
        return True

    def give_back(self, name: str) -> None:
        """Count one less of somebody, where what they did is not to be bounded after all."""
        count = self._counts.get(name)
        if count is not None and count[0] > 0:
            count[0] -= 1


def network(address: str) -> str:
    """Return what one caller has: an IPv4 address, or the first 64 bits of an IPv6 one.

    The zone of an IPv6 address is left out: it names an interface, and no caller.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return found.exploded[:19]
    return address
