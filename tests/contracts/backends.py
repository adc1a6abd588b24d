"""Every backend of keyed state by its name; the suites of this folder run once for each."""

from penstock.state.stores.memory_store import MemoryStore

BACKENDS = {"memory": MemoryStore}
