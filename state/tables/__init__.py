"""Tables and logs in memory: indexes, cells, rows, under a byte budget."""
