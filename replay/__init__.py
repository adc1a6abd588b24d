"""Floor 4: the batch replay that proves what a stream answered."""

if __name__ != "penstock.replay":
    raise ImportError(
        f"{__name__!r} is a layer of Penstock: import it as 'penstock.replay' "
        "(two import names would make two copies of every class)."
    )
