"""Floor 2: the mechanism that turns a job graph into running operator chains."""

if __name__ != "penstock.engine":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.engine' "
        "(two import names would make two copies of every class)."
    )
