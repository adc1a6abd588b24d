"""Keys of a batch: canonical bytes, hashes, key groups."""
