"""The readings and the status of one task manager as messages, and back."""

import numpy as np

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import (
    COUNTS,
    DROPPED,
    ERRORS,
    INSTANCES,
    PARTITIONS,
    RECEIVED,
    SENT,
    SIC,
    PartReading,
    decode_table,
    encode_table,
    read_part,
)
from penstock.engine.dataflow.build import Build
from penstock.engine.executors.hosted_instances import HostedInstances
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployed_parts import DeployedParts
from penstock.engine.executors.managers.host_probe import Probe
from penstock.engine.jobs.part_status import read_status
from penstock.engine.transport.link_set import LinkSet
from penstock.model.keep_rates import KeepRates

_NO_ERRORS = ERRORS.empty_table()


def read_all(probe: Probe, hosted: HostedInstances | None, parts: DeployedParts, now_ns: int) -> ms.Readings:
    """Read a process, and what it hosts (None: nothing), with what is in force in its ``parts``."""
    machine = probe.read()
    if hosted is None:
        return ms.Readings(machine)
    return said(machine, read_part(hosted.build, now_ns, parts.sic.checks), parts.keep_now())


def said(machine: MachineReading, part: PartReading, keep: ms.SetKeep | None = None) -> ms.Readings:
    """Return what was read of a process and of its instances as a message, with the rates in force."""
    return ms.Readings(
        machine,
        part.instances.tobytes(),
        part.sent.tobytes(),
        part.received.tobytes(),
        part.partitions.tobytes(),
        part.partition_names,
        keep,
        encode_table(part.errors) if len(part.errors) else b"",
        part.sic.tobytes(),
        part.checks,
        part.reuse.tobytes(),
        part.group_rows.tobytes(),
        part.group_bytes.tobytes(),
        part.dropped.tobytes(),
    )


def part_of(readings: ms.Readings) -> PartReading | None:
    """Return what was read of instances, at the time of the machine's reading; None: there were none."""
    if readings.instances is None:
        return None
    return PartReading(
        readings.machine.time_ns,
        np.frombuffer(readings.instances, INSTANCES),
        np.frombuffer(readings.sent, SENT),
        np.frombuffer(readings.received, RECEIVED),
        np.frombuffer(readings.partitions, PARTITIONS),
        readings.partition_names,
        decode_table(readings.errors) if readings.errors else _NO_ERRORS,
        np.frombuffer(readings.sic, SIC),
        readings.checks,
        np.frombuffer(readings.reuse, COUNTS),
        np.frombuffer(readings.group_rows, COUNTS),
        np.frombuffer(readings.group_bytes, COUNTS),
        np.frombuffer(readings.dropped, DROPPED),
    )


def keep_of(readings: ms.Readings) -> KeepRates | None:
    """Return the rates in force, None: none were set."""
    return None if readings.keep is None else readings.keep.rates()


def status_of(order: ms.ReadStatus, build: Build, links: LinkSet[int], *, is_idle: bool) -> ms.Status:
    """Return how what was built here is doing, as it was asked for."""
    sent, received = links.counts()
    status = read_status(
        build,
        idle=is_idle,
        sent=sent,
        received=received,
        undecided=order.undecided,
        last_barrier=order.last_barrier,
    )
    return ms.Status(order.number, status)
