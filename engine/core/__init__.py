"""The core of the engine: elements, clocks, watermarks, the contracts of operators, sources and sinks."""
