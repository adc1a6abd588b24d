"""Aggregates by key and window: grouping, panes, sessions, count windows and reduce."""
