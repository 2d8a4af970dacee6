"""Launch platforms: how a token's platform is recognised, by the data in `launchpads.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from schemas.solana.addresses import key

_WAYS: Final = ("config", "creator", "signer", "partner")
_FIELDS: Final = {"dex", "default", "flag", "source", *_WAYS}
_DEFAULTS: Final = (None, False, True, "creation")


class LaunchpadsError(Exception):
    """launchpads.toml holds something that is not accepted; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Platforms:
    """Platforms by each way of recognising them, keyed by (dex, address)."""

    slugs: tuple[str, ...]  # every platform, in the order of the file
    by_config: Mapping[tuple[str, str], str]
    by_creator: Mapping[tuple[str, str], str]
    by_signer: Mapping[tuple[str, str], str]
    by_partner: Mapping[tuple[str, str], str]
    by_dex: Mapping[str, str]
    by_curve: Mapping[str, str]  # likewise by venue, where all that trades there began there

    def of_creation(
        self,
        dex: str,
        creator: str,
        config: str,
        signers: Iterable[str],
        partners: Iterable[str] = (),
    ) -> str:
        """Return the platform that created a token, or '' where the venue is none.

        A creator or signer says more than a config, which anybody may use; the venue's own
        platform is what is left.
        """
        found = self.by_creator.get((dex, creator))
        if found is None:
            found = _first(self.by_signer, dex, signers)
        if found is None:
            found = self.by_config.get((dex, config))
        if found is None:
            found = _first(self.by_partner, dex, partners)
        return self.by_dex.get(dex, "") if found is None else found

    def of_trade(self, dex: str, config: str) -> str:
        """Return the platform on whose curve a trade happened, or ''.

        Where only a token's creation shows it (creator, signer, partner), it is the venue's own.
        """
        return self.by_config.get((dex, config)) or self.by_curve.get(dex, "")


def _first(table: Mapping[tuple[str, str], str], dex: str, addresses: Iterable[str]) -> str | None:
    if not table:
        return None
    return next((table[dex, address] for address in addresses if (dex, address) in table), None)


def read(document: Mapping[str, Any]) -> Platforms:
    """Read the tables of launchpads.toml.

    Raises LaunchpadsError.
    """
    tables: dict[str, dict[tuple[str, str], str]] = {way: {} for way in _WAYS}
    by_dex: dict[str, str] = {}
    by_curve: dict[str, str] = {}
    for slug, entry in document.items():
        if not isinstance(entry, Mapping):
            raise LaunchpadsError(f"{slug} = {entry!r}: a platform is a table, [{slug}]")
        if unknown := entry.keys() - _FIELDS:
            raise LaunchpadsError(f"[{slug}]: does not take {', '.join(sorted(unknown))}")
        dex = entry.get("dex")
        if not isinstance(dex, str) or not dex:
            raise LaunchpadsError(f"[{slug}]: needs dex, the venue its tokens start on")
        default = entry.get("default")
        if default not in _DEFAULTS:
            raise LaunchpadsError(f'[{slug}]: default is true or "creation", got {default!r}')
        if default and by_dex.setdefault(dex, slug) != slug:
            raise LaunchpadsError(f"[{slug}] and [{by_dex[dex]}] are both the default of {dex}")
        if default is True:
            by_curve[dex] = slug
        for way, table in tables.items():
            addresses = entry.get(way, [])
            if not isinstance(addresses, list):
                raise LaunchpadsError(f"[{slug}] {way}: needs a list of addresses")
            for address in addresses:
                _claim(table, slug, way, dex, address)
        if not default and not any(entry.get(way) for way in (*_WAYS, "flag")):
            raise LaunchpadsError(f"[{slug}]: nothing recognises it: needs one of {_WAYS}")
    return Platforms(
        slugs=tuple(document),
        by_config=tables["config"],
        by_creator=tables["creator"],
        by_signer=tables["signer"],
        by_partner=tables["partner"],
        by_dex=by_dex,
        by_curve=by_curve,
    )


def _claim(
    table: dict[tuple[str, str], str], slug: str, way: str, dex: str, address: object
) -> None:
    try:
        key(str(address))
    except ValueError as error:
        raise LaunchpadsError(f"[{slug}] {way}: {address}: {error}") from None
    other = table.setdefault((dex, str(address)), slug)
    if other != slug:
        raise LaunchpadsError(f"[{slug}] and [{other}] both claim {way} {address}")


PLATFORMS: Final = read(tomllib.loads(files("pipeline").joinpath("launchpads.toml").read_text()))
