"""Sources and sinks within the process: iterables, memory, lookup tables, the terminal."""
