"""Log lines and metrics as another process sees them."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from infra.local.process import PortInUse, free_port
from infra.settings import Settings
from infra.telemetry import hide_secrets, host_of, serve_metrics

LOG_SOME = """
import logging, structlog
from infra.settings import Settings
from infra.telemetry import configure_logging
configure_logging(Settings(log_format="json", log_level="info"), "ingest")
log = structlog.get_logger("pipeline.ingest")
log.info("connected", endpoint="https://me:hunter2@host/?api-key=k3y", x_token="t0ken", slot=7)
log.debug("detail")
logging.getLogger("aiokafka").info("chatter")
logging.getLogger("aiokafka").warning("broker is away, token=t0ken2")
logging.getLogger("aiokafka").warning("request SaslAuthenticate(auth_bytes=b'me\\0me\\0a pass')")
"""


def test_lines_are_json_on_stderr_without_secrets_and_without_chatter():
    done = subprocess.run(
        [sys.executable, "-c", LOG_SOME], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
    for secret in ("hunter2", "k3y", "t0ken", "pass"):
        assert secret not in done.stderr
    first, second, _ = (json.loads(line) for line in done.stderr.splitlines())
    assert (first["event"], first["slot"], first["role"]) == ("connected", 7, "ingest")
    assert second["event"].startswith("broker is away")
    assert second["level"] == "warning"


@pytest.mark.parametrize(
    "key", ["x_token", "X-Token", "geyser_x_token", "kafka_password", "api_key", "token"]
)
def test_secret_keys_are_hidden(key):
    assert hide_secrets(None, "info", {key: "s3cret"}) == {key: "(hidden)"}


@pytest.mark.parametrize("key", ["token_program", "tokens", "mint", "event"])
def test_words_of_the_field_are_not_taken_for_secrets(key):
    assert hide_secrets(None, "info", {key: "So11"}) == {key: "So11"}


def test_host_of_keeps_neither_credentials_nor_path():
    assert host_of("https://user:pass@rpc.example.com:443/k3y?api-key=k") == (
        "https://rpc.example.com:443"
    )
    assert host_of("localhost:9092") == "localhost:9092"


def test_metrics_are_served_and_a_taken_port_names_its_setting():
    settings = Settings(metrics_port_ingest=free_port())
    serve_metrics(settings, "ingest")
    url = f"http://127.0.0.1:{settings.metrics_port_ingest}/metrics"
    with urlopen(url, timeout=60) as answer:
        assert b"process_resident_memory_bytes" in answer.read()
    with pytest.raises(HTTPError, match="421"):
        urlopen(Request(url, headers={"Host": "evil.example"}), timeout=60)
    with pytest.raises(PortInUse, match=rf"{settings.metrics_port_ingest}.*METRICS_PORT_INGEST"):
        serve_metrics(settings, "ingest")


def test_ready_says_what_is_lacking_and_metrics_stay_where_they_are():
    settings = Settings(metrics_port_agents=free_port())
    lacking = {"pnl": "900 batches behind"}
    serve_metrics(settings, "agents", lambda: lacking)
    address = f"http://127.0.0.1:{settings.metrics_port_agents}"
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{address}/ready", timeout=60)
    assert refused.value.code == 503
    assert json.loads(refused.value.read()) == {"ready": False, "lacking": lacking}
    lacking.clear()
    with urlopen(f"{address}/ready", timeout=60) as answer:
        assert json.loads(answer.read()) == {"ready": True, "lacking": {}}
    with urlopen(f"{address}/metrics", timeout=60) as answer:
        assert b"process_resident_memory_bytes" in answer.read()


def test_the_first_answer_already_says_what_is_lacking():
    def first_answer(port):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with urlopen(f"http://127.0.0.1:{port}/ready", timeout=60) as answer:
                    return answer.status
            except HTTPError as answer:
                return answer.code
            except URLError:
                continue  # nothing is there yet
        return None

    with ThreadPoolExecutor(1) as asking:
        for _ in range(40):
            settings = Settings(metrics_port_agents=free_port())
            answered = asking.submit(first_answer, settings.metrics_port_agents)
            serve_metrics(settings, "agents", lambda: {"agents": "they are starting"})
            assert answered.result() == 503
