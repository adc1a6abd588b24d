"""Files as sources and sinks: listing, chunks, staging and exactly-once commits."""
