"""The client of a running job's HTTP API, by its URL, for commands and programs on any machine that reaches it."""
