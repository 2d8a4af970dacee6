"""Launch platforms: how a token's platform is told, from the data in `launchpads.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from pipeline.solana.address import key


class LaunchpadsError(Exception):
    """launchpads.toml holds something that is not accepted; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Platforms:
    """Platforms by each way of recognising them; a more specific one wins."""

    by_creator: Mapping[str, str]
    by_config: Mapping[str, str]
    by_signer: Mapping[str, str]
    by_dex: Mapping[str, str]

    def of_creation(self, dex: str, creator: str, config: str, signers: Iterable[str]) -> str:
        """Return the platform that created a token, or '' where the venue is none."""
        default = self.by_dex.get(dex, "")
        if not default:
            return ""
        found = self.by_config.get(config) or self.by_creator.get(creator)
        if found:
            return found
        for signer in signers:
            if signer in self.by_signer:
                return self.by_signer[signer]
        return default

    def of_trade(self, dex: str, config: str) -> str:
        """Return the platform on whose curve a trade happened, or ''."""
        default = self.by_dex.get(dex, "")
        return self.by_config.get(config, default) if default else ""


def read(document: Mapping[str, Any]) -> Platforms:
    """Read the tables of launchpads.toml.

    Raises LaunchpadsError.
    """
    tables: dict[str, dict[str, str]] = {name: {} for name in ("creator", "config", "signer")}
    by_dex: dict[str, str] = {}
    for slug, entry in document.items():
        unknown = set(entry) - {"dex", "default", "creator", "config", "signer", "source"}
        if unknown or "dex" not in entry:
            raise LaunchpadsError(f"[{slug}]: needs dex, does not take {sorted(unknown)}")
        if entry.get("default"):
            by_dex[entry["dex"]] = slug
        for name, table in tables.items():
            for address in entry.get(name, ()):
                try:
                    key(address)
                except ValueError as error:
                    raise LaunchpadsError(f"[{slug}] {name}: {address}: {error}") from None
                if table.setdefault(address, slug) != slug:
                    raise LaunchpadsError(f"[{slug}] and [{table[address]}] both claim {address}")
    return Platforms(tables["creator"], tables["config"], tables["signer"], by_dex)


PLATFORMS: Final = read(tomllib.loads(files("pipeline").joinpath("launchpads.toml").read_text()))
