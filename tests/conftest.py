"""What all tests share."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

pytest.register_assert_rewrite("tests.support")

from tests.support.exploring import register_profiles  # noqa: E402 - rewritten first

register_profiles()

ONE_AT_A_TIME = ("tests/integration/dashboard/", "tests/integration/test_up.py")
"""Files that run one after the other: each starts the whole product, most a browser too."""


class Scheduling(LoadFileScheduling):
    """Gives a file to one test process, and all of `ONE_AT_A_TIME` to one."""

    # private `_split_scope`: xdist's documented way to schedule by scope.
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_AT_A_TIME):
            return ONE_AT_A_TIME[0]
        scope: str = super()._split_scope(nodeid)
        return scope


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule by file what is asked to be; None: as xdist does."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
