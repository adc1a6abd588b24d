"""The ``penstock`` command line: one module a command."""
