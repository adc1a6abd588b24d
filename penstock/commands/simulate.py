"""The command line of ``penstock simulate``. Heavy imports stand inside the command."""

from typing import Annotated

import typer

from penstock.commands.arguments import Arguments, File, optional
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes


def simulate(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Which runs; one number for one.")] = "1..200",
    faults: Annotated[str | None, optional("F,F..", "Of crash, delay, cut, disk; or none. Default: all.")] = None,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Most rows to read of each source.")] = 100_000,
    parallelism: Annotated[int, typer.Option(min=1, metavar="P", help="Instances per operator.")] = 2,
    state_bytes: Annotated[
        int | None, optional("BYTES", "Byte budget of keyed state per operator instance; the rest is in pages.", min=1)
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline under simulated crashes, delays, cut links and failing disks, and compare what it puts out.

    It reads its sources once, and never writes to its sinks. Each seed is one run, the same every
    time. Exits with 1 if a seed's output differs from that of an undisturbed run, and tells its history.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.chaos import simulation as simulating
        from penstock.commands.loading import capture

        options = simulating.SimulateOptions(
            simulating.parse_seeds(seeds), simulating.parse_faults(faults), rows, parallelism, state_bytes
        )
        job, _ = capture(file, arguments or [])
        report = simulating.simulate(job, options)
        simulating.print_report(report, as_json=as_json)
    if report.failed is not None:
        raise typer.Exit(FAILED)
