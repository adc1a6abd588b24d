"""``python -m penstock.benchmarks.papers.real.steady --out DIR``: a job under steady load, recorded, decided on by all.

A broker, an injector and WordCount on two task managers, with 10 ms of blocking work a row. Sage sizes it, and is to
have nothing to do, as the job begins with what it needs: a run without a bound, made first, tells what that is on this
machine. Its action log has what its head saw each second, and what Sage saw each minute of the whole job; every policy
decides on that once more: after its warm-up it is to want nothing. A run that is there is not made again. Exits with 1
if a policy would act, could not see the job, or looked less than twice, or Sage did act.

With ``--act POLICY`` that policy acts on such a job, and is to change nothing once it is warm. The load lasts for three
of its looks at least. All times of the autoscaler, which looks each quarter of an hour, are a fifteenth of its own.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.flink_er.real_applications import IN_ALL, held
from penstock.benchmarks.papers.flink_er.real_cases import case
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.autoscaler_times import AUTOSCALER, autoscaler_times
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.benchmarks.papers.real.steady_policies import (
    LEAST_LOOKS,
    WARM_UP_S,
    PolicyLine,
    Recorded,
    Verdict,
    lines,
)
from penstock.engine.control.recorded_windows import ticks_of, wholes_of
from penstock.engine.control.steering import OF_A_JOB, role_of, steering
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import Placement
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import EntryKind, read_log
from penstock.scheduler.memory_choice import BUDGETS
from penstock.scheduler.ownership import Resource
from penstock.tables import Column, print_table

NAME = "steady"
ROW_S = 0.01
"""So long a word waits: on a busy machine a wait of 2 ms takes up to twice as long, one of 10 ms a fifth more."""

LINES_PER_S = 27.0
"""Of four words, that take a little of a core: two instances are busy for 0.6 of the time.

