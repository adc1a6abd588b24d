"""Bugs planted on purpose in moves: the simulated property must find each within 200 seeds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.core.elements import Batch, Reroute
from penstock.engine.dataflow.exchange import Hash, Output
from penstock.engine.dataflow.input_gate import InputGate
from penstock.engine.paging.bucket_handover import BucketHandover, GivenBucket
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.state.tables.image import StoreDump
from tests.engine.executors.test_simulated_moves import IN_MEMORY, moving

SEEDS = range(1, 201)


def let_the_watermark_pass(patch: pytest.MonkeyPatch) -> None:
    """The new owner passes watermarks on while what it takes is on its way."""
    held = PagedOperator.output_watermark

    def passing(operator: PagedOperator, time_us: int) -> int:
        passed_us = held(operator, time_us)
        return time_us if operator._stores.awaited else passed_us

    patch.setattr(PagedOperator, "output_watermark", passing)


def drop_timers(patch: pytest.MonkeyPatch) -> None:
    """The timers of a bucket that moves stay behind."""
    install = BucketHandover.install

    def without(part: StoreDump) -> StoreDump:
        batches = {
            name: [rows.slice(0, 0) for rows in batches] if "timers" in name else batches
            for name, batches in part.batches.items()
        }
        return replace(part, batches=batches)

    def bare(handover: BucketHandover, given: GivenBucket) -> None:
        install(handover, replace(given, parts=tuple(map(without, given.parts))))

    patch.setattr(BucketHandover, "install", bare)


def send_by_the_old_owners(patch: pytest.MonkeyPatch) -> None:
    """A producer sends one more batch by the old table behind the marker."""
    send, reroute = Hash.send, Hash.reroute

    def marking(output: Hash, marker: Reroute) -> None:
        Output.reroute(output, marker)
        if marker.task == output.leads_to:
            vars(output).setdefault("late", []).append(marker)

    def sending(output: Hash, batch: Batch) -> None:
        send(output, batch)
        for marker in vars(output).pop("late", []):
            before, output.senders = output.senders, ()
            reroute(output, marker)
            output.senders = before

    patch.setattr(Hash, "reroute", marking)
    patch.setattr(Hash, "send", sending)


def read_on_behind_the_marker(patch: pytest.MonkeyPatch) -> None:
    """A giver or taker does not hold a channel up that has brought the marker."""
    align = InputGate._align

    def aligned(gate: InputGate, index: int, element: object) -> object:
        found = align(gate, index, element)  # type: ignore[arg-type]
        if isinstance(gate._awaited, Reroute):
            gate._blocked.discard(index)
            vars(gate).setdefault("delivered", set()).add(index)
            if len(vars(gate)["delivered"]) + gate._ended == len(gate.inputs):
                marker, gate._awaited = gate._awaited, None
                vars(gate).pop("delivered")
                return gate.inputs[index].port, marker
        return found

    patch.setattr(InputGate, "_align", aligned)


@pytest.mark.parametrize(
    ("plant", "pipeline"),
    [
        (let_the_watermark_pass, "nested"),
        (drop_timers, "slots"),
        (send_by_the_old_owners, "tumbled"),
        (read_on_behind_the_marker, "counted"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = moving(pipeline, tmp_path, IN_MEMORY)
    plant(monkeypatch)
    found = next((seed for seed in SEEDS if undisturbed.run(seed).problem is not None), None)
    assert found is not None
    print(plant.__name__, found, undisturbed.run(found).problem)
