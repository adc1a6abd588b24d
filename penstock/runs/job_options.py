"""The keywords of `run` and `start`: each once, with its type and what it does.

An option is added here; `penstock.runs.run_options` says what becomes of it, and the command line may offer it.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Literal, TypedDict

from penstock.engine.jobs.end_of_input import AtEnd
from penstock.model.control import Control
from penstock.model.dead_letters import LetterTarget
from penstock.model.durations import Duration


class JobOptions(TypedDict, total=False):
    """Keywords of `run` and `start`, beside ``name``."""

    parallelism: int | Literal["auto"]
    """Instances of each operator that does not say otherwise; default ``"auto"``: one for each task manager, and
    one in all by the embedded executor."""

    executor: Literal["embedded", "processes", "ray"]
    """Where instances run: ``"embedded"`` (default) in this process, or on several task managers: ``"processes"`` of
    this machine, or actors on a cluster of ``"ray"``."""

    task_managers: int | None
    """Processes that run instances; default: one for each core that they may use, or CPU that the cluster has free."""

    transport: Literal["ring", "tcp"] | None
    """What carries rows between task managers: ``"ring"`` or ``"tcp"``; default: shared memory where there is any."""

    address: str | None
    """Ray cluster of the executor ``"ray"``, as ``host:6379``; default: the one that ``RAY_ADDRESS`` names or that this
    process is connected to, or else one on this machine that ends with the job."""

    spread: bool
    """Task managers on as many nodes of a Ray cluster as there are, not on as few as have room; default False."""

    pin: bool
    """Give each task manager a core of its own, of those that the job may use; default: the system moves them."""

    action_log: str | Path | None
    """A file for what controllers see each second and would do, which ``penstock decide`` reads; default: none, but
    where they act ``actions.jsonl`` in the job's ``directory``, for what those see and do who shed and scale."""

    control: Control | None
    """What controllers may do under load, as `Control` (``shed="qod", mode="act"``); default None: nothing."""

    config: str | Path | None
    """A file of TOML that says what ``control`` does, and what queries are promised, where the program does not."""

    attached: bool
    """With the executor ``"ray"``: the head stays in this process, whose lists, callbacks and memory sinks the job may
    then use, and the job ends with it; default False: the head is an actor, and the job outlives this process."""

    directory: str | Path
    """Where the job's own files go, such as dead letters; default ``.penstock/NAME``."""

    batch_rows: int
    """The most rows in a batch; default 131,072."""

    linger_ms: int
    """How long a source may wait to fill a batch; default 10."""

    emit_interval: Duration
    """How long changes of updating results wait for more of them at most; default ``"100ms"``."""

    channel_bytes: int
    """Bytes that a channel holds before its producer waits; default 8 MiB."""

    idle_timeout_ms: int
    """How long a source has nothing before its watermark no longer counts; default 30,000."""

    key_groups: int
    """Key groups of a stateful operator, kept for life; default 128."""

    state_bytes: int | None
    """Byte budget of keyed state for each operator instance; default None, unbounded."""

    seed: int
    """What random choices begin from; default 0."""

    checkpoint_dir: str | Path | None
    """A path or a URL: turns checkpoints on, and says where they lie."""

    checkpoint_interval: Duration
    """From the start of one checkpoint to that of the next; default ``"10s"``."""

    checkpoint_timeout: Duration
    """After which a checkpoint that is not complete is given up; default ``"10m"``."""

    retain_checkpoints: int
    """How many complete checkpoints are kept; default 3."""

    max_failed_checkpoints: int
    """So many checkpoints in a row may fail before the job does; default 10."""

    restarts: int | None
    """How often in a row the job begins again after failures that may pass; default None, for ever."""

    restart_delay: Duration
    """The wait before the first restart, which doubles with each; default ``"500ms"``."""

    start_timeout: Duration
    """How long a job that has never run is tried to be started, as while a broker is away; default ``"4s"``."""

    restore: str | None
    """Where the job begins: ``"latest"`` (default), ``"none"`` or the name of a savepoint."""

    at_end: AtEnd
    """When all input was read: ``"keep"`` leaves open windows to the next run, ``"close"`` closes them; default
    ``"keep"`` if there are checkpoints and a source may grow, as a topic or a directory does."""

    drop_state: bool | str | Collection[str]
    """Operators whose state may go if they have changed or are gone; True: of all that are gone."""

    accept_changed: str | Collection[str]
    """Operators that go on although what they mean has changed, and sinks although their output was changed."""

    accept_duplicates: bool
    """Let Kafka sinks write again what they have written after the checkpoint."""

    take_over: bool
    """Begin although another run that lives has the checkpoint directory or an output: that one ends."""

    dead_letters: str | LetterTarget | None
    """Where dead letters go instead of the directory: ``kafka://HOST:PORT/TOPIC`` or a `dead_letter_topic`."""

    max_dead_letters: int | float | str | None
    """Bad records of an operator that are borne: a count, a share such as ``"5%"``, ``"any"``; default: not all."""

    savepoint_on_stop: str | None
    """When the job is stopped, keep its last checkpoint as this savepoint."""

    metrics_port: int | None
    """Serve metrics and the HTTP API at this port while the job runs, 0: any that is free; default None, nowhere."""

    metrics_host: str
    """The address at which metrics are served; default ``127.0.0.1``. Any but loopback needs a ``metrics_token``."""

    metrics_token: str | None
    """Where the token is that who asks for metrics must send: ``env:NAME`` or ``file:PATH``, never the token itself."""

    action_token: str | None
    """Where the token is that stops the job and takes savepoints over HTTP; default None: one made for its own user."""
