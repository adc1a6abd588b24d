"""The evaluations of the papers, reproduced."""
