"""A cluster simulated with rows as a fluid, on which any policy runs (papers.md 12, points a to i); imports none."""
