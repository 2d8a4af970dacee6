"""One supervised child process: started in order, watched, restarted with a reason, stopped."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Never

from infra.backoff import Backoff
from infra.local.process import NotReady, Process
from infra.local.tether import tethered

LOG_MAX_BYTES: Final = 8 * 1024**2
_BACKOFF_S: Final = (0.5, 30.0)
_STEADY_S: Final = 60.0  # having run so long, a child begins with the first pause again
_ATTEMPTS: Final = 3  # to serve for the first time
# glibc has an arena a thread, and each keeps what other threads freed: roles grew by 1 to 3 MiB a
# minute, their objects did not (`soltape bench memory`). Python runs one thread at a time. Blocks
# from 128 KiB are mapped alone, and returned when they are freed: glibc raises that bound to the
# largest block it has freed, and what is read from sockets (256 KiB a time) then leaves holes that
# nothing else fills, 17 of 27 MiB that were free in the agents after 23 minutes.
_FOR_DAYS: Final = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(128 * 1024)}
_ASK_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.1
_LAST_LINES: Final = 5
_LINE_CHARACTERS: Final = 300
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class NeverServed(Exception):
    """A child did not come to serve, however often it was started."""


class TapeEnded(Exception):
    """The chain ended after it had served: a chain that starts again is another one.

    `reason` is one line; `last_lines` are the end of its log, empty if it was killed from outside.
    """

    def __init__(self, name: str, reason: str, last_lines: Sequence[str], log: Path) -> None:
        super().__init__(f"{name} {reason}")
        self.last_lines = tuple(last_lines)
        self.log = log


class Child:
    """Keeps one process running.

    `after` are the children that must serve before it starts. With `ends_tape` it is not started
    again once it has served.
    """

    def __init__(
        self,
        process: Process,
        log: Path,
        say: Callable[[str], None],
        after: Sequence[Child] = (),
        *,
        ends_tape: bool = False,
    ) -> None:
        self.name = process.name
        self.process = process
        self.log = log
        self.after = tuple(after)
        self.served = asyncio.Event()
        self._ends_tape = ends_tape
        self._say = say
        self._popen: subprocess.Popen[bytes] | None = None
        self._returncode = 0
        self._log_start = 0
        self._ever_served = False

    async def keep_running(self) -> Never:
        """Start the process, and again whenever it ends, each time after a longer pause.

        Raises NeverServed if it does not serve after three starts, TapeEnded. Cancelling leaves it
        running.
        """
        if self.log.exists():
            self.log.replace(put_aside(self.log))
        failures = 0
        backoff = Backoff(*_BACKOFF_S, jitter=False)
        while True:
            for other in self.after:
                await other.served.wait()
            began = time.monotonic()
            reason = await self._run()
            self.served.clear()
            if self._ends_tape and self._ever_served:
                raise TapeEnded(self.name, reason, self._last_lines(), self.log)
            if time.monotonic() - began >= _STEADY_S:
                failures = 0
                backoff.reset()
            failures += 1
            if failures >= _ATTEMPTS and not self._ever_served:
                remedy = f"\n{self.process.remedy}" if self.process.remedy else ""
                raise NeverServed(f"{self.name} {reason}\nIts log: {self.log}{remedy}")
            pause_s = backoff.next_s()
            self._say(f"{self.name} {reason}; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _run(self) -> str:
        """Run it once; return why it ended."""
        try:
            popen = self._start()
        except OSError as error:
            return f"cannot be started: {error}"
        deadline = began = time.monotonic()
        deadline += self.process.ready_timeout_s
        while popen.poll() is None:
            if not self.served.is_set():
                missing = await self._ask()
                if missing is None and popen.poll() is None:
                    self.served.set()
                    self._ever_served = True
                elif missing is not None and time.monotonic() > deadline:
                    await self.end(2.0)
                    return f"did not serve within {time.monotonic() - began:.0f} s: {missing}"
            _keep_bounded(self.log)
            await asyncio.sleep(_LOOK_EVERY_S)
        self._returncode = popen.returncode
        self.kill()  # what it may have started itself
        last = self._last_lines()[-1:]
        return f"ended with {_how(popen.returncode)}" + "".join(f": {line}" for line in last)

    def _start(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._popen = subprocess.Popen(
                tethered(self.process.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_FOR_DAYS | os.environ | {"PYTHONUNBUFFERED": "1", **self.process.env},
                start_new_session=True,  # Ctrl-C is ours alone, and signals reach its children
            )
        return self._popen

    async def _ask(self) -> str | None:
        """Return what is missing, None when it serves."""
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                await self.process.ready()
        except NotReady as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {_ASK_TIMEOUT_S:g} s"
        return None

    @property
    def pid(self) -> int | None:
        """The process, which leads its group; None while none runs."""
        return self._popen.pid if self._popen and self._popen.poll() is None else None

    async def end(self, within_s: float) -> bool:
        """Ask it to stop, then kill it; return whether it stopped by itself."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + within_s
        while self.pid is not None and time.monotonic() < deadline:  # noqa: ASYNC110 - waitpid has no event
            await asyncio.sleep(0.02)
        by_itself = self.pid is None
        self.kill()
        return by_itself

    def kill(self) -> None:
        """End the process and all it has started, now."""
        self._signal(signal.SIGKILL)
        if self._popen:
            self._popen.wait()
            self._popen = None  # its id may be another's from here on

    def _signal(self, number: signal.Signals) -> None:
        if self._popen:
            with suppress(ProcessLookupError, PermissionError):  # macOS: a zombie gives the latter
                os.killpg(self._popen.pid, number)

    def _last_lines(self) -> list[str]:
        """Return the end of the log, where the reason is; nothing if it was killed from outside."""
        if self._returncode == -signal.SIGKILL:
            return []
        try:
            with self.log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(min(self._log_start, end), end - 4096))
                lines = _ANSI.sub("", log.read().decode(errors="replace")).strip().splitlines()
        except OSError:  # somebody deleted it
            return []
        return [line.strip()[:_LINE_CHARACTERS] for line in lines[-_LAST_LINES:]]


def _how(returncode: int) -> str:
    if returncode < 0:
        try:
            return signal.Signals(-returncode).name
        except ValueError:
            return f"signal {-returncode}"
    return f"exit code {returncode}"


def put_aside(log: Path) -> Path:
    """Return where the log of the last run goes."""
    return log.with_suffix(".log.1")


def _keep_bounded(log: Path) -> None:
    """Empty a log that has grown too long; its content moves to the file put aside.

    The child appends, so it writes on at the new end. A line written in between may be lost, and
    all of them where the disk is full. A log that somebody deleted is made again with the next
    start of its child.
    """
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_MAX_BYTES:
            with suppress(OSError):
                put_aside(log).write_bytes(log.read_bytes())
            os.truncate(log, 0)
