"""User functions: on rows, on batches, and on coroutines."""
