"""Options of a run: the keywords of `run` and `start`, sorted into frozen options."""

import difflib
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.engine.jobs.end_of_input import AtEnd, check_at_end
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.restore.compatibility import AllowedChanges
from penstock.engine.restore.restorer import RestoreFrom
from penstock.model.config import CheckpointOptions, LoopOptions, RestartOptions, check_count
from penstock.model.control import Control
from penstock.model.dead_letter_limit import DEFAULT_LIMIT, DeadLetterLimit, dead_letter_limit
from penstock.model.dead_letters import LetterTarget
from penstock.model.durations import to_microseconds
from penstock.model.errors import OptionError, PlanError
from penstock.model.job_graph import JobGraph, OperatorNode
from penstock.runs.control_file import ControlFile, read_control_file
from penstock.runs.control_layers import overlaid, said_by
from penstock.runs.cores import usable_cores
from penstock.runs.job_options import JobOptions
from penstock.runs.metrics_token import check_reference
from penstock.state.files.durable_files import check_name

EMBEDDED, PROCESSES, RAY = "embedded", "processes", "ray"
TRANSPORTS = ("ring", "tcp")
EXECUTORS = (EMBEDDED, PROCESSES, RAY)
"""What runs instances: this process alone, or several task managers, processes here or actors of a Ray cluster."""

AUTO = "auto"
"""A parallelism: one instance for each core."""

LOOPBACK = ("127.0.0.1", "localhost")
"""Names of this machine from within."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run. ``directory`` holds what it leaves behind (dead letters); default ``.penstock/NAME``.

    ``savepoint_on_stop`` names the savepoint that a stopped job leaves. ``metrics_port``: where its metrics are served
    (None: nowhere, 0: any port that is free); ``metrics_token`` refers to the token that who asks must send,
    ``action_token`` to that of who may stop the job and take savepoints (None: nobody over HTTP).
    ``dead_letters`` is where they go instead of the directory, ``max_dead_letters`` how many bad records of an operator
    are borne. ``take_over`` ends another run that has the checkpoints or an output. ``at_end``: what becomes of open
    windows when all inputs have ended (None: kept if there are checkpoints and a source may grow). ``generated_names``:
    state is found again by the positions of operators where they have no names, as the program does not change.
    ``executor`` and ``task_managers`` say where instances run (None: one process for each core), ``transport`` what
    carries rows between them (None: the best that works); with ``pin`` each has a core of its own; what controllers see
    and decide goes to the file ``action_log``, and what they may do under load (`control`) the ``program`` says, the
    file ``config`` below it, and the command line (``said``) above both. ``address`` is the Ray cluster; ``spread``
    puts them on many of its nodes,
    ``attached`` leaves the head in this process.
    ``parallelism`` is a number, ``auto``, or None: what the executor makes of that; `instances` is what it comes to.
    """

    name: str
    parallelism: int | str | None = None
    directory: Path | None = None
    loop: LoopOptions = LoopOptions()
    checkpoints: CheckpointOptions = CheckpointOptions()
    restarts: RestartOptions = RestartOptions()
    restore: RestoreFrom = RestoreFrom()
    savepoint_on_stop: str | None = None
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK[0]
    metrics_token: str | None = None
    action_token: str | None = None
    dead_letters: LetterTarget | None = None
    at_end: AtEnd | None = None
    max_dead_letters: DeadLetterLimit = DEFAULT_LIMIT
    take_over: bool = False
    generated_names: bool = False
    executor: str = EMBEDDED
    task_managers: int | None = None
    transport: str | None = None
    address: str | None = None
    spread: bool = False
    pin: bool = False
    action_log: Path | None = None
    attached: bool = False
    program: Control | None = None
    config: ControlFile | None = None
    said: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.parallelism, str):
            if self.parallelism != AUTO:
                raise OptionError(f"parallelism is a number or {AUTO!r}, not {self.parallelism!r}")
        elif self.parallelism is not None:
            check_count("parallelism", self.parallelism)
        check_executor(self.executor, self.task_managers, self.transport, self.address)
        for option in ("spread", "attached"):
            if getattr(self, option) and self.executor != RAY:
                raise OptionError(f"{option} needs executor={RAY!r} (--executor {RAY})")
        if self.pin and self.executor != PROCESSES:
            raise OptionError(f"pin needs executor={PROCESSES!r} (--executor {PROCESSES})")
        if self.savepoint_on_stop is not None:
            check_name("savepoint", self.savepoint_on_stop)
        if self.metrics_port is not None:
            check_count("metrics_port", self.metrics_port, least=0)
            if self.metrics_port > 65_535:
                raise OptionError(f"metrics_port must be at most 65535, not {self.metrics_port}")
        if self.action_token is not None:
            check_reference(self.action_token, "action_token")
            if self.metrics_port is None:
                raise OptionError("action_token needs a metrics_port: actions are taken where metrics are served")
        if self.metrics_token is not None:
            check_reference(self.metrics_token)
        elif self.metrics_host not in LOOPBACK:
            raise OptionError(
                f"metrics_host must be {' or '.join(LOOPBACK)}, not {self.metrics_host!r}, unless metrics_token says "
                "where a token is that whoever asks must send: 'file:PATH' or 'env:NAME'."
            )

    @property
    def control(self) -> Control | None:
        """The control of load that the file, the program and the command line say together; None: nobody says any.

        Raises:
            OptionError: together it is impossible; the message says why.
        """
        if self.config is None:
            return with_control(self.program, self.said)
        return self.config.below(self.program, what_is_said(self.said))

    def check_control(self) -> None:
        """Refuse a control of load that is impossible; only here all that say it are known."""
        _ = self.control

    @property
    def instances(self) -> int:
        """The number of instances of each operator that does not say otherwise.

        It is one for each task manager unless a number was given, though not more than key groups, which could not all
        have one. The embedded executor uses one core, where more than one would only cost.
        """
        if isinstance(self.parallelism, int):
            return self.parallelism
        if self.executor == EMBEDDED:
            return 1
        return min(self.task_managers or usable_cores(), self.loop.key_groups)

    @property
    def has_head_actor(self) -> bool:
        """Whether the job's head is an actor of its own, and not in this process."""
        return self.executor == RAY and not self.attached

    @property
    def job_directory(self) -> Path:
        """The folder of the job's own files."""
        return self.directory or Path(".penstock") / self.name


