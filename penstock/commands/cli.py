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
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from penstock.commands import decide as decide_command
from penstock.commands import dev as dev_command
from penstock.commands import dlq as dlq_command
from penstock.commands import doctor as doctor_command
from penstock.commands import simulate as simulate_command
from penstock.commands import state as state_command
from penstock.commands import warm as warm_command
from penstock.commands.answering import FAILED, Debug, Json, answering
from penstock.commands.arguments import Arguments, File, MaxDeadLetters, Parallelism
from penstock.model.closed_output import silence
from penstock.model.errors import PIPE_CLOSED

COMMANDS = "penstock.commands"
"""The entry points of further commands: callables from a list of arguments to an exit code."""

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(state_command.app, name="state")
app.add_typer(dev_command.app, name="dev")
app.add_typer(dlq_command.app, name="dlq")
app.command()(decide_command.decide)
app.command()(doctor_command.doctor)
app.command()(simulate_command.simulate)
app.command()(warm_command.warm)


_added: set[str] = set()
"""The names of those that were found."""


class Drawing(StrEnum):
    """The ways ``explain`` draws a plan."""

    TREE = "tree"
    MERMAID = "mermaid"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        app(_with_commands(given), prog_name="penstock")
    finally:
        _flush()


def _flush() -> None:
    """Write what is left now: at the interpreter's end nobody could say in which way it failed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        raise SystemExit(PIPE_CLOSED) from None


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
    emit_interval: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How often updating results leave under load: 100ms.", show_default=False),
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Take checkpoints here (path or URL); go on from the last.", show_default=False
        ),
    ] = None,
    checkpoint_interval: Annotated[
        str | None, typer.Option(metavar="TIME", help="From one checkpoint to the next: 10s.", show_default=False)
    ] = None,
    max_failed_checkpoints: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="So many may fail in a row before the job does.", show_default=False),
    ] = None,
    start_timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait so long for what the job needs at its start: 1m.", show_default=False),
    ] = None,
    restore: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="Begin at: latest, none, or a savepoint by name.", show_default=False),
    ] = None,
    drop_state: Annotated[
        list[str] | None, typer.Option(metavar="OPERATOR", help="Let go what changed or is gone.", show_default=False)
    ] = None,
    accept_changed: Annotated[
        list[str] | None, typer.Option(metavar="OPERATOR", help="Go on although it changed.", show_default=False)
    ] = None,
    accept_duplicates: Annotated[
        bool,
        typer.Option("--accept-duplicates", help="Let Kafka sinks write again what came after the checkpoint."),
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="End another run that has the checkpoints or an output, and begin."),
    ] = False,
    dead_letters: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where they go: kafka://HOST:PORT/TOPIC.", show_default=False),
    ] = None,
    max_dead_letters: MaxDeadLetters = None,
    savepoint_on_stop: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="When stopped, keep the last checkpoint as this savepoint.", show_default=False
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65_535, help="Serve metrics at this port, 0: any free one.", show_default=False
        ),
    ] = None,
    metrics_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Serve them at this address, not at 127.0.0.1; needs a token.", show_default=False
        ),
    ] = None,
    metrics_token: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Answer who sends the token of file:PATH or env:NAME.", show_default=False),
    ] = None,
    at_end: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Open windows when all input was read: keep (for the next run) or close.",
            show_default=False,
        ),
    ] = None,
    sinks_into: Annotated[str | None, typer.Option(metavar="DIR", hidden=True)] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline in this process, with progress on a terminal.

    The file runs as a script. Every run() and start() in it is carried out with the options given
    here; a file that calls neither has its default job run at the end. Ctrl-C and SIGTERM stop
    cleanly: what was read is processed and written, with checkpoints up to a last one.
    """
    with answering(debug or context.obj, as_json):
        from penstock.commands.loading import run_program
        from penstock.commands.run import Overrides, Runner

        overrides = Overrides(
            name,
            parallelism,
            batch_rows,
            checkpoint_dir,
            checkpoint_interval,
            max_failed_checkpoints,
            start_timeout,
            restore,
            drop_state=tuple(drop_state or ()),
            accept_changed=tuple(accept_changed or ()),
            accept_duplicates=accept_duplicates,
            dead_letters=dead_letters,
            max_dead_letters=max_dead_letters,
            sinks_into=sinks_into,
            savepoint_on_stop=savepoint_on_stop,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            metrics_token=metrics_token,
            at_end=at_end,
            take_over=take_over,
            emit_interval=emit_interval,
        )
        runner = Runner(overrides, as_json=as_json)
        run_program(file, arguments or [], runner)


