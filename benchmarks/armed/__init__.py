"""The cost of being able to shed: queries that may be shed and are not, and aggregates of rows that were shed."""
