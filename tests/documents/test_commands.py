"""Every command in every document exists, with its subcommands, options and values.

Those that end at once are run. Those that need a running Soltape are run by
tests/integration/test_up.py; those that need mainnet, Docker or a registry are parsed.
"""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import yaml
from click.testing import CliRunner

from api.app import create_app
from infra.cli import cli
from infra.settings import Settings
from tests.support import documents
from tests.support.documents import DOCUMENTS, ROOT, Command

COMMANDS = list(dict.fromkeys(each for path in DOCUMENTS for each in documents.commands(path)))
MENTIONED = list(dict.fromkeys(each for path in DOCUMENTS for each in documents.mentioned(path)))
BLOCKS = [block for path in DOCUMENTS for block in documents.blocks(path)]
# Programs of others, whose arguments are checked elsewhere or not ours.
FOREIGN = {
    *(".", "claude", "java", "javac", "mv", "mvn", "node", "npm", "pip", "protoc", "python"),
    *("sed", "set", "source"),
}
HERE = {("soltape", "query"), ("soltape", "mcp", "config"), ("soltape", "--help")}
"""They end at once and need nothing that runs."""


def test_all_documents_are_read() -> None:
    assert len(DOCUMENTS) > 20
    assert len(COMMANDS) > 50


def test_a_block_says_what_it_is() -> None:
    """Only frames of the WebSocket protocol have no language; their tests run them."""
    for block in BLOCKS:
        if not block.language:
            assert all(line.startswith(("> ", "< ")) for line in block.text.splitlines()), block


@pytest.mark.parametrize("path", DOCUMENTS, ids=documents.name)
def test_blocks_are_shell(path: Path) -> None:
    lines = [re.sub(r"<(\w[\w ]*)>", r"\1", line) for line in documents.lines(path)]
    done = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_command(command: Command) -> None:
    program = command.words[0]
    if program == "soltape":
        check(command.words[1:], whole=True)
    elif program == "make":
        make(command.words[1:])
    elif program == "docker":
        compose(command.words[1:])
    elif program == "curl":
        curl(command.words[1:])
    else:
        assert program in FOREIGN, f"say here how `{program}` is checked"


@pytest.mark.parametrize("command", MENTIONED, ids=str)
def test_mentioned_command(command: Command) -> None:
    if command.words[0] == "make":
        make(command.words[1:])
    else:
        check(command.words[1:], whole=False)


@pytest.mark.parametrize("words", sorted(HERE), ids=" ".join)
def test_command_that_needs_nothing(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words in {each.words for each in (*COMMANDS, *MENTIONED)}
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, words[1:])
    assert done.exit_code == 0, done.output
    assert done.output


def check(words: tuple[str, ...], *, whole: bool) -> None:
    """Hold the arguments of `soltape` to its own parsers; `whole`: with all that is required."""
    command: click.Command = cli
    context = click.Context(cli, info_name="soltape")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            assert command.invoke_without_command or command.params, f"no command {rest[0]!r}"
            break
        command = found
        context = click.Context(command, parent=context, info_name=rest.pop(0))
    if rest in (["--help"], ["-h"]):
        return
    given, left, _ = command.make_parser(context).parse_args(rest)
    assert not left, f"too many arguments: {left}"
    for parameter in command.get_params(context):
        value = given.get(parameter.name or "")
        is_file = isinstance(parameter.type, click.Path | click.File)
        is_readers = isinstance(value, str) and re.search(r"<|^[A-Z]+$", value)
        if isinstance(value, str) and not is_file and not is_readers:
            parameter.type.convert(value, parameter, context)
        if whole and parameter.required:
            assert value not in (None, ()), f"without {parameter.human_readable_name}"


def make(words: tuple[str, ...]) -> None:
    """Hold targets and variables to the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    targets = {*re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)}
    for word in words:
        variable, is_set, _ = word.partition("=")
        assert f"$({variable})" in makefile if is_set else word in targets, word


def compose(words: tuple[str, ...]) -> None:
    """Hold what is run in a service to the service, and to the command that it begins with."""
    files = [words[at + 1] for at, word in enumerate(words) if word == "-f"]
    services = {}
    for file in files:
        services |= yaml.safe_load((ROOT / file).read_text())["services"]
    assert words[0] == "compose"
    if "run" in words:
        options_end = words.index("--rm") + 1 + ("-T" in words)
        service, *arguments = words[options_end:]
        inner = [*services[service].get("entrypoint", ["soltape"])[1:], *arguments]
        check(tuple(each for each in inner if each != "..."), whole="..." not in inner)
    elif verb := {"exec", "start", "stop"} & {*words}:
        assert words[words.index(verb.pop()) + 1] in services
    else:
        assert "up" in words


def curl(words: tuple[str, ...]) -> None:
    """Hold an address to what serves there."""
    [address] = [urlsplit(word) for word in words if word.startswith("http")]
    if address.port == 8123:  # ClickHouse
        return
    assert any(re.fullmatch(each, address.path) for each in served()), address.path


@cache
def served() -> list[str]:
    """Return the paths of the API, as patterns."""
    routes = create_app(Settings(_env_file=None)).routes
    return [re.sub(r"\{\w+\}", r"[^/]+", getattr(route, "path", "")) for route in routes]


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.language == "python"],
    ids=lambda block: documents.name(block.document),
)
def test_python_compiles_and_imports_what_there_is(block: documents.Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "tape_pb2":
            assert find_spec(node.module), node.module
        if isinstance(node, ast.Import):
            assert all(find_spec(each.name) for each in node.names)
