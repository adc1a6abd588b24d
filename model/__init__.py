"""Floor 0: the nouns. Frozen values without I/O that every other layer speaks in."""

if __name__ != "penstock.model":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.model' "
        "(two import names would make two copies of every class)."
    )
