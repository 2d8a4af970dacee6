"""Commands of Soltape as processes that begin at once: forked from one that has imported them."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

from infra.cli import main

COMMANDS = (
    *("api.command", "infra.local.stack", "pipeline.agents.command", "pipeline.ingest.command"),
    *("pipeline.partitions.command", "pipeline.rebuild", "stream_gateway.command"),
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *COMMANDS])


def start(command: tuple[str, ...], environment: Mapping[str, str], said: Path) -> BaseProcess:
    """Start a command; what it writes to stderr goes to the file `said`."""
    said.touch()
    child = _CONTEXT.Process(target=_run, args=(command, dict(environment), said), daemon=True)
    child.start()
    return child


def _run(command: tuple[str, ...], environment: dict[str, str], said: Path) -> None:
    os.environ.update(environment)
    os.chdir(said.parent)
    with said.open("ab", buffering=0) as output, Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = ["soltape", *command]
    main()
