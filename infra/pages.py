"""Where the dashboard's files are: they belong to `stream_gateway`, and the API serves them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def dashboard() -> Path:
    """Return the folder of the dashboard; its page is `index.html`."""
    return Path(str(files("stream_gateway").joinpath("dashboard")))