LOOP: Mapping[str, str] = {
    **{name: name for name in LoopOptions.__dataclass_fields__ if name != "emit_interval_us"},
    "emit_interval": "emit_interval_us",
}
CHECKPOINTS: Mapping[str, str] = {
    "checkpoint_dir": "directory",
    "checkpoint_interval": "interval_ms",
    "checkpoint_timeout": "timeout_ms",
    "retain_checkpoints": "retain",
    "max_failed_checkpoints": "max_failed",
}
RESTARTS: Mapping[str, str] = {
    "restarts": "attempts",
    "restart_delay": "first_delay_ms",
    "start_timeout": "start_timeout_ms",
}
"""Options of a job by the fields of `LoopOptions`, `CheckpointOptions` and `RestartOptions` that they set."""

DURATIONS = ("emit_interval", "checkpoint_interval", "checkpoint_timeout", "restart_delay", "start_timeout")
AS_THEY_ARE = (
    "savepoint_on_stop",
    "metrics_port",
    "metrics_host",
    "metrics_token",
    "action_token",
    "task_managers",
    "transport",
    "address",
    "spread",
    "attached",
)
"""The options that `RunOptions` has under the same name and takes without a look."""


def make_options(name: str | None, options: Mapping[str, Any]) -> RunOptions:
    """Sort keyword options; `JobOptions` says what each means.

    Raises:
        OptionError: an option is unknown, the message names the valid ones; or its value is impossible.
    """
    unknown = sorted(set(options) - set(JobOptions.__annotations__))
    if unknown:
        close = difflib.get_close_matches(unknown[0], JobOptions.__annotations__, 1)
        hint = f"did you mean {close[0]!r}? Valid options" if close else "valid options"
        raise OptionError(f"unknown option {unknown[0]!r}; {hint} are {', '.join(sorted(JobOptions.__annotations__))}")
    directory = options.get("directory")
    return RunOptions(
        name or default_name(),
        options.get("parallelism"),
        Path(directory) if directory else None,
        LoopOptions(**changed_fields(LOOP, options)),
        _checkpoints(options),
        RestartOptions(**changed_fields(RESTARTS, options)),
        restore_from(
            options.get("restore", "latest"),
            drop_state=options.get("drop_state", False),
            accept_changed=options.get("accept_changed", ()),
            accept_duplicates=bool(options.get("accept_duplicates", False)),
        ),
        dead_letters=letter_target(options.get("dead_letters")),
        at_end=check_at_end(options.get("at_end")),
        max_dead_letters=dead_letter_limit(options.get("max_dead_letters", DEFAULT_LIMIT)),
        take_over=bool(options.get("take_over", False)),
        executor=options.get("executor", EMBEDDED),
        pin=bool(options.get("pin", False)),
        action_log=Path(options["action_log"]) if options.get("action_log") else None,
        program=_control(options.get("control")),
        config=read_control_file(options["config"]) if options.get("config") else None,
        **{key: options[key] for key in AS_THEY_ARE if key in options},
    )


def _control(control: object) -> Control | None:
    if control is not None and not isinstance(control, Control):
        raise OptionError(f"control is a penstock.Control(...), not {control!r}")
    return control


def with_control(control: Control | None, said: Mapping[str, Any]) -> Control | None:
    """Return the control of a program or a file with what the command line says beside it; None: that is nothing.

    Raises:
        OptionError: it is impossible; the message names the valid values.
    """
    changed = what_is_said(said)
    return overlaid(said_by(control), changed) if changed else control


