"""Moves of key groups between running instances: what may move, and what a move waits for. Pure."""
