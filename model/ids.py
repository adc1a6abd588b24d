"""Identifiers as distinct types, so that they cannot be confused."""

from typing import NewType

OperatorId = NewType("OperatorId", str)
TaskId = NewType("TaskId", int)
