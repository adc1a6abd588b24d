"""What outlives a head actor on its Ray cluster: the job's plan, and where the job stands, for the head that follows.

Kept in Ray's own store of keys and values, as Ray keeps an actor's small arguments: those beyond 100 kB lie with the
driver, and are lost with it (docs/decisions/0074-the-head-is-an-actor.md).
"""

import secrets
from collections.abc import Mapping

import msgspec

from penstock.cluster.job_order import HeadState, StopOrder
from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.managers.setup import TOKEN_BYTES
from penstock.engine.executors.ray.cluster import NAMESPACE
from penstock.engine.jobs.kept_limits import decode_limits, encode_limits
from penstock.engine.plan.free_edges import Routes
from penstock.model.control import Limits

_SPACE = NAMESPACE.encode()


class _End(msgspec.Struct, frozen=True):
    state: HeadState
    failure: Failure | None


def noted_jobs() -> set[str]:
    """Return the names of jobs of which there are notes: they run, have just ended, or were killed from outside."""
    from ray.experimental import internal_kv

    keys = internal_kv._internal_kv_list(b"job/", namespace=_SPACE)
    return {key.decode().removeprefix("job/").rsplit("/", 2)[0] for key in keys}


def delete_notes(job: str) -> None:
    """Delete the notes of all submissions of a job."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_del(f"job/{job}/".encode(), del_by_prefix=True, namespace=_SPACE)


class HeadNotes:
    """The notes of one submission of a job."""

    def __init__(self, job: str, token: str) -> None:
        """Nothing is read yet. ``token`` is no other submission's."""
        self._prefix = f"job/{job}/{token}/"

    def keep_plan(self, parcel: bytes) -> None:
        """Keep the packed plan."""
        self._put("plan", parcel)

    def plan(self) -> bytes | None:
        """Return the packed plan; None: the notes were deleted."""
        return self._get("plan")

    def next_head(self) -> int:
        """Count a head that begins, and return its number; the first is 1."""
        number = self.heads() + 1
        self._put("heads", str(number).encode())
        return number

    def leads(self, number: int) -> bool:
        """Return whether no head has begun after the one of this number, and the notes are still there."""
        return self.heads() == number

    def heads(self) -> int:
        """Return the number of the newest head; 0: none has begun, or the notes were deleted."""
        return int(self._get("heads") or b"0")

    def run_token(self) -> bytes:
        """Return the token by which heads and task managers of the job know each other, made by the first head."""
        token = self._get("run-token")
        if token is None:
            token = secrets.token_bytes(TOKEN_BYTES)
            self._put("run-token", token)
        return token

    def keep_beginning(self, epoch: int) -> None:
        """Keep which checkpoint was the newest when the job began, 0: none."""
        self._put("begun-after", str(epoch).encode())

    def beginning(self) -> int | None:
        """Return which checkpoint was the newest when the job began, 0: none; None: it has not begun."""
        epoch = self._get("begun-after")
        return None if epoch is None else int(epoch)

    def keep_parallelism(self, parallelism: Mapping[str, int]) -> None:
        """Keep how many instances operators have now, by their names, beside those of which it was kept before."""
        self._put("parallelism", msgspec.json.encode({**self.parallelism(), **parallelism}))

    def parallelism(self) -> dict[str, int]:
        """Return how many instances those operators have, by their names, that were changed since the job began."""
        return msgspec.json.decode(self._get("parallelism") or b"{}", type=dict[str, int])

    def keep_routes(self, routes: Routes) -> None:
        """Keep the shares of instances that hold now, by operators."""
        self._put("routes", msgspec.json.encode(routes))

    def routes(self) -> Routes:
        """Return the shares of instances that hold, by operators."""
        return msgspec.json.decode(self._get("routes") or b"{}", type=dict[str, tuple[float, ...]])

    def keep_memory(self, budgets: Mapping[str, int | None]) -> None:
        """Keep the budgets of operators that were changed since the job began."""
        self._put("memory", msgspec.json.encode(budgets))

    def memory(self) -> dict[str, int | None]:
        """Return the budgets of operators, by their names, that were changed since the job began."""
        return msgspec.json.decode(self._get("memory") or b"{}", type=dict[str, int | None])

    def keep_limits(self, limits: Limits, started: str | None) -> None:
        """Keep the limits that were changed since the job began, and what shed by its start."""
        self._put("limits", encode_limits(limits, started))

    def limits(self) -> tuple[Limits, str | None] | None:
        """Return the limits that were changed since the job began, and what shed by its start; None: none were."""
        data = self._get("limits")
        return None if data is None else decode_limits(data)

    def keep_stop(self, order: StopOrder) -> None:
        """Keep that the job was told to stop."""
        self._put("stop", msgspec.json.encode(order))

    def stop(self) -> StopOrder | None:
        """Return the order to stop; None: there was none."""
        order = self._get("stop")
        return None if order is None else msgspec.json.decode(order, type=StopOrder)

    def keep_end(self, head: int, state: HeadState, failure: Failure | None) -> None:
        """Keep how the job has ended, as the head of this number knows."""
        self._put(f"end/{head}", msgspec.json.encode(_End(state, failure)))

    def end(self, head: int) -> tuple[HeadState, Failure | None] | None:
        """Return how the job has ended as the head of this number knew; None: it has not."""
        data = self._get(f"end/{head}")
        if data is None:
            return None
        end = msgspec.json.decode(data, type=_End)
        return end.state, end.failure

    def delete(self) -> None:
        """Delete them all."""
        from ray.experimental import internal_kv

        internal_kv._internal_kv_del(self._prefix.encode(), del_by_prefix=True, namespace=_SPACE)

    def _put(self, name: str, value: bytes) -> None:
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put((self._prefix + name).encode(), value, overwrite=True, namespace=_SPACE)

    def _get(self, name: str) -> bytes | None:
        from ray.experimental import internal_kv

        value: bytes | None = internal_kv._internal_kv_get((self._prefix + name).encode(), namespace=_SPACE)
        return value
