"""`soltape query`: worked queries, run as the reader."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import click

from infra.settings import load

_PARAMETER: Final = re.compile(r"-- (?P<name>[a-z_]+)(?: = (?P<default>[^:]+))?: (?P<about>.+)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a query is asked with."""

    default: str | None  # None: it has to be given
    about: str


@dataclass(frozen=True, slots=True)
class Query:
    """A file of `queries/`: comments on top say what it is and what it takes."""

    name: str
    about: str
    parameters: dict[str, Parameter]
    sql: str

    @classmethod
    def read(cls, name: str, text: str) -> Query:
        """Take a file apart."""
        about, *lines = text.splitlines()
        parameters = {}
        for line in lines:
            if not (found := _PARAMETER.fullmatch(line)):
                break
            parameters[found["name"]] = Parameter(found["default"], found["about"])
        return cls(name, about.removeprefix("-- "), parameters, text)

    def values(self, given: Sequence[str]) -> dict[str, str]:
        """Return the value of each parameter; raises click.BadParameter."""
        values = {n: p.default for n, p in self.parameters.items() if p.default is not None}
        for each in given:
            name, equals, value = each.partition("=")
            if not equals or name not in self.parameters:
                known = ", ".join(f"{name}=..." for name in self.parameters)
                raise click.BadParameter(f"{each!r}: {self.name} takes {known}")
            values[name] = value
        if missing := [name for name in self.parameters if name not in values]:
            raise click.BadParameter(f"{self.name} needs {', '.join(f'{n}=...' for n in missing)}")
        return values


def queries() -> dict[str, Query]:
    """Return all worked queries by name."""
    found = [
        Query.read(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files("infra.clickhouse").joinpath("queries").iterdir()
        if file.name.endswith(".sql")
    ]
    return {query.name: query for query in sorted(found, key=lambda query: query.name)}


@click.command()
@click.argument("name", required=False)
@click.argument("values", nargs=-1, metavar="[PARAMETER=VALUE]...")
@click.option("--sql", "show", is_flag=True, help="Print the query instead of its answer.")
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, Markdown ...  "
    "[default: PrettyCompact on a terminal, else TSVWithNames]",
)
def query(name: str | None, values: tuple[str, ...], show: bool, form: str | None) -> None:
    """Ask ClickHouse one of the worked queries, as the user who may only read.

    Without NAME it lists them with what they take.

    \b
    Examples:
      soltape query
      soltape query hourly-volume hours=6
      soltape query top-wallets mint=<address> --format JSONEachRow
      soltape query sandwich-victims --sql
    """
    known = queries()
    if name is None:
        click.echo("\n\n".join(map(_described, known.values())))
        return
    if not (found := known.get(name)):
        raise click.BadParameter(f"no query is called {name!r}; there are: {', '.join(known)}")
    if show:
        click.echo(found.sql, nl=False)
        return
    parameters = found.values(values)
    form = form or ("PrettyCompactMonoBlock" if sys.stdout.isatty() else "TSVWithNames")
    sys.stdout.buffer.write(_ask(found.sql, parameters, form))


def _described(query: Query) -> str:
    lines = [f"{query.name}\n  {query.about}"]
    for name, parameter in query.parameters.items():
        default = "" if parameter.default is None else f" [{parameter.default}]"
        lines.append(f"    {name}=  {parameter.about}{default}")
    return "\n".join(lines)


def _ask(sql: str, parameters: dict[str, str], form: str) -> bytes:
    from infra.clickhouse.client import ClickHouseError, ClickHouseUnavailable, check, connect
    from infra.clickhouse.reader import as_reader

    settings = as_reader(load())
    try:
        asyncio.run(check(settings, timeout_s=10))  # says it in plain words if it is not there
        with connect(settings) as client:
            return client.raw_query(sql, parameters, fmt=form)
    except (ClickHouseError, ClickHouseUnavailable) as error:
        raise click.ClickException(str(error).partition("\n")[0]) from None
