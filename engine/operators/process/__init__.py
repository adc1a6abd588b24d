"""Users' process functions: rows and timers in order, state per key."""
