"""The Nexmark workload: one file a query, and the command that runs them."""
