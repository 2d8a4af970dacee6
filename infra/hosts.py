"""The names that a server is asked by.

A web page can point a name of its own at this machine (DNS rebinding): to the browser it is then of
one origin with whatever listens here, but the browser still sends the page's name as `Host`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from infra.settings import EVERYWHERE

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Hosts:
    """Which `Host` headers a server accepts.

    On loopback those are this machine's names and `names`; elsewhere `names`, and whatever there is
    where none is given, as anybody may then name the server.
    """

    def __init__(self, listens_on: str, names: str = "") -> None:
        given = {name.lower() for name in names.split(",") if name}
        is_open = not given and listens_on not in LOOPBACK
        self._names = None if is_open else LOOPBACK | given | ({listens_on.lower()} - EVERYWHERE)

    def accepts(self, host: str) -> bool:
        """Return whether a `Host` header, with or without its port, is one of ours."""
        if self._names is None:
            return True
        try:
            return urlsplit(f"//{host}").hostname in self._names
        except ValueError:
            return False

    def refusal(self, host: str) -> str:
        """Return what to say to the others."""
        return (
            f"This server does not answer to the name {host[:100]!r}: add it to ALLOWED_HOSTS if "
            "that is a name of yours"
        )
