"""The ``penstock`` command.

Every heavy import stands inside the command that needs it, so that ``--help`` answers at once.
Exit codes: 0 all well (also after a clean stop by Ctrl-C), 1 the job failed, 2 wrong usage, 3 the
environment is not fit.
"""

import ast
import importlib.util
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

COMMANDS = "penstock.commands"
"""The entry points of further commands: callables from a list of arguments to an exit code."""

FAILED, UNFIT = 1, 3

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


class Drawing(StrEnum):
    """The ways ``explain`` draws a plan."""

    TREE = "tree"
    MERMAID = "mermaid"


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A Python file that builds a pipeline.", exists=True, dir_okay=False),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Arguments for the file itself; put -- before options.", show_default=False),
]
Parallelism = Annotated[
    int | None,
    typer.Option(min=1, metavar="P", help="Instances per operator; wins over the file.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show full tracebacks.", show_default=False)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    _add_commands(given)
    app(given, prog_name="penstock")


def _show_version(wanted: bool) -> None:
    from penstock import __version__

    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    context: typer.Context,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Stream processing in Python that keeps its promises under overload."""
    context.obj = debug


@app.command()
def run(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job.", show_default=False)] = None,
    parallelism: Parallelism = None,
    batch_rows: Annotated[
        int | None,
        typer.Option(min=1, metavar="R", help="Most rows in a batch.", show_default=False),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline in this process, with progress on a terminal.

    The file runs as a script. Every run() and start() in it is carried out with the options given
    here; a file that calls neither has its default job run at the end. Ctrl-C stops cleanly: what
    was read is processed and written.
    """
    with _answering(debug or context.obj, as_json):
        from penstock.loading import run_program
        from penstock.running import Overrides, Runner

        runner = Runner(Overrides(name, parallelism, batch_rows), as_json=as_json)
        run_program(file, arguments or [], runner)


@app.command()
def explain(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    only: Annotated[Drawing | None, typer.Option(help="Print just one of the two.", show_default=False)] = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="OUT.svg", dir_okay=False, help="Also write a picture.", show_default=False),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the physical plan of a pipeline, as a tree and as Mermaid, without running it.

    The file runs up to its first run() or start(), which starts nothing.
    """
    with _answering(debug or context.obj, as_json):
        from penstock import plan_text, plan_words
        from penstock.loading import capture

        job, options = capture(file, arguments or [])
        plan = job.plan(options.parallelism if parallelism is None else parallelism)
        if svg is not None:
            from penstock import plan_svg

            svg.write_text(plan_svg.svg(plan), encoding="utf-8")
        if as_json:
            typer.echo(json.dumps({"job": options.name, **plan_words.plan_data(plan)}))
        elif only is Drawing.MERMAID:
            typer.echo(plan_text.mermaid(plan), nl=False)
        else:
            typer.echo(plan_text.explain(plan), nl=False)
            if only is None:
                typer.echo(f"\n```mermaid\n{plan_text.mermaid(plan)}```")


@app.command()
def doctor(context: typer.Context, as_json: Json = False, debug: Debug = False) -> None:
    """Examine this machine and say what to do. Exits with 3 if something must be mended first."""
    with _answering(debug or context.obj, as_json):
        from penstock.doctor import FAIL, examine

        checks = examine()
        if as_json:
            from dataclasses import asdict

            typer.echo(json.dumps([asdict(check) for check in checks]))
        else:
            width = max(len(check.name) for check in checks)
            colours = {"ok": "green", "warn": "yellow", "fail": "red"}
            for check in checks:
                status = typer.style(f"{check.status:<4}", fg=colours[check.status])
                advice = f"  -> {check.advice}" if check.advice else ""
                typer.echo(f"{status}  {check.name:<{width}}  {check.finding}{advice}")
    if any(check.status == FAIL for check in checks):
        raise typer.Exit(UNFIT)


@app.command()
def init(
    context: typer.Context,
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The new directory; the project is called like it.")],
    debug: Debug = False,
) -> None:
    """Write a small project to begin with: a pipeline over a sample file, and its tests."""
    with _answering(debug or context.obj):
        from penstock.new_project import write_project

        written = write_project(name)
        typer.echo("wrote")
        for path in written:
            typer.echo(f"  {path}")
        typer.echo(f"now\n  cd {shlex.quote(str(name))}")
        for line in ("penstock run pipeline.py", "penstock explain pipeline.py", "pytest"):
            typer.echo(f"  {line}")


def _add_commands(given: Sequence[str]) -> None:
    """Add the commands of other packages, unless one of our own is wanted anyway."""
    own = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    if given and given[0] in own:
        return
    for entry in metadata.entry_points(group=COMMANDS):
        if entry.name not in own:
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
            add = app.command(entry.name, help=_summary(entry), context_settings=settings, add_help_option=False)
            add(_calling(entry))


def _calling(entry: metadata.EntryPoint) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        with _answering(context.obj):
            code = entry.load()(list(context.args))
        raise typer.Exit(code)

    return call


def _summary(entry: metadata.EntryPoint) -> str:
    """Return the first sentence of the command's module, read without importing it."""
    root, *rest = entry.module.split(".")
    found = importlib.util.find_spec(root)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        file = Path(folder, *rest).with_suffix(".py")
        if file.is_file():
            text = ast.get_docstring(ast.parse(file.read_bytes())) or ""
            return text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".") + "."
    return ""


@contextmanager
def _answering(debug: Any, as_json: bool = False) -> Iterator[None]:
    """Turn exceptions into a message and an exit code; with ``debug``, let them through."""
    try:
        yield
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        raise typer.Exit(FAILED) from None
    except Exception as error:
        if debug:
            raise
        from penstock.failures import describe_failure
        from penstock.requirements import missing_library

        sys.stdout.flush()
        if as_json:
            typer.echo(json.dumps({"status": "failed", "error": str(error), "type": type(error).__name__}))
        typer.secho(describe_failure(error), err=True)
        raise typer.Exit(UNFIT if missing_library(error) else FAILED) from None
