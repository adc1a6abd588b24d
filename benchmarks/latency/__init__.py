"""How soon rows come out of a running job, and what a job costs that has little or nothing to do."""
