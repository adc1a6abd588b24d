"""Kills the head actor of a pipeline on Ray again and again; Ray starts it anew, and the command runs on."""

import psutil

from penstock.chaos.child import Child
from penstock.chaos.experiment import HEAD_ACTOR, ChaosError, ChaosOptions
from penstock.chaos.manager_trials import ManagerChaos
from penstock.chaos.ray_jobs import has_head_actor
from penstock.chaos.task_managers import actors_here
from penstock.chaos.trials import Chaos
from penstock.engine.core import failpoint_settings
from penstock.model.job_graph import JobGraph
from penstock.runs.run_options import RAY

_LOOK_S = 0.02


class HeadChaos(ManagerChaos):
    """One pipeline whose head actor is under attack; every run is one life of the command."""

    _VICTIM = failpoint_settings.HEAD_ACTOR
    _struck: tuple[Child, int] | None = None
    """The life, and the number of the head actor's process that was struck there last."""

    def _note(self, passed: tuple[float, str] | None) -> str | None:
        """A checkpoint of the next head is one after the strike, whether that head built anything anew or not."""
        if self._struck is not None:
            child, pid = self._struck
            self._goes_on |= child.speakers[failpoint_settings.HEAD_ACTOR].pid != pid
        return super()._note(passed)

    def _choose(self, child: Child) -> tuple[str, psutil.Process] | None:
        """Return the head actor once it has said something; None: the command has ended.

        Raises:
            ChaosError: it is on another host.
        """
        while not child.ended:
            speaker = child.speakers.get(failpoint_settings.HEAD_ACTOR)
            if speaker is not None and speaker.host is not None:
                raise ChaosError(
                    f"the head actor is on {speaker.host}, and cannot be killed from here: run penstock chaos there"
                )
            head = actors_here(child.speakers).get(failpoint_settings.HEAD_ACTOR)
            if head is not None:
                self._struck = child, head.pid
                return HEAD_ACTOR, head
            self._note(child.next_point(_LOOK_S))
        return None


def chaos_of(options: ChaosOptions, graph: JobGraph) -> type[Chaos]:
    """Return the experiment that attacks what these options say."""
    if options.strikes_managers:
        return ManagerChaos
    return HeadChaos if options.executor == RAY and has_head_actor(graph) else Chaos
