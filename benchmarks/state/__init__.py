"""State larger than memory: rates, memory and correctness under a byte budget."""
