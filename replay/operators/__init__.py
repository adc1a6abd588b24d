"""The operators of a job as operations on Spark's data frames, a file for each kind; `replay.compiler` calls them."""
