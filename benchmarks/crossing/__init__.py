"""Rows that cross between two processes: transports beside each other, bare, beside a busy loop, and in a query."""
