"""The faults that strike one process and its files, as scripts for `penstock.chaos.trials`.

They are R1 to R3, R8, S1, S2 and S5 of docs/design/fault-tests.md 2. Each is drawn from one seed. Called by the tests
with few kills, and by ``make chaos`` with many.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.chaos.child import Start
from penstock.chaos.experiment import ChaosOptions, ChaosReport
from penstock.chaos.trials import Chaos
from penstock.commands.loading import capture
from penstock.engine.core.failpoint_settings import FailpointSetting
from penstock.model.failpoint_names import MEANINGS
from tests.chaos.damage import damage_newest

PIPELINE = Path(__file__).with_name("pipeline.py")
INTERVAL = "20ms"
BATCH_ROWS = 1_024
NOT_PASSED = ("manager.", "kafka.", "savepoint.", "images.", "pages.flush.segment", "sink.rollback.remove")
"""Points of task managers, of Kafka, of savepoints, of large state, of the simulator, and of damaged checkpoints.

`Attacker.damage` comes by the last ones.
"""
SMALL_STATE = 200_000
"""Bytes of an instance's state in memory that make the pipeline write pages all the time."""

COMMITTING = (
    "checkpoint.manifest.published",
    "checkpoint.before_commit",
    "sink.commit.before",
    "sink.manifest.synced",
    "sink.manifest.renamed",
    "sink.move.before",
    "sink.move.after",
    "sink.move.synced",
    "checkpoint.between_commits",
    "checkpoint.after_commit",
)
RECOVERING = (
    "job.loaded",
    "job.sink.recovering",
    "sink.recover.before",
    "sink.rollback.before",
    "sink.rollback.after",
    "sink.recover.after",
    "job.sinks_recovered",
    "job.restored",
    "job.running",
)
ROLLING_BACK = ("sink.rollback.before", "sink.rollback.remove", "sink.rollback.removed", "sink.rollback.after")


class Attacker:
    """Attacks the pipeline of this package; every attack has its own directory below ``folder``."""

    def __init__(
        self,
        folder: Path,
        start: Start,
        events: int,
        parallelism: tuple[int, ...] = (1,),
        checkpoint_interval: str = INTERVAL,
        state_bytes: int | None = None,
    ) -> None:
        """Every life of the job comes from ``start``."""
        self._arguments = (str(events),) if state_bytes is None else (str(events), str(state_bytes))
        self._folder, self._start, self._parallelism = folder, start, parallelism
        self._interval = checkpoint_interval
        self._attacks = 0

    def moments(self, kills: int, seed: int) -> ChaosReport:
        """R1: at seeded moments."""
        return self._run(ChaosOptions(kills, seed))

    def every_point(self, seed: int, beginning: str = "") -> ChaosReport:
        """R2: at every failpoint that the job comes by, S5 among them; those of pages only with ``state_bytes``."""
        left_out = NOT_PASSED if len(self._arguments) > 1 else (*NOT_PASSED, "pages.")
        points = tuple(name for name in MEANINGS if name.startswith(beginning) and not name.startswith(left_out))
        return self._run(ChaosOptions(0, seed, points))

    def before_commit(self, kills: int, seed: int) -> ChaosReport:
        """R3: between the end of a checkpoint and the commit of its output, and during that."""
        rng = np.random.default_rng(seed)
        names = [COMMITTING[number % len(COMMITTING)] for number in range(kills)]
        script = tuple(FailpointSetting(name, int(rng.integers(1, 4))) for name in names)
        return self._run(ChaosOptions(0, seed, script=script))

    def while_recovering(self, times: int, seed: int) -> ChaosReport:
        """R8: in the recovery from a crash, twice in a row."""
        rng = np.random.default_rng(seed)
        script: list[FailpointSetting] = []
        for _ in range(times):
            script.append(FailpointSetting("checkpoint.before_commit", int(rng.integers(1, 4))))
            script += [FailpointSetting(str(rng.choice(RECOVERING)), 1) for _ in range(2)]
        return self._run(ChaosOptions(0, seed, script=tuple(script)))

    def damage(self, times: int, seed: int) -> ChaosReport:
        """S1 and S2: after a crash the newest checkpoint is found cut short, changed by a bit, or without a file.

        Every third time the process dies again while output that came after the older checkpoint is taken back.
        """
        rng = np.random.default_rng(seed)
        script: list[FailpointSetting] = []
        for number in range(times):
            script.append(FailpointSetting("checkpoint.retain.files_deleted", 1))
            if number % 3 == 2:
                script.append(FailpointSetting(str(rng.choice(ROLLING_BACK)), 1))

        def died(point: str, folder: Path) -> None:
            if point == "checkpoint.retain.files_deleted":
                damage_newest(folder / "checkpoints", rng)

        return self._run(ChaosOptions(0, seed, script=tuple(script)), died)

    def _run(self, options: ChaosOptions, died: Callable[[str, Path], None] | None = None) -> ChaosReport:
        job, _ = capture(PIPELINE, self._arguments)
        self._attacks += 1
        options = ChaosOptions(
            options.kills,
            options.seed,
            options.points,
            options.script,
            checkpoint_interval=self._interval,
            parallelism=self._parallelism,
            arguments=self._arguments,
            batch_rows=BATCH_ROWS,
        )
        folder = self._folder / f"attack-{self._attacks}"
        return Chaos(PIPELINE, job, options, folder, self._start, died).run()
