"""The `soltape` command: one entry for every role and tool.

Commands are found through the entry points `soltape.commands` and `soltape.benches` in
pyproject.toml, so that packages above `infra` can offer commands without `infra` knowing them.
"""

from __future__ import annotations

import ast
import gc
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import click

from infra import memory
from infra.interrupt import end_as_by_ctrl_c
from infra.local import extra
from infra.local.process import PortInUse
from infra.settings import SettingsError

# MiB of small objects that each role has at work; more than half of them are made by imports.
_AT_WORK = {"agents": 64, "api": 128, "chain": 48, "gateway": 48, "ingest": 48, "watch": 64}


class EntryPointGroup(click.Group):
    """A click group whose commands are loaded from an entry point group when they are named.

    The list of commands is read from their source files: importing all of them takes a second.
    """

    def __init__(self, group: str, **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self._group = group

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, those added directly included."""
        return sorted({*super().list_commands(ctx), *self._points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if point := self._points().get(cmd_name):
            command = _loaded(point)
            assert isinstance(command, click.Command), f"{point.value} is no click command"
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        points = self._points()
        listed = {
            name: click.Command(name, help=_docstring(points[name]))
            if name in points
            else super(EntryPointGroup, self).get_command(ctx, name)
            for name in self.list_commands(ctx)
        }
        room = formatter.width - 6 - max(map(len, listed))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(room)) for name, each in listed.items() if each]
            )


def _docstring(point: EntryPoint) -> str | None:
    """Return the docstring of what an entry point names, without importing its module."""
    spec = find_spec(point.module)
    assert spec is not None, f"{point.module} is not there"
    assert spec.origin is not None, f"{point.module} has no source"
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == point.attr:
            return ast.get_docstring(node)
    return None


def _loaded(point: EntryPoint) -> object:
    """Import what an entry point names.

    Imports make objects that stay. Collections meanwhile would find nothing, and take 0.1 s of CPU
    time of starting the API or an agent; later ones, which leave these objects out, as much again.
    """
    if point.group == "soltape.commands" and point.name in _AT_WORK:
        memory.reserve(_AT_WORK[point.name])
    gc.disable()
    try:
        return point.load()
    finally:
        gc.freeze()
        gc.enable()


HELP = """Solana's tape: from a Yellowstone stream to Kafka, ClickHouse and Redis.

\b
First time here?
  soltape up                     everything on this machine, on a simulated chain
  soltape tail solana-dex-swaps  watch the swaps go by
  soltape status                 how far has everything come?
  soltape query                  ask ClickHouse: the worked queries
  soltape doctor                 is what I configured reachable?

Settings come from the environment and .env; .env.example explains each.
"""

cli = EntryPointGroup(
    "soltape.commands",
    name="soltape",
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(package_name="soltape", prog_name="soltape")(cli)
cli.add_command(
    EntryPointGroup(
        "soltape.benches",
        name="bench",
        callback=end_as_by_ctrl_c,
        help="Measure, and print one JSON line.\n\n"
        "The line has the figures; progress goes to stderr.",
    )
)


def main() -> None:
    """Run the command line.

    A wrong setting, a taken port or a missing extra is a message, never a traceback.
    """
    try:
        cli(prog_name="soltape")
    except SettingsError as error:
        click.echo(f"soltape: a setting is not accepted\n{error}", err=True)
        sys.exit(2)
    except PortInUse as error:
        click.echo(f"soltape: {error}", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if (remedy := extra.remedy(error)) is None:
            raise
        click.echo(f"soltape: {remedy}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
