"""The exception tree.

PenstockError
├── UserError              the pipeline, an option or the input is wrong: fix it and run again
│   ├── PlanError          the pipeline cannot be built or would not mean anything
│   │   ├── ExpressionError    an unknown column or an ill-typed expression
│   │   └── SchemaError        fields or types do not fit
│   ├── OptionError        an option has no such name or an impossible value
│   ├── BadRecordError     a record could not be read or processed, and on_error="fail"
│   ├── OutputClosedError  whoever read what is printed has gone; uncaught, it ends the program quietly
│   ├── DeadLetterLimitError  more records were bad than max_dead_letters allows
│   ├── NumericOverflowError  a number left the range of its type
│   └── InUseError         another run that lives has the checkpoints or the output: wait, stop it, or take over
├── RetryableError         the outside world failed; trying again may help
│   ├── WorkerLostError    whatever ran a part of the job is gone
│   │   └── WorkerLeftError  it goes as it was told to, which counts as no failure
│   └── StateIoError       the disk below keyed state failed or is full; restart from the checkpoint
├── FatalError             the job cannot go on (a budget, a lost guarantee)
│   ├── FencedError        another run has taken over; this one ends
│   ├── CheckpointError    a checkpoint or savepoint is missing, damaged or not readable by this version
│   ├── StateBudgetError   keyed state outgrew its bytes and nothing lies below it
│   └── StateCorruptionError  bytes of keyed state on disk are not those that were written
└── BugError               an invariant of Penstock broke: please report it
"""

from penstock.model.notebook_errors import Sentence

PIPE_CLOSED = 141
"""128 and the number of SIGPIPE: what shells say of a program whose output nobody reads any more."""


class PenstockError(Exception):
    """The base class of all errors that Penstock raises deliberately."""


class UserError(PenstockError, Sentence):
    """The pipeline, an option or the input is wrong; the message says what to change."""


class PlanError(UserError):
    """The pipeline cannot be built."""


class ExpressionError(PlanError):
    """An expression names an unknown column or combines types that do not fit."""


class SchemaError(PlanError):
    """Fields or types do not fit."""


class OptionError(UserError):
    """An option has no such name or an impossible value."""


class BadRecordError(UserError):
    """A record could not be read or processed and the policy is ``fail``."""


class OutputClosedError(UserError, SystemExit):
    """Whoever read what is printed has gone, as ``head`` does. Trying again does not help.

    Uncaught it ends the program without a word, with the exit code of a program that such a pipe has ended.
    """

    def __init__(self, message: str) -> None:
        """Name what could not be written in ``message``."""
        super().__init__(message)
        self.code = PIPE_CLOSED


class DeadLetterLimitError(UserError):
    """More records could not be read or processed than ``max_dead_letters`` allows."""


class NumericOverflowError(UserError):
    """A number left the range of its type; Penstock never wraps."""


class InUseError(UserError):
    """Another run that lives has the checkpoints or the output; the message says who, and since when."""


class RetryableError(PenstockError, Sentence):
    """The outside world failed in a way that may pass."""


class WorkerLostError(RetryableError):
    """Whatever ran a part of the job is gone: killed, crashed or out of reach."""


class WorkerLeftError(WorkerLostError):
    """Whatever ran a part of the job goes, as it was told to: that part begins elsewhere, and nothing has failed."""


class PlanChangedError(RetryableError):
    """A job goes on with another plan, as it was asked to: its attempt ends, and is no failure."""


class StateIoError(RetryableError):
    """The disk below keyed state failed or is full; the store is lost, its last checkpoint is not."""


class FatalError(PenstockError, Sentence):
    """The job cannot go on."""


class FencedError(FatalError):
    """Another run has taken over; nothing that this one does from now on is visible."""


class CheckpointError(FatalError):
    """A checkpoint or a savepoint is missing, damaged or not readable by this version."""


class StateBudgetError(FatalError):
    """Keyed state outgrew its byte budget and nothing lies below it."""


class StateCorruptionError(FatalError):
    """Bytes of keyed state on disk are not those that were written; only another copy of them helps."""


class BugError(PenstockError):
    """An invariant of Penstock broke; please report it with the message."""
