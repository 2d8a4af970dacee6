"""What a person sees of `soltape up`: messages, and below them one line that is kept up to date."""

from __future__ import annotations

import io
import os
import shutil
import sys


class Screen(io.TextIOBase):
    """Standard output; a logger may write to it too. Not on a terminal, each line is kept."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._terminal = self._out.isatty()

    def say(self, text: str) -> None:
        """Print a message."""
        self.write(text + "\n")

    def live(self, text: str) -> None:
        """Replace the line at the bottom."""
        if self._terminal:
            self._put(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        else:
            self._put(text + "\n")

    def write(self, text: str) -> int:
        """Print text that ends with a newline."""
        self._put(f"\r\x1b[K{text}" if self._terminal else text)
        return len(text)

    def _put(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:  # nobody reads any more; the stack goes on
            self._out = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
