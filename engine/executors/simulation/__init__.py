"""The parts of the simulated executor: dice, transport, faults, recorded sources, sinks on a simulated disk."""
