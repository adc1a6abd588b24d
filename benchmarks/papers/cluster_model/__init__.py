"""A cluster simulated with rows as a fluid, on which any policy runs (docs/design/simulated-cluster.md)."""
