"""Whether a new head may go on with the instances that outlived the one before. Pure.

They are adopted only if together they are the whole plan once, and the last checkpoint is one of theirs. In any doubt
all is built anew: that loses time and nothing else.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.engine.executors.managers.adoption_messages import Adopt as AdoptOrder
from penstock.engine.executors.managers.adoption_messages import HeldDeployment, Holding
from penstock.engine.executors.managers.messages import Restore
from penstock.engine.executors.managers.places import is_in_caller, place_phrase
from penstock.engine.jobs.adoption import Adopt, AdoptedDeployment, RestoreAnew
from penstock.engine.plan.regions import regions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.checkpoints.manifest import encode_manifest
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import PublishedCheckpoint


def plan_digest(graph: ExecutionGraph, key_groups: int) -> str:
    """Return a digest of the shape of a plan: its tasks, their instances, and how rows go between them."""
    tasks = [(task.id, graph.instances(task)) for task in graph.tasks]
    edges = [
        (graph.node(edge.producer).name, edge.output, graph.node(edge.consumer).name, edge.port, edge.exchange)
        for edge in graph.edges
    ]
    return hashlib.blake2b(msgspec.json.encode([key_groups, tasks, edges]), digest_size=16).hexdigest()


def adoption(
    graph: ExecutionGraph, digest: str, last: PublishedCheckpoint, answers: Mapping[str, Holding]
) -> Adopt | RestoreAnew:
    """Decide of what task managers hold, by their names; ``digest`` is that of the plan as it is now."""
    at_head = [graph.name(task) for task in graph.tasks if is_in_caller(graph, task)]
    if at_head:
        return RestoreAnew(f"{at_head[0]!r} ran in the process of the head")
    run = max((held.run for held in answers.values()), default=0)
    held = {name: each for name, each in answers.items() if each.run == run and each.deployments}
    if not held:
        return RestoreAnew("no task manager that lives has an instance")
    if run < last.run:
        return RestoreAnew(f"they were led by run {run}, and run {last.run} has published checkpoint {last.epoch}")
    for name, each in held.items():
        fault = _fault(each, digest, last)
        if fault is not None:
            return RestoreAnew(f"{place_phrase(name)}: {fault}")
    deployments = _deployments(graph, held)
    if isinstance(deployments, RestoreAnew):
        return deployments
    claims = _claims(held)
    if isinstance(claims, RestoreAnew):
        return claims
    attempt = max(item.attempt for each in held.values() for item in each.deployments)
    managers = tuple(sorted(name for name, each in answers.items() if each.run == run and each.plan == digest))
    return Adopt(attempt, managers, deployments, receipts_behind(last.epoch, held.values()), claims)


def receipts_behind(epoch: int, held: Iterable[Holding]) -> dict[str, list[tuple[int, Any]]]:
    """Return what the writers of each sink have prepared behind an epoch, each with the epoch that it is for."""
    receipts: dict[str, list[tuple[int, Any]]] = {}
    for each in held:
        for cut in each.cuts:
            for sink, receipt in cut.receipts.items():
                if cut.epoch > epoch:
                    receipts.setdefault(sink, []).append((cut.epoch, receipt))
    return receipts


def adopt_order(start: AttemptStart, repository: CheckpointRepository) -> AdoptOrder:
    """Return the word to those that are adopted by an attempt which goes on from the last checkpoint."""
    manifest = None if start.restored is None else encode_manifest(start.restored.manifest)
    return AdoptOrder(start.attempt, repository.run, manifest, tuple(sorted(repository.damaged)))


def restore_order(start: AttemptStart, checkpoints: CheckpointSession | None) -> Restore | None:
    """Return what task managers are told of the checkpoint that an attempt goes on from; None: there is none."""
    restored = start.restored
    if restored is None:
        return None
    assert checkpoints is not None
    return Restore(
        encode_manifest(restored.manifest),
        restored.savepoint,
        tuple(sorted(checkpoints.repository.damaged)),
        tuple(sorted(restored.closed)),
        restored.is_afresh,
    )


def start_behind(start: AttemptStart, held: Iterable[Holding]) -> AttemptStart:
    """Return the start of an attempt behind all checkpoints that were begun of what was held when it was adopted."""
    return replace(start, last_epoch=max([start.last_epoch, *(each.begun for each in held)]))


def cuts_of(held: Iterable[Holding]) -> list[CutTaken]:
    """Return the cuts that were held, as instances report them."""
    return [
        CutTaken(cut.instance, cut.epoch, cut.ended, cut.receipts, cut.stretches) for each in held for cut in each.cuts
    ]


def _fault(held: Holding, digest: str, last: PublishedCheckpoint) -> str | None:
    """Return why what one task manager holds cannot go on, None if it can."""
    if held.plan != digest:
        return "it has another plan"
    ended = {cut.instance for cut in held.cuts if cut.ended}
    for item in held.deployments:
        if item.fault is not None:
            return item.fault
        if item.begun_from > last.epoch:
            return f"its instances began from checkpoint {item.begun_from}, and the last that counts is {last.epoch}"
        for instance in item.instances:
            if item.begun_from < last.epoch > held.passed.get(instance, 0) and instance not in ended:
                return f"{instance} was not part of checkpoint {last.epoch}"
    return None


def _deployments(graph: ExecutionGraph, held: Mapping[str, Holding]) -> tuple[AdoptedDeployment, ...] | RestoreAnew:
    """Return the regions of the plan as they were built, if every instance of each is there once."""
    parts: dict[frozenset[TaskId], list[tuple[str, HeldDeployment]]] = {region: [] for region in regions(graph)}
    for name, each in sorted(held.items()):
        for item in each.deployments:
            region = frozenset(TaskId(task) for task in item.tasks)
            if region not in parts:
                return RestoreAnew(f"{place_phrase(name)}: it has tasks that are no region of the plan")
            parts[region].append((name, item))
    adopted = []
    for region, items in parts.items():
        wanted = sorted(name for task in graph.tasks if task.id in region for name in graph.instances(task))
        present = sorted(instance for _, item in items for instance in item.instances)
        if present != wanted:
            lacking = sorted(set(wanted) - set(present))
            what = f"{lacking[0]} is gone" if lacking else "an instance is there twice"
            return RestoreAnew(f"not every instance is there once: {what}")
        firsts = {item.beside or item.number for _, item in items}
        if len(firsts) > 1:
            return RestoreAnew(f"instances of one region were built by different deployments: {sorted(firsts)}")
        owners: dict[int, tuple[int, ...]] = {}
        for _, item in items:
            # One that has come since knows nothing of tasks of which nothing has moved since.
            agrees = all(owners.get(task, table) == table for task, table in item.owners.items())
            if item.last_move != items[0][1].last_move or not agrees:
                return RestoreAnew("they do not agree on who owns which key groups")
            owners |= item.owners
        tables = {TaskId(task): np.array(table, np.int32) for task, table in owners.items()}
        for number in sorted({item.number for _, item in items}):
            places = {instance: name for name, item in items for instance in item.instances if item.number == number}
            adopted.append(AdoptedDeployment(number, region, places, items[0][1].last_move, tables))
    return tuple(sorted(adopted, key=lambda item: item.number))


def _claims(held: Mapping[str, Holding]) -> dict[str, Any] | RestoreAnew:
    """Return what sinks left when the writers began, if all task managers say the same of each."""
    claims: dict[str, Any] = {}
    for _, each in sorted(held.items()):
        for sink, claim in each.claims.items():
            if claims.setdefault(sink, claim) != claim:
                return RestoreAnew(f"the writers of {sink!r} are of different starts")
    return claims
