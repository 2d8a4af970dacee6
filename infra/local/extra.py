"""The extra `soltape[embedded]`: packages that only the parts started on this machine need."""

from __future__ import annotations

import re
from importlib.metadata import requires
from importlib.util import find_spec
from typing import Final

_REQUIREMENT: Final = re.compile(r"""(?P<package>\w+).*; extra == ["']embedded["']""")


def require(package: str) -> None:
    """Raise ModuleNotFoundError if a package is not installed; import nothing."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def remedy(error: ModuleNotFoundError) -> str | None:
    """Return what to do about a missing package; None if it does not belong to the extra."""
    package = (error.name or "").partition(".")[0]
    if package not in _packages():
        return None
    return (
        f"`{package}` is not installed; what Soltape starts on this machine needs it:\n"
        "  pip install 'soltape[embedded]'\n"
        "Or use systems of your own: set KAFKA_BOOTSTRAP, CLICKHOUSE_URL and REDIS_URL"
    )


def _packages() -> set[str]:
    found = (_REQUIREMENT.fullmatch(line) for line in requires("soltape") or ())
    return {match["package"] for match in found if match}
