"""What the command ``route`` prints."""

import json

from penstock.engine.plan.free_edges import Routes


def print_routes(job: str, routes: Routes, *, as_json: bool) -> None:
    """Print which instances get how much from now on; operators that are not named send in turns."""
    if as_json:
        print(json.dumps({"job": job, "shares": {name: list(shares) for name, shares in routes.items()}}))
        return
    if not routes:
        print(f"rows of {job} that may go to any instance go in turns")
    for name, shares in routes.items():
        said = ", ".join(f"[{number}] {share:.1%}" for number, share in enumerate(shares))
        print(f"instances of {name!r} of {job} get {said} of the rows that may go to any")
