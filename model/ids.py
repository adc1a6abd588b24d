"""Identifiers as distinct types, so that they cannot be confused."""

from typing import NewType

JobId = NewType("JobId", str)
OperatorId = NewType("OperatorId", str)
TaskId = NewType("TaskId", int)
TaskManagerId = NewType("TaskManagerId", str)
InstanceIndex = NewType("InstanceIndex", int)
