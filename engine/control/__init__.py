"""Policies over snapshots of the cluster, by name, and decisions taken again from a log."""
