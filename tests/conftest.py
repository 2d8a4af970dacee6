"""What all tests share."""

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

pytest.register_assert_rewrite("tests.support")

from tests.support.exploring import register_profiles  # noqa: E402 - rewritten first

register_profiles()

ONE_AT_A_TIME = ("tests/integration/dashboard/", "tests/integration/test_up.py")
"""Files that run one after the other: each starts the whole product, most a browser too."""

ONE_CHAIN = ("tests/integration/chaos/test_books.py", "tests/integration/chaos/test_oracle.py")
"""Files of one process, which then generates and decodes each of their chains once."""

ON_APACHE = re.compile(r"[\[-]apache[\]-]")
"""Tests of the `broker` that is Apache Kafka run one after the other, for it starts in 6 s of CPU:
in files of its own each would start it. `soltape chaos` starts its own.
"""

FIRST = (
    *(ONE_AT_A_TIME[0], "apache", "tests/integration/chaos/", "tests/integration/ingest/"),
    *("tests/integration/agents/", "tests/integration/partitions/", "tests/integration/kafka/"),
    *("tests/integration/api/", "tests/integration/"),
)
"""What takes longest comes first, room by room, so that at the end no process waits for another."""


class Scheduling(LoadFileScheduling):
    """Gives a file to one test process, and what is to run one after the other to one."""

    # private `_split_scope`: xdist's documented way to schedule by scope.
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_AT_A_TIME):
            return ONE_AT_A_TIME[0]
        if nodeid.startswith(ONE_CHAIN):
            return ONE_CHAIN[0]
        if ON_APACHE.search(nodeid) and not nodeid.startswith("tests/integration/chaos/"):
            return "apache"
        scope: str = super()._split_scope(nodeid)
        return scope

    # private `_assign_work_unit`: xdist knows one order, by the number of tests.
    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=place_of), last=False)
        super()._assign_work_unit(node)


def place_of(scope: str) -> int:
    """Return when a scope's turn is; among those with one turn xdist's order is kept."""
    return next((at for at, room in enumerate(FIRST) if scope.startswith(room)), len(FIRST))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule by file what is asked to be; None: as xdist does."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
