"""What a subscriber connects with, as a properties file of Kafka's clients.

Java's clients take it as it is; librdkafka takes `sasl.username`, `sasl.password` and `ssl.ca.pem`
of it. Line ends of the certificate are `\\n` in it, as in any properties file.
"""

from __future__ import annotations

from pathlib import Path

from api.subscribers.issuing import Credentials
from infra.settings import Settings, SettingsError

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def text(settings: Settings, credentials: Credentials) -> str:
    """Return the file's text; raises SettingsError where the certificate cannot be read."""
    user, password = credentials.user.user, credentials.password
    values = {
        "bootstrap.servers": settings.kafka_public_bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "sasl.jaas.config": f'{_MODULE} required username="{user}" password="{password}";',
        "group.id": f"{credentials.user.group_prefix}main",
    }
    if settings.kafka_public_ca_file:
        pem = _read(settings.kafka_public_ca_file).strip().replace("\n", "\\n")
        values |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": pem,
            "ssl.ca.pem": pem,
        }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _read(file: Path) -> str:
    try:
        found = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"KAFKA_PUBLIC_CA_FILE={file}: {error}") from None
    if "PRIVATE KEY" in found:
        raise SettingsError(f"KAFKA_PUBLIC_CA_FILE={file}: it holds a private key")
    return "\n".join(line.strip() for line in found.splitlines())
