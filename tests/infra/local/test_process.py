"""Ports that are found free: each once, and none that an outgoing connection could take."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local import process
from infra.local.process import free_port

SOME = "from infra.local.process import free_port; print(*(free_port() for _ in range(40)))"


def test_processes_find_different_ports():
    children = [
        subprocess.Popen([sys.executable, "-c", SOME], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found = [int(port) for child in children for port in child.communicate(timeout=240)[0].split()]
    assert len(found) == 120
    # Where two ask at the same moment one of them draws a port.
    assert len(set(found)) >= 115


def test_no_outgoing_connection_takes_one():
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not ephemeral.exists():
        pytest.skip("this system does not say which ports it gives to outgoing connections")
    assert free_port() < int(ephemeral.read_text().split()[0])


def test_a_port_in_use_is_passed_over():
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))
        taken = server.getsockname()[1]
        known = range(taken, taken + 2)
        process_ports = iter([taken, taken, known[1]])
        with pytest.MonkeyPatch.context() as patch:
            # private `_next_port`: makes the ports that are tried known.
            patch.setattr(process, "_next_port", lambda: next(process_ports))
            assert free_port() == known[1]


@pytest.mark.parametrize("file", ["missing/folder", "a file"])
def test_ports_are_found_without_the_file_of_the_last_one(monkeypatch, tmp_path, file):
    (tmp_path / "a file").write_text("")
    monkeypatch.setattr(process, "gettempdir", lambda: str(tmp_path / file))
    assert len({free_port() for _ in range(20)}) > 10
