"""One run at a time: the lease of a folder."""
