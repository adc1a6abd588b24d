"""The message by which all task managers of a job come to another plan of it."""

from penstock.engine.executors.managers.adoption_messages import Message


class ChangePlan(Message, frozen=True):
    """To a task manager that hosts nothing: build by this plan from here on, which `pack_plan` has packed."""

    plan: bytes
