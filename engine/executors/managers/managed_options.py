"""Options of a job on task managers, whatever starts these."""

from dataclasses import dataclass

from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.jobs.bad_records import BadRecords


@dataclass(frozen=True, slots=True)
class ManagedOptions:
    """Options of a job on task managers: what its instances need, and its bad records over all attempts."""

    host: HostOptions
    bad_records: BadRecords
