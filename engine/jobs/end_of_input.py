"""The end of a run's inputs: the choice to keep or close open windows, and sentences on the sources of a later run.

A bound belongs to a run, a position to the checkpoint. Decided when a job is made ready; said by the recovering job.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.connectors import Source
from penstock.model.errors import OptionError
from penstock.model.job_graph import JobGraph, SourceSpec

AtEnd = Literal["keep", "close"]
"""``keep`` leaves windows open for a later run, ``close`` closes them: their results are final."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CLOSED = (
    "CLOSED: all input of this run was read and every window closed; rows of a later run cannot join them "
    "(at_end='keep' would keep them open)."
)


def check_at_end(value: str | None) -> AtEnd | None:
    """Return the option ``at_end``; None: it was not given.

    Raises:
        OptionError: it is no such word.
    """
    for option in get_args(AtEnd):
        if value == option:
            chosen: AtEnd = option
            return chosen
    if value is None:
        return None
    raise OptionError(f"at_end must be 'keep' or 'close', not {value!r}")


def keeps_open(graph: JobGraph, at_end: AtEnd | None, *, checkpoints: bool) -> bool:
    """Return whether windows stay open when all inputs have ended: by default if a source may grow until the next run.

    A job with a source that never ends has no such moment, and one without checkpoints nowhere to keep them.

    Raises:
        OptionError: they are to be kept without checkpoints.
    """
    if not checkpoints:
        if at_end == "keep":
            raise OptionError("at_end='keep' keeps windows in a checkpoint: give a checkpoint_dir (--checkpoint-dir)")
        return False
    sources = list(_sources(graph))
    if at_end == "close" or not all(source.bounded for _, source in sources):
        return False
    return at_end == "keep" or any(source.grows for _, source in sources)


def says_end(graph: JobGraph, at_end: AtEnd | None) -> bool:
    """Return whether there was a choice that the user should hear of."""
    return at_end is not None or any(source.grows for _, source in _sources(graph))


def begin_run(graph: JobGraph) -> None:
    """Let every source look up its bounds anew: a run begins."""
    for _, source in _sources(graph):
        source.begin_run()


def passed_over(graph: JobGraph, restored: RestoredState) -> Iterator[str]:
    """Yield a sentence for each source of which an option is for jobs without a checkpoint only."""
    for name, source in _sources(graph):
        option = source.first_run_only()
        if option is not None and restored.positions(name):
            yield (
                f"NOT FOLLOWED: {option} of source {name!r} is where a first run begins; this one goes on from the "
                f"checkpoint of epoch {restored.epoch} (restore='none' starts anew)."
            )


def open_windows_sentence(metrics: JobMetrics) -> str:
    """Say that windows stay open, and from which time on."""
    times = [
        f"{source.source!r} is at {_text(source.watermark_us)}, windows that end later are open"
        for source in metrics.sources
        if source.watermark_us is not None
    ]
    where = f" ({'; '.join(times)})" if times else ""
    return (
        f"KEPT: all input of this run was read; its state is in the checkpoint{where}, and the next run goes on there "
        "(at_end='close' would close windows for good)."
    )


def _text(time_us: int) -> str:
    """Return a time as ISO 8601 text; one that no calendar has as microseconds."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{time_us} us"


def _sources(graph: JobGraph) -> Iterator[tuple[str, Source]]:
    for node in graph.operators.values():
        if isinstance(node.spec, SourceSpec):
            yield node.name, node.spec.source
