"""Flink's autoscaler with all of its times shorter: its own are a quarter of an hour and more."""

from penstock.engine.control.policies import parameters_of, policy_object

AUTOSCALER = "autoscaler"


def autoscaler_times(part: float) -> dict[str, float]:
    """Return its parameters that are times, each so many times as long as it is by default."""
    defaults = parameters_of(policy_object(AUTOSCALER))
    return {name: part * float(value) for name, value in defaults.items() if name.endswith("_s")}
