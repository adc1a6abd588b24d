"""Keyed state behind the contract of `state.store`: in memory, in RocksDB, on a simulated disk."""
