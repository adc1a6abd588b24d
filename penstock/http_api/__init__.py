"""The HTTP API of a running job: what it is and does, its events, and two actions. Opened by `endpoints`."""
