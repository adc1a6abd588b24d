"""Floor 4: workloads and the measurements behind every promised figure."""

if __name__ != "penstock.benchmarks":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.benchmarks' "
        "(two import names would make two copies of every class)."
    )
