"""The programs of infra/kafka/SUBSCRIBERS.md, each in a folder of its own, ready to run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import infra.kafka
from schemas import proto
from tests.support import npm

TEXT = (Path(infra.kafka.__file__).parent / "SUBSCRIBERS.md").read_text()
TAPE = Path(proto.__file__).parent / "tape.proto"
INSTALL_S = 500


def block(language: str) -> str:
    """Return the one block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return str(found)


def python(folder: Path) -> list[str]:
    """Return the command of the Python program."""
    (folder / "swaps.py").write_text(block("python"))
    shutil.copy(TAPE, folder)
    _run(folder, sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "tape.proto")
    return [sys.executable, "swaps.py"]


def node(folder: Path, request: pytest.FixtureRequest) -> list[str]:
    """Return the command of the Node.js program; skips without npm."""
    [line] = re.findall(r"^npm install (.*)$", TEXT, re.MULTILINE)
    wanted = dict(each.split("@") for each in line.split())
    source = folder / "package"
    source.mkdir()
    (source / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
    installed = npm.installed(request, "kafka-subscriber", source, "kafkajs")
    (folder / "node_modules").symlink_to(installed / "node_modules")
    (folder / "swaps.mjs").write_text(block("javascript"))
    shutil.copy(TAPE, folder)
    return ["node", "swaps.mjs"]


def java(folder: Path) -> list[str]:
    """Return the command of the Java program; skips without a compiler."""
    for program in ("mvn", "javac"):
        if shutil.which(program) is None:
            npm.missing(f"{program} is not installed")
    (folder / "pom.xml").write_text(block("xml"))
    (folder / "Swaps.java").write_text(block("java"))
    shutil.copy(TAPE, folder)
    protoc = shutil.which("protoc", path=str(Path(sys.executable).parent)) or "protoc"
    _run(folder, protoc, "--java_out=.", "tape.proto")
    [fetch] = re.findall(r"^mvn .*$", TEXT, re.MULTILINE)
    _run(folder, *fetch.split(), "-B")
    _run(folder, "javac", "-cp", "jars/*", "Swaps.java", "soltape/Tape.java")
    return ["java", "-Xmx128m", "-cp", "jars/*:.", "Swaps"]


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stdout + done.stderr
