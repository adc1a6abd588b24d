"""Running and row-window aggregates."""
