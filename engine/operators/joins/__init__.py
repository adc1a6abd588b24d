"""Joins: for ever, within windows and intervals, as of a time, and with side tables."""
