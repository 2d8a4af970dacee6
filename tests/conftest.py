"""What all tests share: the order in which a run takes them, and on which broker."""

import gc
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from shutil import which
from zlib import crc32

import httpx
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

pytest.register_assert_rewrite("tests.support")

from tests.support import huge_pages  # noqa: E402 - rewritten first
from tests.support.exploring import register_profiles  # noqa: E402 - rewritten first
from tests.support.temporary import prefer_memory  # noqa: E402 - rewritten first

register_profiles()

# Collecting makes a million objects that stay: to look for garbage meanwhile takes as long again.
gc.disable()

# To move its memory costs a role half a second of CPU, which it does not live to save here.
huge_pages.allow(False)

prefer_memory()

# Half the CPU of a Java program that lives for a minute is its second compiler's.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# Every `httpx.get` makes a client, and each client reads all certificates there are, for 30 ms of
# CPU: a tenth of a test process.
# private `_transports`: httpx has no other way to share a context.
_transport = httpx._transports.default
_transport.create_ssl_context = cache(_transport.create_ssl_context)  # type: ignore[attr-defined]

# An answer that takes longer than five seconds on a loaded machine is as right as any.
# private `_config`: httpx has no other way to change its default.
for _kind in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _kind, 240.0)

ONE_AT_A_TIME = tuple(
    f"tests/integration/{each}" for each in ("chaos/", "dashboard/", "test_up.py")
)
"""Files that run one after the other: each starts the whole product, some a browser too."""

ON_APACHE = re.compile(r"[\[-]apache[\]-]")
"""Tests of the `broker` that is Apache Kafka run one after the other, for it starts in 6 s of CPU:
in files of its own each would start it. `soltape chaos` starts its own.
"""

FIRST = (
    *(ONE_AT_A_TIME[0], "apache", "tests/integration/ingest/", "tests/integration/agents/"),
    *("tests/integration/partitions/", "tests/integration/kafka/"),
    *("tests/integration/api/", "tests/integration/"),
)
"""What takes longest comes first, room by room, so that at the end no process waits for another."""

BOTH_BROKERS = ("tests/integration/kafka/", "tests/integration/chaos/")
"""Tests of the brokers themselves, and of everything together: on each broker in every run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what chooses the brokers."""
    parser.addoption(
        "--brokers",
        choices=("one", "both"),
        default="one",
        help="a test that runs on either broker: on one, drawn by its name, or on both",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave each test on one broker of those it could run on; what kills, on that of production.

    Where Apache Kafka cannot run, which CI does not allow, all are on the embedded one.
    """
    if config.getoption("brokers") == "both":
        return
    has_apache = os.environ.get("CI") == "true" or bool(which("java") and which("mvn"))
    variants: defaultdict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        spec = getattr(item, "callspec", None)
        broker = spec.params.get("broker") if spec else None
        if broker and not item.nodeid.startswith(BOTH_BROKERS):
            variants[item.nodeid.replace(broker, "")][broker] = item
    left_out = set()
    for name, by_broker in variants.items():
        if len(by_broker) > 1:
            drawn = sorted(by_broker)[crc32(name.encode()) % len(by_broker)]
            chosen = "apache" if "kill" in name else drawn
            left_out |= {*by_broker.values()} - {by_broker[chosen if has_apache else "embedded"]}
    if left_out:
        config.hook.pytest_deselected(items=[each for each in items if each in left_out])
        items[:] = [each for each in items if each not in left_out]


def pytest_collection_finish() -> None:
    """Collect garbage again, leaving out what was there before the first test."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End Apache Kafka after the last test on it: idle it takes a tenth of a core."""
    yield
    if ON_APACHE.search(item.nodeid) and not (nextitem and ON_APACHE.search(nextitem.nodeid)):
        assert isinstance(item, pytest.Function)
        # private `_fixtureinfo`, `_request`: the only way to end a fixture before its scope does.
        for fixture in item._fixtureinfo.name2fixturedefs.get("broker", ()):
            fixture.finish(item._request)


class Scheduling(LoadFileScheduling):
    """Gives a file to one test process, and what is to run one after the other to one."""

    # private `_split_scope`: xdist's documented way to schedule by scope.
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_AT_A_TIME):
            return ONE_AT_A_TIME[0]
        if ON_APACHE.search(nodeid):
            return "apache"
        scope: str = super()._split_scope(nodeid)
        return scope

    # private `_assign_work_unit`: xdist knows one order, by the number of tests.
    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=place_of), last=False)
        super()._assign_work_unit(node)


def place_of(scope: str) -> tuple[int, str]:
    """Return when a scope's turn is; among files of a folder xdist's order is kept.

    Folder by folder, since what its tests share lives until a test of another one begins.
    """
    place = next((at for at, room in enumerate(FIRST) if scope.startswith(room)), len(FIRST))
    return place, scope.partition("::")[0].rpartition("/")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule by file what is asked to be; None: as xdist does."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
