"""The process that runs the job of a case: its topics, its orders, and waiting until it has what comes first."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.real.application import attribute
from penstock.benchmarks.papers.real.case import CoreShares, RealCase
from penstock.benchmarks.papers.real.injector import fill
from penstock.benchmarks.papers.real.schedule import Phase, TopicLoad
from penstock.benchmarks.papers.real.started import MOST_S, is_so_within
from penstock.benchmarks.papers.real.subject import SubjectOrders
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError

LEAD_S = 5.0
"""How long a job that reads already runs before the first phase."""

_START_S = 60.0


def make_topics(case: RealCase, kafka: str, purpose: str, phases: tuple[Phase, ...]) -> tuple[TopicLoad, ...]:
    """Make the topics of a purpose, and return what is offered to them."""
    loads = tuple(
        TopicLoad(
            f"{topic}-{purpose}",
            case.shares,
            messages,
            tuple(Phase(phase.rows_per_s * case.rate_of(topic), phase.seconds) for phase in phases),
        )
        for topic, messages in case.topics.items()
    )
    for load in loads:
        create_topic(KafkaSettings(kafka), load.topic, len(load.shares))
    return loads


def subject_orders(
    case: RealCase, kafka: str, loads: tuple[TopicLoad, ...], folder: Path, cores: CoreShares
) -> SubjectOrders:
    """Return the orders of a process that runs the case's job on these topics; its folder is made."""
    folder.mkdir(exist_ok=True)
    embedded = case.executor == "embedded"
    return SubjectOrders(
        case.application,
        kafka,
        tuple(load.topic for load in loads),
        str(folder),
        case.options,
        case.control,
        case.executor,
        case.task_managers,
        cores.job if embedded else tuple(sorted({*cores.job, *cores.others})),
        batch_rows=case.batch_rows,
        start=case.start,
        has_checkpoints=case.has_checkpoints,
        restarts=case.restarts,
        is_watched=case.is_watched,
    )


def wait_until_it_reads(process: "subprocess.Popen[str]", notes: Path) -> None:
    """Wait until a job has readers: it says which sources it has.

    Raises:
        FatalError: it failed, or does not come so far.
    """
    if not is_so_within(process, notes, _START_S, lambda line: bool(line.get("read"))):
        raise FatalError(f"the job of the run has not begun within {_START_S:g} s; its own words stand above")


def fill_first(
    case: RealCase, kafka: str, loads: tuple[TopicLoad, ...], subject: "subprocess.Popen[str]", notes: Path
) -> int:
    """Write what topics have before the first phase, wait until the job has taken it, and return how much it is.

    Raises:
        FatalError: the job does not take it.
    """
    firsts = tuple(replace(load, messages=case.first[topic]) for topic, load in zip(case.topics, loads, strict=True))
    rows = fill(kafka, firsts, [len(attribute(load.messages)()) for load in firsts])
    if not is_so_within(subject, notes, MOST_S, partial(has_taken, rows)):
        raise FatalError("the job of the run does not take the rows that come first")
    return rows


def has_taken(rows: int, line: Mapping[str, Any]) -> bool:
    """Return whether by a sample of the job so many rows were read, and none is between instances."""
    return sum(line.get("read", {}).values()) >= rows and not line["between"]
