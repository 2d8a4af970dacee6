"""What a machine lacks for Apache Kafka is said before anything is started."""

import stat
from pathlib import Path

import pytest

from infra.kafka import apache
from infra.local.process import free_port
from infra.settings import Settings


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


def install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def describe(tmp_path: Path) -> None:
    apache.process(
        Settings(_env_file=None, soltape_data=tmp_path, kafka_bootstrap=f"127.0.0.1:{free_port()}")
    )


def test_no_java(machine, tmp_path):
    with pytest.raises(apache.ApacheUnavailable, match="needs Java 17: no `java` on PATH"):
        describe(tmp_path)


def test_java_home_that_has_none(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(apache.ApacheUnavailable, match="no `java` in JAVA_HOME=/nowhere"):
        describe(tmp_path)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_java_too_old(machine, tmp_path, version):
    install(machine, "java", f"""echo 'openjdk version "{version}" 2023-10-17' >&2""")
    with pytest.raises(apache.ApacheUnavailable, match=f'says openjdk version "{version}"'):
        describe(tmp_path)


def test_no_maven(machine, tmp_path):
    install(machine, "java", """echo 'openjdk version "17.0.15" 2025-04-15' >&2""")
    with pytest.raises(apache.ApacheUnavailable, match="no `mvn` on PATH"):
        describe(tmp_path)


def test_maven_that_cannot_fetch_says_why_and_leaves_nothing(machine, tmp_path):
    install(machine, "java", """echo 'openjdk version "21" 2023-09-19' >&2""")
    install(machine, "mvn", "echo '[ERROR] repository cannot be reached'; exit 1")
    with pytest.raises(apache.ApacheUnavailable, match="repository cannot be reached"):
        describe(tmp_path)
    assert list((tmp_path / "apache-kafka").iterdir()) == []