def what_is_said(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command line that were given."""
    return {name: value for name, value in options.items() if value not in (None, {}, ())}


def parallelism_option(text: str) -> int | str:
    """Return a parallelism as it is written on the command line: a number, or ``auto``.

    Raises:
        OptionError: it is neither.
    """
    if text == AUTO:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"--parallelism is a count, or {AUTO}, not {text!r}")
    return int(text)


def check_executor(executor: str, task_managers: int | None, transport: str | None, address: str | None = None) -> None:
    """Check what says where a job runs.

    Raises:
        OptionError: there is no such executor or transport, or it has no task managers, or no address.
    """
    if executor not in EXECUTORS:
        raise OptionError(f"executor is {', '.join(map(repr, EXECUTORS[:-1]))} or {EXECUTORS[-1]!r}, not {executor!r}")
    if address is not None and executor != RAY:
        raise OptionError(f"address needs executor={RAY!r} (--executor {RAY})")
    if transport is not None and transport not in TRANSPORTS:
        raise OptionError(f"transport is {' or '.join(map(repr, TRANSPORTS))}, not {transport!r}")
    if task_managers is not None:
        check_count("task_managers", task_managers)
    if executor == EMBEDDED and (task_managers is not None or transport is not None):
        option = "task_managers" if task_managers is not None else "transport"
        raise OptionError(
            f"{option} needs executor={PROCESSES!r} or {RAY!r} (--executor {PROCESSES}, --executor {RAY})"
        )


def changed_fields(fields: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those ``fields`` that options set, by field.

    Raises:
        OptionError: a duration is none.
    """
    return {field: _in_unit(option, options[option], field) for option, field in fields.items() if option in options}


def _in_unit(option: str, value: Any, field: str) -> Any:
    if option == "checkpoint_dir":
        return None if value is None else str(value)
    if option not in DURATIONS:
        return value
    value_us = to_microseconds(value, option)
    return value_us if field.endswith("_us") else value_us // 1_000


def letter_target(where: str | LetterTarget | None) -> LetterTarget | None:
    """Return where dead letters go: what ``dead_letters=`` says.

    Raises:
        OptionError: it says something else.
    """
    if where is None or isinstance(where, LetterTarget):
        return where
    if not isinstance(where, str):
        raise OptionError("dead_letters is kafka://HOST:PORT/TOPIC or a dead_letter_topic(...)")
    from penstock.engine.connectors.kafka.letter_topic import parse_target

    return parse_target(where)


def restore_from(
    where: str | None,
    *,
    drop_state: bool | str | Collection[str] = False,
    accept_changed: str | Collection[str] = (),
    accept_duplicates: bool = False,
) -> RestoreFrom:
    """Return the start of a job: ``latest``, ``none``, or a savepoint by its name.

    Raises:
        OptionError: ``drop_state`` or ``accept_changed`` are no names of operators.
    """
    savepoint = where if where not in (None, "none", "latest") else None
    dropped = frozenset[str]() if isinstance(drop_state, bool) else _operators("drop_state", drop_state)
    allowed = AllowedChanges(drop_state is True, dropped, _operators("accept_changed", accept_changed))
    return RestoreFrom(where not in (None, "none") and savepoint is None, savepoint, allowed, accept_duplicates)


def _operators(option: str, names: str | Collection[str]) -> frozenset[str]:
    operators = [names] if isinstance(names, str) else names
    if not isinstance(operators, Collection) or not all(isinstance(name, str) for name in operators):
        raise OptionError(f"{option} is the name of an operator or a list of names, not {names!r}")
    return frozenset(operators)


def check_named(graph: JobGraph) -> None:
    """Refuse a pipeline with state whose operators could not be found again after a restart.

    Raises:
        PlanError: naming every operator that needs a name, where it stands, and what to write.
    """
    nodes = [node for node in graph.operators.values() if descriptor_of(node.spec).stateful]
    unnamed = [node for node in nodes if not node.named]
    if unnamed:
        raise PlanError(
            "with checkpoints every source, stateful operator and sink needs a name by which its state is found again: "
            f"write .name('...') behind {'; '.join(map(_place, unnamed))}"
        )


def default_name() -> str:
    """Name a job after the program's file."""
    program = Path(sys.argv[0] or "job").stem if sys.argv else "job"
    return program if program and not program.startswith("-") else "job"


def _checkpoints(options: Mapping[str, Any]) -> CheckpointOptions:
    fields = changed_fields(CHECKPOINTS, options)
    idle = [option for option in CHECKPOINTS if option in options and option != "checkpoint_dir"]
    if idle and fields.get("directory") is None:
        raise OptionError(f"{idle[0]} needs a checkpoint_dir")
    return CheckpointOptions(**fields)


def _place(node: OperatorNode) -> str:
    return f"{node.name} ({node.where})" if node.where else node.name