It is the same on every machine, as what a row takes is. Two are right for rows of 9.3 to 18 ms.
"""

CONTROL = {"cores": 4.0}
"""What policies that scale may have."""

USED = 0.8
"""The part of its cores that the job is to use: policies want more from 0.92 on, and fewer below 0.71."""

NEED = f"{NAME}-need"
"""The run that tells what the job needs."""

NEED_S = 300.0
"""How long its load lasts."""

_SIZED = {"mode": "act", "scale": "sage", **CONTROL}
"""Whoever sizes whole jobs sees what this one has and uses."""

_QUERIES = {IN_ALL: (0.5, 1)}
"""A minimum accuracy, so that those that shed have something to shed for: of what counts words nothing is ever shed."""

_STATE_BYTES = min(BUDGETS)
"""The least memory that there is for an operator."""

_HELD_WORDS = 9_000
"""They fill four fifths of that: none is to want less, or more."""

ACTING_LOOKS = 3
"""An acting policy looks so often at least."""

AUTOSCALER_PART = 1 / 15
"""Of its times: it looks each minute, and takes nothing away for four."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record the job, and print a line for each policy."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.real.steady", description=__doc__)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the run is kept")
    parser.add_argument(
        "--minutes", metavar="M", type=float, default=32.0,
        help="how long the load lasts, default 32: the autoscaler looks twice in it",
    )  # fmt: skip
    parser.add_argument("--act", metavar="POLICY", default="", help="the policy that acts, instead of Sage")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        seconds, acts = 60.0 * arguments.minutes, arguments.act
        if acts:
            cores = first_cores(arguments.out) if sizes_whole_jobs(acts) else None
            acting = acting_case(seconds, acts, cores)
            return show_acting(acts, recorded(acting, arguments.out / acting.name))
        run = recorded(steady_case(seconds, first_cores(arguments.out)), arguments.out / NAME)
    except OptionError as error:
        parser.error(str(error))
    found = lines(seen_of(run), CONTROL)
    with (arguments.out / "policies.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(line)) + "\n" for line in found)
    show(run, found)
    acted = actions(run)
    print(f"Sage acted {len(acted)} times in {looks_of('sage', run)} looks: {'; '.join(acted) or 'not once'}")
    return 0 if is_calm(found) and not acted else 1


def first_cores(out: Path) -> float:
    """Return the cores that the job is to begin with on this machine, by its run without a bound in ``out``.

    That run is made if it is not there.

    Raises:
        OptionError: in that run nothing was measured.
    """
    run = recorded(replace(steady_case(NEED_S), name=NEED, control={**_SIZED, "mode": "recommend"}), out / NEED)
    begin_s, end_s = load_end_s(run) - NEED_S + WARM_UP_S, load_end_s(run)
    wholes = [each for each in wholes_of(run.folder / ACTIONS) if each.time_s <= end_s]
    used = [cores_used(each) for each in wholes if each.time_s - each.window_s >= begin_s]
    if not used or not all(map(math.isfinite, used)):
        raise OptionError(f"{run.folder} does not say what the job needs: remove it, and it is made again.")
    return round(sum(used) / len(used) / USED, 3)


def cores_used(whole: ClusterSnapshot) -> float:
    """Return the cores that the one application of a snapshot has used; NaN: not measured."""
    cpu_ns = whole.applications.cpu_ns
    return math.nan if cpu_ns is None else float(cpu_ns[0]) / whole.window_s / 1e9


def steady_case(seconds: float, cores: float | None = None) -> RealCase:
    """Return the run: one load for so long, with so many cores at first; None: a core for each task manager."""
    words = case(Scale.SHORT, "zipf-0")
    # One instance reads, as that is enough: no policy is to want fewer.
    options: dict[str, Any] = {"contracts": _QUERIES, "counting": 2, "readers": 1, "wait_s": ROW_S}
    return replace(
        words,
        name=NAME,
        loads=((1.0, seconds),),
        control=_SIZED if cores is None else {**_SIZED, "first_cores": cores},
        task_managers=2,
        options=options,
        first={"lines": f"{steady_words.__module__}:{steady_words.__name__}"},
        catch_up_s=0.0,
        exact="",
        capacity=LINES_PER_S,
        start={**words.start, "state_bytes": _STATE_BYTES},
    )


def steady_words() -> list[bytes]:
    """Return lines of the words that the job holds."""
    return held(_HELD_WORDS)


def plan_of(steady: RealCase) -> ExecutionGraph:
    """Return the plan of the job; no broker is asked."""
    setting = Setting("nowhere:9092", tuple(steady.topics), Path(), None, steady.options)
    made: Application = attribute(steady.application)(setting)
    return made.job.plan(steady.start["parallelism"], apart=True)


def acting_case(seconds: float, policy: str, cores: float | None = None) -> RealCase:
    """Return the run in which a policy acts, for so long, or for `ACTING_LOOKS` of its looks if that is longer.

    ``cores`` are what the job has at first if it sizes whole jobs; None: a core for each task manager.

    Raises:
        OptionError: there is no such policy.
    """
    control = {"mode": "act", **_acts(policy)} | ({} if cores is None else {"first_cores": cores})
    enough_s = WARM_UP_S + ACTING_LOOKS * every_s(policy, control)
    return replace(steady_case(max(seconds, enough_s)), name=f"{NAME}-{policy}", control=control)


def sizes_whole_jobs(policy: str) -> bool:
    """Return whether a policy gives a job its cores.

    Raises:
        OptionError: there is no such policy.
    """
    return Resource.ALLOCATIONS in role_of(policy).owns


def _acts(policy: str) -> dict[str, Any]:
    """Return the options of `Control` by which a policy decides on what it owns."""
    owns = role_of(policy).owns
    if Resource.KEEP_RATES in owns:
        return {"shed": policy}
    if Resource.STARTS in owns:
        return {"placement": policy}
    own: dict[str, Any] = {"scale": policy, **CONTROL}
    if policy == AUTOSCALER:
        own["parameters"] = autoscaler_times(AUTOSCALER_PART)
    return own


def every_s(policy: str, control: Mapping[str, Any]) -> float:
    """Return the seconds between two looks of a policy that acts by such a control."""
    return steering(policy, {**OF_A_JOB.get(policy, {}), **control.get("parameters", {})}).every_s


def looks_of(policy: str, run: SeenRun) -> int:
    """Return how often a policy of a run has decided once the job was warm, by its action log."""
    at_s, count = -math.inf, 0
    for entry in read_log(run.folder / ACTIONS):
        if entry.kind is EntryKind.SNAPSHOT:
            at_s = float(entry.content["content"]["time_s"])
        count += entry.kind is EntryKind.DECISION and entry.content["policy"] == policy and at_s >= WARM_UP_S
    return count


def actions(run: SeenRun) -> list[str]:
    """Return what was begun or moved once the job was warm and while its load lasted, each with when and why."""
    log, at_s, begun = run.folder / ACTIONS, dict[int, float](), list[str]()
    end_s = load_end_s(run)

    def is_of_load(time_s: float) -> bool:
        """Return whether the job was warm and its load went on; also of a snapshot that is not in the log."""
        return WARM_UP_S <= time_s <= end_s or time_s == math.inf

    for entry in read_log(log):
        if entry.kind is EntryKind.DECISION and entry.content["decision"]["kind"] == Placement.__name__:
            time_s = at_s.get(entry.content["snapshot"], math.inf)
            if is_of_load(time_s) and entry.content["decision"]["moves"]:
                begun.append(f"at {time_s:.0f} s {entry.content['decision']['reason']}")
        if entry.kind is EntryKind.SNAPSHOT:
            seen = entry.content["content"]
            at_s[seen["number"]] = float(seen["time_s"])
        if entry.kind is EntryKind.RESULT and _is_action(entry.content):
            time_s = at_s.get(entry.content["snapshot"], math.inf)
            if is_of_load(time_s):
                begun.append(f"at {time_s:.0f} s {entry.content['detail']}")
    return begun


def _is_action(result: Mapping[str, Any]) -> bool:
    rates = [*result["detail"].get("sources", {}).values(), *result["detail"].get("branches", {}).values()]
    return result["outcome"] == "begun" or bool(result["detail"].get("moved")) or any(rate < 1.0 for rate in rates)


def recorded(steady: RealCase, folder: Path) -> SeenRun:
    """Return a run, which is made if it is not there."""
    return SeenRun(run_case(steady, folder, lambda text: print(text, file=sys.stderr)).parent)


def seen_of(run: SeenRun) -> Recorded:
    """Return what was seen of a job while its load lasted."""
    log, end_s = run.folder / ACTIONS, load_end_s(run)
    ticks, wholes = ([each for each in of(log) if each.time_s <= end_s] for of in (ticks_of, wholes_of))
    return Recorded(ticks, wholes, plan_of(steady_case(60.0)))


def load_end_s(run: SeenRun) -> float:
    """Return when the load of a run ends, by the time of its snapshots."""
    return run.bounds[-1][1] - run.job_begun_s


def is_calm(found: Sequence[PolicyLine]) -> bool:
    """Return whether every policy looked often enough once it was warm, saw the job, and would have left it alone."""
    return all(line.verdict is Verdict.CALM for line in found)


def show_acting(policy: str, run: SeenRun) -> int:
    """Print what a policy that acts has done, and return 1 if it changed something, or was not seen."""
    done, looks = actions(run), looks_of(policy, run)
    verdict = Verdict.ACTS if done else Verdict.CALM if looks >= LEAST_LOOKS else Verdict.NOT_SEEN
    minutes, often_s = run.bounds[-1][1] / 60, every_s(policy, run.case["control"])
    print(
        f"{policy}: {verdict}, {len(done)} actions in {looks} looks, one each {often_s:g} s, in {minutes:.3g} minutes: "
        f"{'; '.join(done) or 'none'}"
    )
    if policy == AUTOSCALER:
        print(f"All of its times are {AUTOSCALER_PART:.3g} of what they are by default.")
    return 0 if verdict is Verdict.CALM else 1


def show(run: SeenRun, found: Sequence[PolicyLine]) -> None:
    """Print the table."""
    text = ("policy", "verdict", "first action")
    titles = ("policy", "every s", "looks", "measured", "actions", "verdict", "first action")
    print_table(
        [Column(title, figures=title not in text) for title in titles],
        [_cells(line) for line in found],
        stream=sys.stdout,
    )
    print(f"{run.bounds[-1][1] / 60:.3g} minutes at {LINES_PER_S:g} lines of four words a second; two instances ran")


def _cells(line: PolicyLine) -> list[str]:
    counts = map(str, (line.looks, line.measured, line.actions))
    return [line.policy, f"{line.every_s:g}", *counts, line.verdict, line.first]


if __name__ == "__main__":
    raise SystemExit(main())
