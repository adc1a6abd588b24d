"""A small job with checkpoints, and crashes at the count-th failpoint."""

import numpy as np

from penstock.model import failpoints
from penstock.state.checkpoints.manifest import CheckpointManifest, InstanceEntry, SinkEntry, SourceEntry, pack_notes
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles


class Crash(BaseException):
    """The power went."""


def crash_at(count):
    """Fail at the count-th point that is passed."""
    passed = iter(range(count))

    def point(name):
        if next(passed, None) is None:
            raise Crash(name)

    failpoints.arm(point)


def simulated(seed=0, **faults):
    disk = SimulatedDisk(np.random.default_rng(seed), **faults)
    return disk, CheckpointRepository(SimulatedFiles(disk))


def content(epoch):
    """Return the files of an epoch: one that never changes, one of its own, one shared with a neighbour."""
    return {
        "base.sst": b"never changes" * 90,
        f"{epoch}.sst": f"only epoch {epoch} ".encode() * 40,
        f"half-{epoch // 2}.sst": f"half {epoch // 2} ".encode() * 70,
    }


def manifest_of(epoch, entries=(), job="job", **others):
    instance = InstanceEntry(
        operator="counts",
        instance=0,
        key_groups=((0, 100), (120, 128)),
        files=tuple(entries),
        notes=pack_notes({"watermark_us": epoch, "bytes": b"\0\xff", "inf": float("inf"), "none": None, "text": "ä"}),
    )
    defaults = {
        "created_us": 1_700_000_000_000_000 + epoch,
        "engine_version": "0.1",
        "parallelism": {"counts": 1},
        "key_groups": 128,
        "instances": (instance,),
        "sources": (SourceEntry(operator="bids", positions={"a.json": [3, "x", {"offset": 7}]}),),
        "sinks": (SinkEntry(operator="out", receipts=({"part": "p-1"},)),),
        "ledger": {"rows_in": 10 * epoch},
    }
    return CheckpointManifest(job=job, epoch=epoch, **(defaults | others))


def checkpoint(repository, epoch):
    """Take a checkpoint of `content`."""
    entries = [repository.add_file(epoch, name, data) for name, data in content(epoch).items()]
    return repository.publish(manifest_of(epoch, entries))


def restored(repository, loaded):
    """Return the files of what was loaded."""
    return {
        entry.name: repository.contents(loaded.savepoint).read(entry)
        for instance in loaded.manifest.instances
        for entry in instance.files
    }


def is_whole(repository, loaded):
    """Whether what was loaded is exactly what `checkpoint` took for its epoch."""
    entries = loaded.manifest.instances[0].files
    epoch = loaded.manifest.epoch
    return loaded.manifest == manifest_of(epoch, entries) and restored(repository, loaded) == content(epoch)
