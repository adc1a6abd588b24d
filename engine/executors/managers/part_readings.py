"""The readings and the status of one task manager as messages, and back."""

from penstock.engine.control.part_reading import (
    COUNTS,
    ERRORS,
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

_NO_ERRORS, _NO_SIC, _NO_COUNTS = ERRORS.empty_table(), SIC.empty_table(), COUNTS.empty_table()


def read_all(probe: Probe, hosted: HostedInstances | None, parts: DeployedParts, now_ns: int) -> ms.Readings:
    """Read a process, and what it hosts (None: nothing), with what is in force in its ``parts``."""
    machine = probe.read()
    if hosted is None:
        return ms.Readings(machine)
    part = read_part(hosted.build, now_ns)
    return ms.Readings(
        machine,
        encode_table(part.instances),
        encode_table(part.sent),
        encode_table(part.received),
        encode_table(part.partitions),
        parts.keep_now(),
        encode_table(part.errors) if len(part.errors) else b"",
        encode_table(part.sic) if len(part.sic) else b"",
        parts.sic.checks,
        encode_table(part.reuse) if len(part.reuse) else b"",
        encode_table(part.group_rows) if len(part.group_rows) else b"",
    )


def part_of(readings: ms.Readings) -> PartReading | None:
    """Return what was read of instances, at the time of the machine's reading; None: there were none."""
    if not readings.instances:
        return None
    instances, sent, received, partitions = map(
        decode_table, (readings.instances, readings.sent, readings.received, readings.partitions)
    )
    errors = decode_table(readings.errors) if readings.errors else _NO_ERRORS
    sic = decode_table(readings.sic) if readings.sic else _NO_SIC
    reuse, group_rows = (decode_table(data) if data else _NO_COUNTS for data in (readings.reuse, readings.group_rows))
    tables = (instances, sent, received, partitions, errors, sic)
    return PartReading(readings.machine.time_ns, *tables, readings.checks, reuse, group_rows)


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
