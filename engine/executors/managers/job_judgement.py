"""The judgement on a whole job, of what its task managers say: bad records, its rest, rows that do not arrive."""

from collections.abc import Collection, Mapping, Sequence

from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.status_rounds import StatusRounds
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.rows_decided import RowsDecided, decided_at
from penstock.engine.jobs.stop_patience import StopPatience
from penstock.model.errors import PenstockError
from penstock.model.execution_graph import ExecutionGraph


class JobJudgement:
    """What no task manager can decide alone, of one attempt. Pure, but for the `BadRecords` of the run."""

    def __init__(self, graph: ExecutionGraph, bad_records: BadRecords, *, rests: bool) -> None:
        """Begin without a word from any; ``rests``: the job ends with a checkpoint once it is at rest."""
        self.graph, self._bad_records, self._rests = graph, bad_records, rests
        self._awaits_rest = rests
        self._rounds = StatusRounds(graph)
        self._patience: StopPatience | None = None
        self._verdict: PenstockError | None = None
        self._is_stopping = False

    def come_to(self, graph: ExecutionGraph) -> None:
        """Judge by another plan of the same operators."""
        self.graph = self._rounds.graph = graph

    @property
    def due_ns(self) -> int | None:
        """When task managers are to be asked again, None: not before something is said, or never."""
        undecided = bool(self._bad_records.undecided)
        return self._rounds.due_ns if self._awaits_rest or undecided or self._patience is not None else None

    def ask(self, managers: Collection[str], last_barrier: int | None) -> ms.ReadStatus:
        """Return what to ask these task managers: a new round begins.

        ``last_barrier`` is that of the last checkpoint, None: it has not begun.
        """
        return ms.ReadStatus(self._rounds.begin(managers), tuple(self._bad_records.undecided), last_barrier)

    def hear(self, manager: str, answer: ms.Status, now_ns: int) -> None:
        """Take in what a task manager answers."""
        if self._rounds.add(manager, answer.number, answer.status, now_ns):
            status = self._rounds.latest
            assert status is not None
            self.judge(status.decided)

    def judge(self, decided: Mapping[str, RowsDecided]) -> PenstockError | None:
        """Return why the job must fail of its bad records, None if it may go on; once it must, it always must.

        ``decided`` is of all instances of the `BadRecords.undecided` operators.
        """
        if self._bad_records.undecided:
            verdict = self._bad_records.verdict(decided, stopping=self._is_stopping)
            self._verdict = self._verdict or verdict
        return self._verdict

    def refuse(self, parts: Sequence[Contribution], *, last: bool) -> PenstockError | None:
        """Return why the job must fail instead of publishing a checkpoint of these parts, the ``last`` one or not."""
        if not self._bad_records.undecided:
            return self._verdict
        return self.judge(decided_at(self.graph, parts, last=last))

    def failure(self, now_ns: int) -> PenstockError | None:
        """Return why the job must fail: its bad records, or rows that do not arrive although it is to stop."""
        status = self._rounds.latest
        if self._verdict is not None or self._patience is None or status is None:
            return self._verdict
        return self._patience.look(now_ns, status.outstanding)

    def stop(self, *, checkpoints: bool) -> None:
        """The job is told to stop; with ``checkpoints`` what does not arrive is sent again by the next run."""
        self._is_stopping = True
        self._patience = self._patience or StopPatience(checkpoints=checkpoints)

    def take_rest(self) -> bool:
        """Return whether it is seen now, for the first time, that nothing can happen any more without the outside."""
        if not self._awaits_rest or not self._rounds.at_rest():
            return False
        self._awaits_rest = False
        return True

    def forget(self) -> None:
        """Pass over what task managers have said of a round: one of them has left."""
        self._rounds.forget()

    def began(self, decided: Mapping[str, RowsDecided]) -> None:
        """Instances are about to run; ``decided`` is what a checkpoint had counted of their operators."""
        self._awaits_rest = self._rests
        self._rounds.forget()
        self._bad_records.began(decided)

    def ended(self, decided: Mapping[str, RowsDecided]) -> None:
        """Instances are gone, their operators having decided so much."""
        self._rounds.forget()
        self._bad_records.ended(decided)
