"""Floor 1: keyed state, by batches of keys."""

if __name__ != "penstock.state":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.state' "
        "(two import names would make two copies of every class)."
    )
