"""The coordinator of moves: a state machine from events to commands, one move at a time (docs/design/moves.md 2)."""

from penstock.engine.core.elements import Reroute
from penstock.engine.core.event_log import EventLog
from penstock.engine.moves import move_events as ev
from penstock.model.execution_graph import instance_name
from penstock.model.ids import TaskId

Pair = tuple[str, int, int]
"""A task's name, the number of the instance that gives and of the one that takes."""


class MoveCoordinator:
    """Knows what the move under way waits for. `on` is the only way to change it."""

    def __init__(self, last: int = 0) -> None:
        """No move is under way; the ``last`` one of before had this number."""
        self._log = EventLog("coordinator of moves")
        self._number = last
        self._reroute: Reroute | None = None
        self._tasks: frozenset[TaskId] = frozenset()
        self._sent = False
        self._ungiven: set[Pair] = set()
        self._on_the_way: set[Pair] = set()
        # Installed before it was heard that they were given: giver and taker may say so by different ways.
        self._early: set[Pair] = set()

    @property
    def moving(self) -> Reroute | None:
        """The marker of the move under way, None: there is none."""
        return self._reroute

    @property
    def last_move(self) -> int:
        """The number of the move under way, or of the last that was; 0: there was none."""
        return self._number

    def on(self, event: ev.MoveEvent) -> list[ev.MoveCommand]:
        """Take in what happened and return what to do, in this order.

        Raises:
            BugError: it is impossible now; the notes tell the events before.
        """
        commands = self._react(event)
        self._log.add(f"{event}: {commands}")
        return commands

    def _react(self, event: ev.MoveEvent) -> list[ev.MoveCommand]:
        match event:
            case ev.MoveWanted():
                return self._begin(event)
            case ev.MarkersSent():
                if self._is_past(event.move):
                    return []
                self._sent = True
                if not event.producers:
                    # All input has ended: who gives would never see the marker.
                    self._ungiven.clear()
                return self._finish_if_done()
            case ev.StateGiven():
                return self._given(event)
            case ev.StateInstalled():
                return self._installed(event)
            case ev.InstanceLeft():
                self._ungiven -= {pair for pair in self._ungiven if instance_name(pair[0], pair[1]) == event.instance}
                return self._finish_if_done()
            case ev.TasksFailed():
                return self._fail(event)

    def _begin(self, event: ev.MoveWanted) -> list[ev.MoveCommand]:
        if self._reroute is not None:
            raise self._log.bug(f"{event} while move {self._reroute.move} is under way")
        self._number += 1
        self._reroute = Reroute(self._number, event.task, event.groups)
        self._tasks = frozenset(task for task, _ in event.tasks)
        self._sent = False
        pairs = {(name, giver, taker) for _, name in event.tasks for _, giver, taker in event.groups}
        self._ungiven = {pair for pair in pairs if instance_name(pair[0], pair[1]) not in event.ended}
        self._on_the_way, self._early = set(), set()
        return [ev.HoldBarriers(), ev.SendMarkers(self._reroute, self._tasks)]

    def _given(self, event: ev.StateGiven) -> list[ev.MoveCommand]:
        if self._is_past(event.move):
            return []
        pair = (event.task, event.giver, event.taker)
        if pair not in self._ungiven:
            raise self._log.bug(f"{event} was given before, or never asked for")
        self._ungiven.remove(pair)
        if pair not in self._early:
            self._on_the_way.add(pair)
        self._early.discard(pair)
        return self._finish_if_done()

    def _installed(self, event: ev.StateInstalled) -> list[ev.MoveCommand]:
        if self._is_past(event.move):
            return []
        pair = (event.task, event.giver, event.taker)
        if pair in self._on_the_way:
            self._on_the_way.remove(pair)
        elif pair in self._ungiven and pair not in self._early:
            self._early.add(pair)
        else:
            raise self._log.bug(f"{event} was not on its way")
        return self._finish_if_done()

    def _fail(self, event: ev.TasksFailed) -> list[ev.MoveCommand]:
        if self._reroute is None or self._tasks.isdisjoint(event.tasks):
            return []
        failed, self._reroute = self._reroute, None
        return [ev.LetBarriersGo(), ev.MoveFailed(failed, event.reason)]

    def _finish_if_done(self) -> list[ev.MoveCommand]:
        if self._reroute is None or not self._sent or self._ungiven or self._on_the_way:
            return []
        done, self._reroute = self._reroute, None
        return [ev.LetBarriersGo(), ev.MoveDone(done)]

    def _is_past(self, move: int) -> bool:
        """Return whether a move is over: what comes of it is from before a failure."""
        return self._reroute is None or self._reroute.move != move
