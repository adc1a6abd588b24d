"""Messages on what instances are built from and have: the plan of a job, memory, CPU, and compiled kernels."""

from penstock.engine.executors.managers.adoption_messages import Message


class ChangePlan(Message, frozen=True):
    """To a task manager that hosts nothing: build by this plan from here on, which `pack_plan` has packed."""

    plan: bytes


class SetMemory(Message, frozen=True):
    """To a task manager: let operators, by name, have these budgets in bytes in each instance; null: no bound.

    Operators that are not named have those of the plan. It holds for what is deployed later, too.
    """

    budgets: dict[str, int | None]


class SetCores(Message, frozen=True):
    """To the process of a task manager: use so many cores at most from now on; null: no bound."""

    cores: float | None


class WarmedUp(Message, frozen=True):
    """A task manager has loaded all compiled kernels that are kept: instances there begin without waiting for them."""
