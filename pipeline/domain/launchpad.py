"""The launch platform of a token, as its events name it.

A creation says most: only it shows creator and signers. A swap on a curve and a migration show the
curve's configuration. A swap in a pool shows nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Launchpad(NamedTuple):
    """What the events of a mint so far name, each the first that names one; empty: none did."""

    created: str = ""
    migrated: str = ""

    def with_creation(self, platform: str) -> Launchpad:
        """Return it after a creation."""
        return self if self.created else self._replace(created=platform)

    def with_migration(self, platform: str) -> Launchpad:
        """Return it after a migration."""
        return self if self.migrated else self._replace(migrated=platform)

    def of_swap(self, named: str) -> str:
        """Return the platform of a swap that names one itself, or none; empty: not known."""
        return self.created or named or self.migrated
