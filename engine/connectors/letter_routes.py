"""Routes of dead letters that go elsewhere than into the job's directory, and the context sent with them.

Used by the job's `DeadLetterWriter`. A target that fails is not asked again: the attempt must end.
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import DECODE, SINK, UDF, DeadLetter, LetterTarget, LetterWriter
from penstock.model.errors import PenstockError, RetryableError
from penstock.model.job_graph import JobGraph, OperatorSpec, SinkSpec, SourceSpec

_TRACEBACK = "Traceback (most recent call last):"
_NO_CLASS = "BadRecordError"


class LetterRoutes:
    """Targets of sources, and one of the job for all other letters. `flush` may be called from another thread."""

    def __init__(
        self,
        job: str,
        graph: JobGraph,
        target: LetterTarget | None = None,
        epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        """Open nothing yet. ``epoch`` returns the last checkpoint that was begun: letters name it."""
        nodes = graph.operators.values()
        self._job = job
        self._target = target
        self._targets: Mapping[str, LetterTarget] = {
            node.name: node.spec.dead_letters
            for node in nodes
            if isinstance(node.spec, SourceSpec) and node.spec.dead_letters is not None
        }
        self._stages = {node.name: _stage(node.spec) for node in nodes}
        self._writers: dict[LetterTarget, LetterWriter] = {}
        self._attempt = 1
        self._epoch = epoch
        self.failure: PenstockError | None = None
        """Why letters cannot be written, once they cannot."""

    def open(self) -> None:
        """Make ready to write, so that a target that cannot be written is noticed before a letter comes.

        Raises:
            UserError: one cannot be.
            RetryableError: not now.
        """
        wanted = {*self._targets.values(), *(() if self._target is None else (self._target,))}
        for target in wanted - self._writers.keys():
            self._writers[target] = target.open(self._job)

    def begin(self, attempt: int) -> None:
        """Let letters name this attempt from now on."""
        self._attempt = attempt

    def place(self, operator: str) -> str | None:
        """Say where the letters of an operator go, None if they have no target."""
        target = self._targets.get(operator, self._target)
        return None if target is None else target.describe()

    def leads(self, operator: str) -> bool:
        """Return whether the letters of an operator have a target."""
        return operator in self._targets or self._target is not None

    def send(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Send letters to their target if they have one; what goes wrong is in `failure`."""
        target = self._targets.get(operator, self._target)
        if target is None or self.failure is not None:
            return
        try:
            self._writers[target].put([self._letter(operator, record) for record in records])
        except PenstockError as error:
            self.failure = error

    def flush(self) -> None:
        """Return when every letter taken so far is safe.

        Raises:
            PenstockError: one is not.
        """
        self._each(lambda writer: writer.flush())

    def close(self) -> None:
        """Flush and end.

        Raises:
            PenstockError: a letter was not written.
        """
        self._each(lambda writer: writer.close())
        self._writers.clear()

    def abort(self) -> None:
        """End after a failure, with as many letters written as is possible soon; no checkpoint may count on them."""
        self.failure = self.failure or RetryableError(f"job {self._job!r} failed before its dead letters were written")
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.abort()

    def _each(self, step: Callable[[LetterWriter], None]) -> None:
        try:
            if self.failure is None:
                for writer in list(self._writers.values()):
                    step(writer)
        except PenstockError as error:
            self.failure = self.failure or error
        if self.failure is not None:
            raise self.failure

    def _letter(self, operator: str, record: RawRecord) -> DeadLetter:
        message, traceback = split_error(record.error)
        stage = self._stages.get(operator, UDF)
        name = _NO_CLASS if traceback is None else message.split(":", 1)[0].strip()
        return DeadLetter(record, operator, stage, name, message, traceback, self._job, self._epoch(), self._attempt)


def split_error(error: str) -> tuple[str, str | None]:
    """Return the message and, if the text is a traceback, all of it; valid UTF-8 whatever the user's code raised."""
    text = error.encode("utf-8", "backslashreplace").decode()
    if not text.startswith(_TRACEBACK):
        return text, None
    lines = text.rstrip().splitlines()
    # Of chained exceptions the last one counts; its message follows the frames, which are indented.
    begins = max(at for at, line in enumerate(lines) if line == _TRACEBACK)
    places = (at for at in range(begins + 1, len(lines)) if not lines[at].startswith((" ", "\t")))
    return "\n".join(lines[next(places, len(lines) - 1) :]), text


def _stage(spec: OperatorSpec) -> str:
    if isinstance(spec, SourceSpec):
        return DECODE
    return SINK if isinstance(spec, SinkSpec) else UDF
