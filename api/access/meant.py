"""What a command is about, as its arguments may say it: an id, or `-` for a key on stdin.

Every user of a machine sees the arguments of all its processes, and shells keep them, so the text
of a key is refused there.
"""

from __future__ import annotations

from typing import Final

import click

from api.access.keys import PREFIX

_LONGEST: Final = 1_000  # of a line


class Meant(click.ParamType):
    """An id, a name or, from stdin, the text of a key."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return what is meant; fails on a key that is given as an argument."""
        if value == "-":
            line = click.get_text_stream("stdin").readline(_LONGEST).strip()
            return line or self.fail("there is no line on stdin", param, ctx)
        if value.startswith(PREFIX) and not value.startswith(f"{PREFIX}..."):
            self.fail(
                "every user of this machine sees the arguments of commands, so no key is taken "
                "there: give -, and the key on stdin",
                param,
                ctx,
            )
        return value


MEANT: Final = Meant()
