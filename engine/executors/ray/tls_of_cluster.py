"""TLS as the Ray cluster has it: what Ray does for its own connections is done for those between task managers."""

from collections.abc import Mapping
from pathlib import Path

from penstock.engine.transport.tls import TlsFiles
from penstock.model.errors import OptionError

_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def tls_files_here(environment: Mapping[str, str]) -> TlsFiles | None:
    """Return the files by which this host speaks TLS, as Ray's variables name them; None: ``RAY_USE_TLS`` is not set.

    Raises:
        OptionError: it is set, and one of the files is not named.
    """
    if environment.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    missing = [name for name in _FILES if not environment.get(name)]
    if missing:
        raise OptionError(
            f"RAY_USE_TLS is set, and {' and '.join(missing)} not: name the file, or unset RAY_USE_TLS everywhere"
        )
    certificate, key, authority = (Path(environment[name]) for name in _FILES)
    return TlsFiles(certificate, key, authority)
