"""Who may do what at the local Apache Kafka: listeners, users, authorizer, certificate.

Rights are ACLs, and what none allows is refused. Roles log in on the loopback listener of
KAFKA_BOOTSTRAP by PLAIN; the broker has a user of its own for its controller. Subscribers have a
listener of their own at KAFKA_PUBLIC_BOOTSTRAP: TLS, SCRAM alone, and a new proof of the password
every `REAUTH_MS`, so that no connection outlives its credentials by more.
"""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Final

from infra.kafka.local import login, loopback_address
from infra.settings import Settings, SettingsError

REAUTH_MS: Final = 20_000
IDLE_MS: Final = 60_000
"""After which a request that was announced and does not come gives its memory back."""
BROKER_USER: Final = "soltape-broker"
CA_FILE: Final = "subscribers-ca.pem"
_KEYSTORE: Final = "subscribers.p12"
_KEYSTORE_PASSWORD: Final = "soltape-loopback"  # noqa: S105 - the file's mode keeps it
_CERTIFICATE_DAYS: Final = 3650

_AUTHORIZER: Final = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users={super_users}
"""
_LOGIN: Final = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.broker.plain.sasl.jaas.config={module}
listener.name.controller.plain.sasl.jaas.config={module}
"""
_PLAIN_MODULE: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{name}" password="{password}" {users};'
)
_SUBSCRIBERS: Final = """\
listener.name.subscribers.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.subscribers.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.subscribers.connections.max.reauth.ms={reauth_ms}
connections.max.idle.ms={idle_ms}
listener.name.subscribers.max.connections=1000
listener.name.subscribers.max.connection.creation.rate=50
listener.name.subscribers.ssl.keystore.type=PKCS12
listener.name.subscribers.ssl.keystore.location={folder}/{keystore}
listener.name.subscribers.ssl.keystore.password={password}
listener.name.subscribers.ssl.key.password={password}
"""


def listeners(settings: Settings, controller_port: int) -> str:
    """Return the lines about listeners; raises SettingsError."""
    internal = settings.kafka_security.upper()
    places = {"BROKER": settings.kafka_bootstrap}
    protocols = {"BROKER": internal, "CONTROLLER": internal}
    if settings.kafka_public_bootstrap:
        host, port = loopback_address("KAFKA_PUBLIC_BOOTSTRAP", settings.kafka_public_bootstrap)
        places["SUBSCRIBERS"] = f"{host}:{port}"
        protocols["SUBSCRIBERS"] = "SASL_SSL"
    advertised = ",".join(f"{name}://{place}" for name, place in places.items())
    mapped = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    return (
        f"listeners={advertised},CONTROLLER://127.0.0.1:{controller_port}\n"
        f"advertised.listeners={advertised}\n"
        f"listener.security.protocol.map={mapped}\n"
    )


def access(settings: Settings, folder: Path) -> str:
    """Return the lines about users and rights; raises SettingsError.

    KAFKA_ADMIN_USERNAME may do everything, without it KAFKA_USERNAME; with plaintext, everybody on
    this machine.
    """
    user = login(settings)
    if user is None:
        return _AUTHORIZER.format(super_users="User:ANONYMOUS") + _subscribers(settings, folder)
    users = dict([user])
    admin = user[0]
    if settings.kafka_admin_username and settings.kafka_admin_password:
        admin = settings.kafka_admin_username
        users[admin] = settings.kafka_admin_password.get_secret_value()
    own = secrets.token_hex(24)
    users[BROKER_USER] = own
    if {'"', "\\"} & {*"".join([*users, *users.values()])}:
        raise SettingsError(
            'KAFKA_USERNAME, KAFKA_PASSWORD and those of KAFKA_ADMIN_: no " and no backslash'
        )
    logins = " ".join(f'user_{name}="{word}"' for name, word in users.items())
    module = _PLAIN_MODULE.format(name=BROKER_USER, password=own, users=logins)
    return (
        _LOGIN.format(module=module)
        + _AUTHORIZER.format(super_users=f"User:{BROKER_USER};User:{admin}")
        + _subscribers(settings, folder)
    )


def _subscribers(settings: Settings, folder: Path) -> str:
    if not settings.kafka_public_bootstrap:
        return ""
    return _SUBSCRIBERS.format(
        reauth_ms=REAUTH_MS,
        idle_ms=IDLE_MS,
        folder=folder,
        keystore=_KEYSTORE,
        password=_KEYSTORE_PASSWORD,
    )


def certify(java: str, folder: Path) -> Path:
    """Make the certificate of the subscribers' listener unless it is there; return its PEM file.

    Java's `keytool` signs it by itself: clients trust the PEM file. Raises SettingsError.
    """
    keystore, pem = folder / _KEYSTORE, folder / CA_FILE
    if pem.exists():
        return pem
    keystore.unlink(missing_ok=True)
    keytool = str(Path(java).with_name("keytool")) if "/" in java else "keytool"
    store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-alias", "subscribers"]
    store += ["-storepass", _KEYSTORE_PASSWORD]
    pair = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost"]
    pair += ["-validity", str(_CERTIFICATE_DAYS), "-ext", "SAN=dns:localhost,ip:127.0.0.1"]
    beside = folder / f"{CA_FILE}.new"
    for step in (pair, ["-exportcert", "-rfc", "-file", str(beside)]):
        run = subprocess.run(
            [keytool, *step, *store], capture_output=True, text=True, timeout=120, umask=0o077
        )
        if run.returncode:
            raise SettingsError(f"keytool could not make a certificate: {run.stdout.strip()}")
    beside.replace(pem)
    return pem
