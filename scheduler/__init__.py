"""Floor 1: where tasks run, how many, and of what size."""

if __name__ != "penstock.scheduler":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.scheduler' "
        "(two import names would make two copies of every class)."
    )
