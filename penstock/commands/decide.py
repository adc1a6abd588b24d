"""The command line of ``penstock decide``. Heavy imports stand inside the command."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.commands.arguments import optional, pairs
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes

if TYPE_CHECKING:
    from penstock.engine.control.decision_replay import Redecided


def _policies() -> list[str]:
    from penstock.engine.control.policies import POLICIES

    return sorted(POLICIES)


def decide(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(metavar="LOG", help="An action log.", exists=True, dir_okay=False)],
    policy: Annotated[
        str | None,
        optional("NAME", "Who decides; if the log is of one policy, that one.", "--policy", autocompletion=_policies),
    ] = None,
    changes: Annotated[
        list[str] | None, optional("PARAMETER=VALUE", "A parameter that is not as recorded. May come again.", "--set")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Decide again on recorded snapshots, and hold it against the decisions that were recorded.

    A policy of the log starts with its recorded parameters, and must decide the same again: exits with 1 if it does
    not, unless a parameter was changed. What became of its decisions is said too. Another one decides in windows of its
    own time if the log is of a running job.
    """
    differ = 0
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.engine.control.decision_replay import only_policy, redecide

        changed = pairs("--set", changes, "period_s=10")
        if policy is not None and ":" in policy:
            # A class of the user's is mostly in the folder at hand.
            sys.path.insert(0, str(Path.cwd()))
        decisions = list(redecide(log, policy or only_policy(log), changed))
        differ = sum(item.same is False for item in decisions)
        _print_decisions(decisions, differ, as_json=as_json)
    if differ and not changed:
        raise typer.Exit(FAILED)


def _print_decisions(decisions: "Sequence[Redecided]", differ: int, *, as_json: bool) -> None:
    from penstock.engine.control.decision_replay import plain

    if as_json:
        for item in decisions:
            own = {"snapshot": item.snapshot.number, "time_s": item.snapshot.time_s, "same": item.same}
            outcome = None if item.outcome is None else asdict(item.outcome)
            print(json.dumps(own | {"decision": plain(item.decision), "outcome": outcome}))
        return
    from penstock.tables import Column, print_table

    told = any(_decision_cells(item)[-1] for item in decisions)
    titles = ("decision", "reason", "outcome") if told else ("decision", "reason")
    columns = [
        Column("snapshot"),
        Column("time s"),
        *(Column(title, figures=False) for title in titles),
    ]
    rows = []
    for (_, cells), group in groupby(_with_runs(decisions), key=lambda pair: (pair[0], _decision_cells(pair[1]))):
        first, *others = (item for _, item in group)
        last = others[-1] if others else first
        numbers = [str(item.snapshot.number) for item in (first, last)]
        times = [f"{item.snapshot.time_s:,.1f}" for item in (first, last)]
        rows.append([*("-".join(dict.fromkeys(ends)) for ends in (numbers, times)), *cells[: len(titles)]])
    print_table(columns, rows, stream=sys.stdout)
    recorded = sum(item.same is not None for item in decisions)
    compared = f"{recorded - differ} of {recorded} as recorded" if recorded else "none recorded"
    print(f"{len(decisions)} decisions; {compared}")


def _with_runs(decisions: "Sequence[Redecided]") -> "Iterator[tuple[int, Redecided]]":
    """Yield decisions, each with how often time has begun anew before it, so that no line is of two runs."""
    run, last_s = 0, 0.0
    for item in decisions:
        run += item.snapshot.time_s < last_s
        last_s = item.snapshot.time_s
        yield run, item


def _decision_cells(item: "Redecided") -> tuple[str, str, str]:
    """Return what the table says of a decision; those that follow each other and say the same have one line."""
    said = type(item.decision).__name__ + (" (recorded: another)" if item.same is False else "")
    return said, item.decision.reason, "" if item.outcome is None else item.outcome.sentence()
