"""The first rows of every key: top-n and deduplication."""
