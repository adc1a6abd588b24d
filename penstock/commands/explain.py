"""The command line of ``penstock explain``. Heavy imports stand inside the command."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.commands.arguments import Arguments, File, Parallelism, optional
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes


class Drawing(StrEnum):
    """The ways ``explain`` draws a plan."""

    TREE = "tree"
    MERMAID = "mermaid"


def explain(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    only: Annotated[Drawing | None, typer.Option(help="Print just one of the two.", show_default=False)] = None,
    svg: Annotated[Path | None, optional("FILE", "Also write a picture, as SVG.", dir_okay=False)] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the physical plan of a pipeline, as a tree and as Mermaid, without running it.

    The file runs up to its first run() or start(), which starts nothing.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.loading import capture
        from penstock.plan_views import text as plan_text
        from penstock.plan_views import words as plan_words
        from penstock.runs.run_options import EMBEDDED

        job, options = capture(file, arguments or [])
        instances = options.instances if parallelism is None else parallelism
        plan = job.plan(instances, apart=options.executor != EMBEDDED)
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
