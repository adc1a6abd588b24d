"""Floor 1: what to drop under overload, and what it costs in accuracy."""

if __name__ != "penstock.shedding":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.shedding' "
        "(two import names would make two copies of every class)."
    )
