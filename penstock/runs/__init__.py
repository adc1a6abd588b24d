"""How a job is run: options, interrupts, progress."""
