"""Identities as types of their own, so that one is never taken for another."""

from typing import NewType

JobId = NewType("JobId", str)
OperatorId = NewType("OperatorId", str)
TaskId = NewType("TaskId", int)
TaskManagerId = NewType("TaskManagerId", str)
InstanceIndex = NewType("InstanceIndex", int)
