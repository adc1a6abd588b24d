"""The moves that load shedding wants of a running job: judged by the job's loop, carried out, and what came of them.

The rates of a cycle are set by `load_shedding`'s caller; this is about which instances are to give what they have away.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_loop import JobLoop
from penstock.engine.control.load_shedding import LoadShedding, ShedCycle
from penstock.engine.control.move_actuator import MoveActuator, MoveResult
from penstock.engine.control.scale_control import detail_of
from penstock.engine.control.steering import steering
from penstock.engine.moves.movable import refusal
from penstock.engine.moves.move_orders import MoveOrder
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import Decision, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import Steering
from penstock.scheduler.place_hints import WantedMove

PART = "it is part of a chain, which moves as a whole"
"""Why a segment behind a branch does not move."""

SHED = "qod"
"""Who sheds and moves, in the loop; it is one policy, by whatever variant it decides."""


def can_move(graph: ExecutionGraph, moves: MoveActuator | None) -> bool:
    """Return whether anything of a plan can move, and somebody carries it out."""
    return moves is not None and any(refusal(graph, task.id) is None for task in graph.tasks)


class MoveControl:
    """Moves of one plan of a job."""

    def __init__(
        self, graph: ExecutionGraph, shedding: LoadShedding | None, moves: MoveActuator | None, log: DecisionLog | None
    ) -> None:
        """Begin with none; without ``shedding`` nobody wants any."""
        self._graph, self._shedding, self._moves, self._log = graph, shedding, moves, log
        self._loop: JobLoop | None = None
        self._acted_on: tuple[ClusterSnapshot, str] | None = None
        self._subjects: dict[str, str] = {}
        self._begun: tuple[WantedMove, ...] = ()
        self.wanted: tuple[WantedMove, ...] = ()
        """What is to move: as was decided in the last cycle, and what is under way."""

    def follow(self, before: "MoveControl") -> None:
        """Go on with what is under way, and with what is wanted, from the control of another plan."""
        self.wanted, self._begun = before.wanted, before._begun
        self._subjects, self._acted_on = before._subjects, before._acted_on

    def rest(self) -> None:
        """Want no more than what is under way: nobody sheds."""
        self.wanted = self._begun

    def beside(self, scalers: tuple[Steering, ...]) -> tuple[Steering, ...]:
        """Return the policies of the loop: the scalers, and who sheds."""
        if self._shedding is None:
            return scalers
        every = {"period_s": float(self._shedding.period_s)}
        item = steering(SHED, every)
        return (*scalers, Steering(SHED, item.policy, item.role, item.every_s, acts=self._shedding.is_acting))

    def begin(self, loop: JobLoop) -> None:
        """Let this loop judge."""
        self._loop = loop

    def prepared(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return a snapshot as load shedding is to see it."""
        if self._loop is None or self._shedding is None:
            return snapshot
        return self._loop.prepared(SHED, snapshot)

    def judge(self, cycle: ShedCycle, now_ns: int) -> Mapping[str, Any]:
        """Let the loop judge a cycle, begin the moves that it lets pass, and return what the log is to say of them."""
        if self._loop is None or self._shedding is None:
            return {}
        result, effects = self._loop.judge(SHED, cycle.snapshot, cycle.decision, now_ns)
        plan, decided = result.allowed, cycle.decision
        asked = _wanted(decided, cycle.snapshot) if self._shedding.is_acting else ()
        if result.acts and isinstance(plan, ShedPlan) and plan.moves:
            assert self._moves is not None
            self._acted_on = cycle.snapshot, self._shedding.policy_name
            self._begun = _wanted(plan, cycle.snapshot)
            self._moves.begin(*self._orders(plan, cycle.snapshot))
        self.wanted = tuple(dict.fromkeys((*self._begun, *asked)))
        has_moves = isinstance(decided, ShedPlan) and bool(decided.moves)
        return {"moves": detail_of(result, effects)} if has_moves or effects else {}

    def _orders(self, plan: ShedPlan, snapshot: ClusterSnapshot) -> tuple[list[MoveOrder], dict[str, str]]:
        """Return the moves of instances, and why others cannot be: who sheds sees segments of a chain as instances."""
        names = [name for task in self._graph.tasks for name in self._graph.instances(task)]
        of, tasks, machines = snapshot.instances, snapshot.task_names(), snapshot.machines.name
        orders, refused, self._subjects = list[MoveOrder](), dict[str, str](), {}
        for move in plan.moves:
            subject = f"{'/'.join(tasks[of.task[move.instance]])}/{of.number[move.instance]}"
            is_part = move.instance >= len(names)
            self._subjects[subject if is_part else names[move.instance]] = subject
            if is_part:
                refused[subject] = PART
            else:
                orders.append(MoveOrder(names[move.instance], machines[move.machine]))
        return orders, refused

    def turn(self, now_ns: int) -> None:
        """Take in how moves have ended."""
        result = None if self._moves is None else self._moves.turn()
        if result is None or self._loop is None:
            return
        self.wanted, self._begun = tuple(move for move in self.wanted if move not in self._begun), ()
        in_vain = [self._subjects[name] for name in result.failed]
        self._loop.ended(now_ns, is_done=not result.failed, in_vain=in_vain)
        if self._log is not None and self._acted_on is not None:
            snapshot, policy = self._acted_on
            self._log.result(snapshot, policy, "failed" if result.failed else "applied", _detail(result))
        self._acted_on = None


def _wanted(decision: Decision, snapshot: ClusterSnapshot) -> tuple[WantedMove, ...]:
    """Return what a decision wants to move."""
    if not isinstance(decision, ShedPlan):
        return ()
    of, tasks, machines = snapshot.instances, snapshot.tasks.name, snapshot.machines.name
    return tuple(
        WantedMove(tasks[of.task[move.instance]], int(of.number[move.instance]), machines[move.machine])
        for move in decision.moves
    )


def _detail(result: MoveResult) -> Mapping[str, Any]:
    return {"moved": {name: asdict(summary) for name, summary in result.done.items()}, "failed": result.failed}
