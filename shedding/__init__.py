"""Floor 1: load shedding under overload, and its cost in accuracy."""

if __name__ != "penstock.shedding":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.shedding' "
        "(two import names would make two copies of every class)."
    )
