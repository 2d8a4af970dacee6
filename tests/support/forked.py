"""Commands of Soltape as processes that begin at once: forked from one that has imported them.

Importing a role takes a second of CPU time, the API two; a fork takes some milliseconds. What runs
is the same: the command line, its settings from the environment, a process of its own. Tests of
the command itself, of the memory it needs and of what is left of its family start Python anew.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread

from infra.cli import main

COMMANDS = (
    *("api.access.command", "api.access.users_command", "api.subscribers.command"),
    *("api.command", "infra.clickhouse.command", "infra.clickhouse.embedded"),
    *("infra.local.stack", "pipeline.agents.command", "pipeline.ingest.command"),
    *("pipeline.partitions.command", "pipeline.rebuild", "stream_gateway.command"),
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *COMMANDS, "tests.support.api.prepared"])


class Forked:
    """A process of a command, or of a script; it has of `subprocess.Popen` what tests ask for.

    `environment` is all that it has. Its folder is that of `log`, unless another is given: the
    file which what it says is added to; what it prints is, too, unless another file is given for
    that. It reads nothing but the file `read`. It ends with this test process, even if no fixture
    can end it.
    """

    def __init__(
        self,
        command: tuple[str, ...] | Path,
        environment: Mapping[str, str],
        log: Path,
        printed: Path | None = None,
        *,
        folder: Path | None = None,
        read: Path | None = None,
    ) -> None:
        log.touch()
        self._command = command
        self._looks = Lock()  # of two that look at once, one would find nothing
        files = (read or Path(os.devnull), printed or log, log)
        given = (command, dict(environment), folder or log.parent, files)
        self._process = _CONTEXT.Process(target=_run, args=given, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs, the negative signal where one ended it."""
        with self._looks:
            return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it has ended; raises TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        if (status := self.returncode) is None:
            raise subprocess.TimeoutExpired(str(self._command), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.send_signal(signal.SIGKILL)


def finished(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    folder: Path,
    *,
    stdin: str = "",
    within_s: float = 240.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder to its end; raises TimeoutExpired."""
    with TemporaryDirectory() as kept:
        read, printed, log = (Path(kept) / name for name in ("read", "printed", "log"))
        read.write_text(stdin)
        process = Forked(command, environment, log, printed, folder=folder, read=read)
        try:
            status = process.wait(within_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, status, printed.read_text(), log.read_text())


def _run(
    command: tuple[str, ...] | Path,
    environment: dict[str, str],
    folder: Path,
    files: tuple[Path, Path, Path],
) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate(files):
        with file.open("ab" if number else "rb", buffering=0) as opened:
            os.dup2(opened.fileno(), number)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another one there
    if isinstance(command, Path):
        sys.argv = [str(command)]
        runpy.run_path(str(command), run_name="__main__")
    else:
        sys.argv = ["soltape", *command]
        main()


def _end_with_parent() -> None:
    """End this process when the test process has ended; the one that forked it lives on."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
