"""The CPU that all task managers of a job may use, which changes while it runs: kept over all attempts of a run."""


class RunningCores:
    """The cores of one run. Who steers the job writes them, who tells task managers reads them: one thread."""

    def __init__(self) -> None:
        """Begin without a bound: a core for each task manager, as its loop is one thread."""
        self.wanted: float | None = None
        """The cores of all task managers together; None: no bound."""

    def share(self, managers: int) -> float | None:
        """Return the cores that each of so many task managers may use; None: no bound."""
        return None if self.wanted is None or not managers else self.wanted / managers

    def held(self, managers: int) -> float:
        """Return the cores that the job has with so many task managers."""
        return float(managers) if self.wanted is None else min(self.wanted, float(managers))