@app.command()
def chaos(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A Python file that builds a pipeline.", exists=True, dir_okay=False),
    ] = None,
    arguments: Arguments = None,
    kills: Annotated[int, typer.Option(min=0, metavar="N", help="How often the process is killed.")] = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Draws the moments.")] = 0,
    failpoints: Annotated[
        bool, typer.Option("--failpoints", help="Also die once at every failpoint that the job comes by.")
    ] = False,
    parallelism: Annotated[
        str | None,
        typer.Option(metavar="P,P..", help="Instances per operator, in turn after restarts.", show_default=False),
    ] = None,
    checkpoint_interval: Annotated[str, typer.Option(metavar="TIME", help="From one checkpoint to the next.")] = "1s",
    list_failpoints: Annotated[
        bool, typer.Option("--list-failpoints", help="Print the names and meanings of all failpoints.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Kill a pipeline with kill -9 again and again, and compare its output with an undisturbed run.

    It reads its sources, and writes into a temporary directory instead of its sinks. Exits with 1 if
    anything is lost or there twice.
    """
    if file is None and not list_failpoints:
        raise typer.BadParameter("name the pipeline's file", param_hint="FILE")
    with answering(debug or context.obj, as_json):
        from penstock.commands import chaos as chaos_report

        if file is None or list_failpoints:
            chaos_report.list_failpoints(as_json=as_json)
            return
        report = chaos_report.attack(
            file,
            arguments or [],
            kills=kills,
            seed=seed,
            failpoints=failpoints,
            parallelism=parallelism,
            checkpoint_interval=checkpoint_interval,
        )
        chaos_report.show(report, as_json=as_json)
    if not report.exact:
        raise typer.Exit(FAILED)


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
    with answering(debug or context.obj, as_json):
        from penstock.commands.loading import capture
        from penstock.plan_views import text as plan_text
        from penstock.plan_views import words as plan_words

        job, options = capture(file, arguments or [])
        plan = job.plan(options.parallelism if parallelism is None else parallelism)
        if svg is not None:
            from penstock.plan_views import svg as plan_svg

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
def top(
    context: typer.Context,
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65_535, help="Where its metrics are.")] = 9464,
    host: Annotated[str, typer.Option(metavar="HOST", help="The machine it runs on.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="Send the token of file:PATH or env:NAME.", show_default=False),
    ] = None,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.01, help="From one look to the next.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show one interval and end.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Watch a running job: rates, where time goes, lag, state, checkpoints.

    The job serves its metrics: run it with --metrics-port, or with metrics_port=9464.
    """
    with answering(debug or context.obj, as_json):
        from penstock.metrics.top import Place, watch
        from penstock.runs.metrics_token import read_token

        place = Place(port, host, None if token is None else read_token(token))
        watch(place, interval, once=once, as_json=as_json)


@app.command()
def init(
    context: typer.Context,
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The new directory; the project is called like it.")],
    debug: Debug = False,
) -> None:
    """Write a small project to begin with: a pipeline over a sample file, and its tests."""
    with answering(debug or context.obj):
        from penstock.commands.new_project import write_project

        written = write_project(name)
        typer.echo("wrote")
        for path in written:
            typer.echo(f"  {path}")
        typer.echo(f"now\n  cd {shlex.quote(str(name))}")
        for line in ("penstock run pipeline.py", "penstock explain pipeline.py", "pytest"):
            typer.echo(f"  {line}")


def _with_commands(given: list[str]) -> list[str]:
    """Add the commands of other packages, unless one of our own is wanted anyway; return the command line to read."""
    own = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    own |= {group.name or "" for group in app.registered_groups}
    own -= _added
    if given and given[0] in own:
        return given
    for entry in metadata.entry_points(group=COMMANDS):
        if entry.name not in own | _added:
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
            add = app.command(entry.name, help=_summary(entry), context_settings=settings, add_help_option=False)
            add(_calling(entry))
            _added.add(entry.name)
    at = next((place for place, word in enumerate(given, 1) if not word.startswith("-")), 0)
    # Behind the name of such a command everything is its own, also a "--", of which ours would take one away.
    return [*given[:at], "--", *given[at:]] if at and given[at - 1] in _added else given


def _calling(entry: metadata.EntryPoint) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        with answering(context.obj or "--debug" in context.args):
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
