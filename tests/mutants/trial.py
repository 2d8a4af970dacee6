"""Tests run on a mutant: a fork of this process, in which one module is another.

Neither this process nor the tree ever has the mutant: a run that is killed leaves nothing behind.
The fork inherits the packages that tests import, which saves most of a short run's time; modules of
the product it imports itself. Programs that a test starts run the product as it is on disk.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import Phase, settings

from tests.mutants.reach import Reach, Watch
from tests.mutants.rooms import ROOT, SESSIONS, Room

PRODUCT: Final = ("schemas", "infra", "pipeline", "api", "stream_gateway", "tests")
MARKED: Final = "not node and not apache and not browser and not slow"
ARGUMENTS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-m", MARKED)
OUTPUT: Final = "last-run.txt"
STARTING_S: Final = 5
FACTOR: Final = 5
"""A run may take `STARTING_S` of CPU and `FACTOR` times what its tests take without a mutant."""
WAITING: Final = 12
"""A run may take this many times as long on the clock as on the CPU: the machine may be busy."""


class Ended(NamedTuple):
    """How a run ended: `status` as pytest's exit code, negative for a signal, and what it said."""

    status: int
    said: str

    @property
    def noticed(self) -> bool:
        """Return True if a test failed, or no test could run at all."""
        return self.status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

    @property
    def timed_out(self) -> bool:
        """Return True if the run's own bound of CPU or time ended it."""
        return self.status in (-signal.SIGXCPU, -signal.SIGKILL)


class BaselineFailed(Exception):
    """The tests fail without any mutant."""


def watch(room: Room, root: Path = ROOT) -> tuple[Reach, list[str]]:
    """Run a room's tests once: return what they reach, and the packages they import."""
    watched = Watch([*room.modules(root)], root)

    def run(say: Callable[[str], None]) -> int:
        watched.start()
        status = pytest.main([*ARGUMENTS, *_profile("fast"), *room.tests], plugins=[watched])
        say(json.dumps({"reach": watched.reach().written(), "packages": _packages()}))
        return int(status)

    status, said = fork(run, 3600, 3600, root)
    if status:
        raise BaselineFailed(f"the tests fail without a mutant: {root / SESSIONS / OUTPUT}")
    answer = json.loads(said)
    preload(answer["packages"])
    return Reach.read(answer["reach"]), answer["packages"]


def preload(packages: Sequence[str]) -> None:
    """Import packages that tests need, for the forks to inherit."""
    for name in packages:
        with suppress(Exception):
            importlib.import_module(name)


def attempt(
    module: str, code: str, tests: Sequence[str], seconds: float, profile: str, root: Path = ROOT
) -> Ended:
    """Run some tests, which take `seconds`, with `code` for the module at a path from the root.

    Of a profile other than `fast` those that are no properties are left out: they ran in that.
    """

    def run(say: Callable[[str], None]) -> int:
        sys.meta_path.insert(0, _Replacing(module, code, root))
        chosen = _Chosen(tests, profile != "fast", say)
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        return int(pytest.main([*ARGUMENTS, *_profile(profile), *files], plugins=[chosen]))

    cpu_s = STARTING_S + FACTOR * seconds
    return fork(run, cpu_s, cpu_s * WAITING, root)


def fork(
    run: Callable[[Callable[[str], None]], int], cpu_s: float, wall_s: float, root: Path
) -> Ended:
    """Call `run` in a fork, within bounds of CPU and time; what it says comes back whole."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            gc.freeze()  # pytest collects garbage at its end: not the parent's, which may be large
            os.setsid()
            os.close(reading)
            os.chdir(root)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            (root / SESSIONS).mkdir(exist_ok=True)
            output = os.open(root / SESSIONS / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            limit = int(time.process_time() + cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            with os.fdopen(writing, "w") as out:
                status = run(lambda text: print(text, file=out, flush=True))
        finally:
            os._exit(status)
    os.close(writing)
    try:
        return _ended(pid, reading, time.monotonic() + wall_s)
    finally:
        os.close(reading)


def _ended(pid: int, reading: int, deadline: float) -> Ended:
    """Read all that a fork says until it ends; kill it, and all that it started, at a deadline."""
    said = b""
    poll = select.poll()
    ending = os.pidfd_open(pid)
    poll.register(reading, select.POLLIN)
    poll.register(ending, select.POLLIN)
    try:
        over = False
        while not over:
            ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if reading in ready:
                read = os.read(reading, 1 << 16)
                said += read
                if not read:
                    poll.unregister(reading)
                continue  # all that was said, before the end is looked at
            over = True
    finally:
        os.close(ending)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), said.decode(errors="replace").strip())


class _Chosen:
    """A plugin of pytest that runs the tests asked for, in their order, and names what fails."""

    def __init__(
        self, tests: Sequence[str], only_properties: bool, say: Callable[[str], None]
    ) -> None:
        self._order = {test: place for place, test in enumerate(tests)}
        self._only_properties = only_properties
        self._say = say

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Fail at the first example: to find the shortest takes longer than a run may."""
        settings.register_profile("mutant", settings(), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutant")

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Take out the rest."""
        chosen = [
            item
            for item in items
            if item.nodeid in self._order
            and (not self._only_properties or item.get_closest_marker("hypothesis"))
        ]
        config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name the test that noticed."""
        if report.failed:
            self._say(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Name the file that cannot be imported."""
        if report.failed:
            self._say(f"importing {report.nodeid}")


class _Replacing(MetaPathFinder):
    """Finds one module of the product, with other code than its file has."""

    def __init__(self, module: str, code: str, root: Path) -> None:
        parts = Path(module).with_suffix("").parts
        self._is_package = parts[-1] == "__init__"
        self._name = ".".join(parts[:-1] if self._is_package else parts)
        self._file = root / module
        self._code = code

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the mutant's spec for its name, None for any other."""
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._file))
        loader.code = self._code
        folders = [str(self._file.parent)] if self._is_package else None
        return spec_from_file_location(
            fullname, self._file, loader=loader, submodule_search_locations=folders
        )


class _Loader(SourceFileLoader):
    """Loads a module from `code`; nothing is cached on disk."""

    code: str

    def get_code(self, fullname: str) -> CodeType:
        """Compile the mutant."""
        compiled: CodeType = compile(self.code, self.path, "exec", dont_inherit=True)
        return compiled


def _profile(name: str) -> tuple[str, str]:
    return "--hypothesis-profile", name


def _packages() -> list[str]:
    """Return the modules of other people's packages that this process has imported."""
    return [
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in PRODUCT and _is_installed(module)
    ]


def _is_installed(module: Any) -> bool:
    spec = getattr(module, "__spec__", None)
    return isinstance(spec, ModuleSpec) and "site-packages" in str(spec.origin)
