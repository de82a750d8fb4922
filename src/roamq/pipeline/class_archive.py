"""Spark's classes, kept from one start to the next: an archive that the virtual machine maps, where it would find,
check and link some ten thousand classes each time.

`make_archive` records what a small run loads; every embedded session then names the file (docs/decisions/0196). It is a
cache: a virtual machine that finds it missing, or made by another Java or another Spark, goes on without it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from roamq.core.errors import ConfigError

RECORDING: Final = "-XX:ArchiveClassesAtExit="
WARNINGS_ASIDE: Final = "-Xlog:disable -Xlog:all=warning:stderr"
"""The virtual machine tells on standard output why it does not take an archive, where commands print results."""
RECORDED_ROWS: Final = 200


def archive_path() -> Path | None:
    """Where the archive for this Java and this Spark is, or would be; None where there is no Java."""
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        return None
    program, spark = Path(java).resolve(), Path(pyspark.__file__).parent
    decisive = (program, program.stat().st_mtime_ns, spark, (spark / "jars").stat().st_mtime_ns)
    name = hashlib.sha256(repr(decisive).encode()).hexdigest()[:16]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "roamq" / f"spark-{pyspark.__version__}-{name}.jsa"


def archive_options(java_options: str) -> str:
    """The options of a virtual machine that has these others: those that name the archive, if there is one."""
    path = None if RECORDING in java_options else archive_path()
    if path is None or not path.exists():
        return ""
    return f'"-XX:SharedArchiveFile={path}" {WARNINGS_ASIDE}'


def make_archive() -> Path:
    """The archive; where it is missing it is made, in processes of its own, and is there when all of it is written."""
    path = archive_path()
    if path is None:
        raise ConfigError("Java 17 or newer must be on PATH or in JAVA_HOME (`make setup` installs it)")
    if not path.exists():
        try:
            _make(path)
        except OSError as error:
            where = "set XDG_CACHE_HOME to a folder that can be written"
            raise ConfigError(f"{path}: {error.strerror or error}; {where}") from error
    return path


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        recorded = Path(scratch) / path.name
        code = f"from {__name__} import record; record({str(recorded)!r})"
        # The virtual machine writes the archive when it ends, after Python has; until then it holds these pipes.
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode or not recorded.exists():
            told = (done.stdout + done.stderr).strip().rpartition("\n")[2]  # of a traceback, the error itself
            raise ConfigError(f"no archive of Spark's classes could be made: {told}")
        recorded.replace(path)


def record(archive: str) -> None:
    """Let Spark make the tables of a few rows, interpreted and compiled, and leave the classes that it loaded."""
    from roamq.pipeline.landing import add_source
    from roamq.pipeline.runner import run_pipeline, warehouse_settings
    from roamq.pipeline.session import open_session

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.csv"
        lines = (
            f"{1_704_067_200 + 1800 * n},c{n % 4},{f's{n * n % 5}' if n % 7 else ''}\n"
            for n in range(RECORDED_ROWS)
        )
        rows.write_text("".join(lines))
        settings = warehouse_settings(folder, master="local[2]", input_bytes=0)
        options = f'{settings.java_options} "{RECORDING}{archive}"'
        with open_session(replace(settings, java_options=options)) as spark:
            for compiled in ("false", "true"):
                spark.conf.set("spark.sql.codegen.wholeStage", compiled)
                spark.conf.set(
                    "spark.sql.codegen.factoryMode", "FALLBACK" if compiled == "true" else "NO_CODEGEN"
                )
                add_source(Path(folder) / compiled, str(rows), "associations", "walks", {})
                run_pipeline(spark, Path(folder) / compiled)
