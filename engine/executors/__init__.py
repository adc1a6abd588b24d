"""Where a job runs: in this process, or in a simulated cluster under a virtual clock."""
