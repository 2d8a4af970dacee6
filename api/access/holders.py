"""Who pays for what a key asks: the key itself, or the user whose key it is.

All that is spent and counted is under one hash tag, so that one script charges it. A key that an
operator made has a tag of its own; the keys of a user share the user's, so that two of them do not
double a plan. A key's text leads to its fingerprint only: the first look at a user's key finds
whose it is. That never changes, and a process remembers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from schemas.redis_keys import USER_KEY, USER_SESSIONS, tag_of_key

_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """A key, or the session of a user, and who pays for it."""

    fingerprint: str  # of the key; of a session it is the user's
    user: str | None = None  # whose key it is
    session: str | None = None  # digest of a user's session, where no longer than it lasts

    @property
    def payer(self) -> str:
        """The fingerprint that all limits go by."""
        return self.user or self.fingerprint

    @property
    def tag(self) -> str:
        """The hash tag of all that is kept of the payer."""
        return tag_of_key(self.payer)

    @property
    def own(self) -> tuple[str, ...]:
        """Names of what is kept beside the payer's: of a user's key, or of the user's sessions."""
        if self.session is not None:
            return (USER_SESSIONS.make(tag=self.tag),)
        if self.user is None:
            return ()
        return (USER_KEY.make(tag=self.tag, fingerprint=self.fingerprint),)


class Holders:
    """The holders that a process knows of."""

    def __init__(self) -> None:
        self._users: LRUCache[str, str] = LRUCache(_KEPT)

    def of(self, fingerprint: str) -> Holder:
        """Return the holder of a fingerprint, as far as it is known here."""
        return Holder(fingerprint, self._users.get(fingerprint))

    def learn(self, fingerprint: str, user: str) -> Holder:
        """Note whose key it is."""
        self._users[fingerprint] = user
        return Holder(fingerprint, user)
