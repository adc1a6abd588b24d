"""What the whole engine shares: elements, clocks, watermarks, the contracts of operators, sources and sinks."""
