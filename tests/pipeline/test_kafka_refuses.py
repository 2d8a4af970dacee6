"""Roles and `soltape tail` where Kafka refuses them a right, or does not answer, as they start."""

import os
import subprocess
import sys

import pytest

from infra.local.process import free_port
from tests.support.systems import bound

pytestmark = pytest.mark.processes

SCRIPT = """
from aiokafka.errors import TopicAuthorizationFailedError
from infra.cli import main
from infra.kafka import topics

async def refused(*_):
    raise {error}

topics.create = topics.end_offsets = refused
main()
"""


@pytest.mark.parametrize("error", ["TopicAuthorizationFailedError('here')", "TimeoutError('here')"])
@pytest.mark.parametrize(
    "command",
    [["agents", "store"], ["ingest"], ["ingest", "accounts"], ["tail", "tape-live"]],
    ids=" ".join,
)
def test_it_is_a_line_and_no_traceback(command, error, tmp_path):
    ports = ("METRICS_PORT_BOOKS", "METRICS_PORT_INGEST", "METRICS_PORT_INGEST_ACCOUNTS")
    answer = subprocess.run(
        bound([sys.executable, "-c", SCRIPT.format(error=error), *command]),
        env=os.environ | {name: str(free_port()) for name in ports},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert answer.returncode == 1
    assert "here" in answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
