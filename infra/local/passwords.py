"""Passwords of the systems that `soltape up` starts: made once a folder, in a file of mode 0600.

Without them every user of the machine, and every web page that its browsers open, reaches the
systems on loopback. A shell can read the file, NAME=password a line: `. .soltape/passwords`.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from infra.local import private_file
from infra.settings import SettingsError

FILE: Final = "passwords"
NAMES: Final = (
    "KAFKA_PASSWORD",
    "KAFKA_ADMIN_PASSWORD",
    "CLICKHOUSE_PASSWORD",
    "CLICKHOUSE_READER_PASSWORD",
    "REDIS_PASSWORD",
)
_LINE: Final = re.compile(r"([A-Z_]+)=([0-9a-f]{32,})")


def of(data: Path) -> dict[str, str]:
    """Return the passwords of a data folder by name; those that are missing are made.

    Raises SettingsError where the file cannot be read or written, or holds something else.
    """
    file = data / FILE
    try:
        made = {name: secrets.token_hex(16) for name in NAMES}
        if not private_file.create(file, _text(made)):
            file.chmod(0o600)
            found = _parsed(file)
            if made.keys() <= found.keys():
                return found
            made |= found
            private_file.replace(file, _text(made))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be used: {error}") from None
    return made


def _parsed(file: Path) -> dict[str, str]:
    found = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise SettingsError(
                f"{file}, line {number}: NAME=password is expected, in hexadecimal digits; delete "
                "the file for new passwords"
            )
        found[match[1]] = match[2]
    return found


def _text(passwords: dict[str, str]) -> str:
    return "".join(f"{name}={password}\n" for name, password in passwords.items())
