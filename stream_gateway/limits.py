"""What one client may take of the gateway: time, memory, attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a process and of each of its connections."""

    connections: int = 2_000
    connections_of_key: int = 1_000
    reserved: Mapping[str, int] = field(default_factory=dict)  # by id of a key or user
    lingering: int = 256  # that are closed, and whose clients have not closed yet
    handshakes: int = 1_000  # that are not answered yet
    handshakes_of_address: int = 256
    handshake_s: float = 5.0  # for the head of a request to come
    head_bytes: int = 16 * 1024
    head_fields: int = 100
    message_bytes: int = 64 * 1024  # of a client's message, all its fragments together
    frames_a_second: float = 20.0  # of a client, in the long run
    frames_at_once: float = 100.0
    queue_bytes: int = 4 * 1024 * 1024  # above it events are dropped
    queues_bytes: int = 512 * 1024 * 1024  # of all; above it the slowest are closed
    slow_s: float = 10.0  # that a queue may be full for
    lags_a_minute: int = 3  # times that it may have been full
    ping_s: float = 20.0  # of silence, then a ping
    idle_s: float = 60.0  # of silence, then the end
    linger_s: float = 2.0  # for a client to close after we have

    @staticmethod
    def of(settings: Settings) -> Limits:
        """Return the limits that the settings ask for; raises SettingsError."""
        if settings.gateway_idle_s <= settings.gateway_ping_s:
            raise SettingsError(
                f"GATEWAY_IDLE_S={settings.gateway_idle_s:g} must be more than "
                f"GATEWAY_PING_S={settings.gateway_ping_s:g}: a pong comes no sooner than that"
            )
        reserved = _reserved(settings.gateway_reserved)
        if sum(reserved.values()) > settings.gateway_max_connections:
            raise SettingsError(
                f"GATEWAY_RESERVED keeps {sum(reserved.values())} connections, more than "
                f"GATEWAY_MAX_CONNECTIONS={settings.gateway_max_connections}"
            )
        return Limits(
            connections=settings.gateway_max_connections,
            connections_of_key=settings.gateway_max_connections_per_key,
            reserved=reserved,
            queue_bytes=settings.gateway_queue_kib * 1024,
            queues_bytes=settings.gateway_queues_mib * 1024 * 1024,
            slow_s=settings.gateway_slow_s,
            ping_s=settings.gateway_ping_s,
            idle_s=settings.gateway_idle_s,
        )


def _reserved(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key_id, _, number = part.partition(":")
        if not (key_id and number.isdecimal() and int(number)):
            raise SettingsError(
                f"GATEWAY_RESERVED has {part!r}: it is `<id of a key or user>:<connections>`, "
                "several with commas (`soltape keys list` and `soltape users list` have the ids)"
            )
        found[key_id] = int(number)
    return found
