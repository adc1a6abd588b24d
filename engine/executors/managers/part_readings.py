"""The readings of one task manager as a message, and back."""

from penstock.engine.control.part_reading import PartReading, decode_table, encode_table, read_part
from penstock.engine.executors.hosted_instances import HostedInstances
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.host_probe import Probe


def read_all(probe: Probe, hosted: HostedInstances | None, now_ns: int) -> ms.Readings:
    """Read a process, and what it hosts (None: nothing)."""
    machine = probe.read()
    if hosted is None:
        return ms.Readings(machine)
    part = read_part(hosted.build, now_ns)
    return ms.Readings(machine, encode_table(part.instances), encode_table(part.sent), encode_table(part.received))


def part_of(readings: ms.Readings) -> PartReading | None:
    """Return what was read of instances, at the time of the machine's reading; None: there were none."""
    if not readings.instances:
        return None
    tables = map(decode_table, (readings.instances, readings.sent, readings.received))
    return PartReading(readings.machine.time_ns, *tables)
