"""The Faust app of one agent group: raw bytes in, state elsewhere.

No Faust tables, no exactly_once, no acks, concurrency 1: what Faust promises of these does not
hold after a crash. `progress` commits; a group is its own consumer group, partitions are the unit
of scale.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

import faust

from infra.kafka.client import expect_plain_login
from infra.settings import Settings

BUFFERED_MESSAGES: Final = 512


def create_app(settings: Settings, group: str) -> faust.App:
    """Return the app of a group, `soltape-<group>`; topics exist already."""
    data = settings.soltape_data / "faust"
    data.mkdir(parents=True, exist_ok=True)
    return faust.App(
        f"soltape-{group}",
        broker=[f"kafka://{server}" for server in settings.kafka_bootstrap.split(",")],
        broker_credentials=_credentials(settings),
        broker_session_timeout=settings.kafka_session_timeout_s,
        broker_heartbeat_interval=settings.kafka_session_timeout_s / 3,
        broker_request_timeout=max(30.0, settings.kafka_session_timeout_s * 3),
        consumer_auto_offset_reset="earliest",
        # A group assigned while its client had lost the topics owns nothing until it looks again.
        consumer_metadata_max_age_ms=2_000,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        datadir=str(data / group),
        topic_allow_declare=False,
        topic_disable_leader=True,
        stream_wait_empty=False,
        # Messages before an agent, a busy slot being 100 kB; 4096 by default.
        stream_buffer_maxsize=BUFFERED_MESSAGES,
        web_enabled=False,
    )


def _credentials(settings: Settings) -> Any:
    context = None
    if settings.kafka_security in ("ssl", "sasl_ssl"):
        context = ssl.create_default_context(
            cafile=str(settings.kafka_ca_file) if settings.kafka_ca_file else None
        )
    if settings.kafka_security.startswith("sasl"):
        assert settings.kafka_password is not None
        expect_plain_login(settings)
        return faust.SASLCredentials(
            username=settings.kafka_username,
            password=settings.kafka_password.get_secret_value(),
            mechanism=settings.kafka_sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context else None
