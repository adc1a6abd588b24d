"""Keyed operators whose state need not fit in memory: buckets of keys that come and go."""
