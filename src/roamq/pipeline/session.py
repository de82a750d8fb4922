"""Spark sessions: embedded by default, a cluster by one option, the same kind of session either way.

Every session is a Spark Connect client. The default one finds its server inside this process, started over
`local[*]` or whatever `master` says, on a free port of loopback, behind a token; `remote` names a server that
already runs. Code on top therefore never meets a second API, and what works embedded works on a cluster
(docs/decisions/0020). Nothing lands in the current directory: scratch files, Derby's log and Spark's own
chatter go to a folder that the session removes when it ends.
"""

import atexit
import contextlib
import functools
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from roamq.core.errors import ConfigError
from roamq.pipeline.class_archive import archive_options

if TYPE_CHECKING:
    # Re-exported: other packages name the type from here, since `pyspark` is imported in this one alone.
    from pyspark.sql import SparkSession as SparkSession

CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
QUICK_TO_COMPILE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For queries that run once on few rows: optimised code does not earn back what it costs. With one compiler the virtual
machine reserves so little for its code that it would soon interpret it: hence the second option."""
LESS_TO_COMPILE = "-XX:MaxInlineLevel=6 -XX:FreqInlineSize=80 -XX:InlineSmallCode=600"
"""For a minute of work: the optimising compiler takes half the time, and its code is hardly slower."""
QUICK_TO_ALLOCATE = "-XX:+UseParallelGC"
"""Spark's rows live for a moment: a collector for throughput costs a tenth less than one that avoids pauses."""
QUICK_TO_PLAN = {"spark.sql.adaptive.enabled": "false"}
"""For such queries, plans that adapt between stages cost more than they save."""
NOTHING_TO_COMPILE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a few rows: Spark interprets expressions, and neither writes nor compiles Java for each stage of each query."""
FIRST_CALL_RETRIES = 3
LOG_TAIL_LINES = 5
FIXED_AT_START = frozenset(
    {"spark.sql.catalogImplementation", "spark.sql.codegen.cache.maxEntries", "spark.sql.warehouse.dir"}
)
"""Settings with the prefix of a session's that a server takes only when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """What a command line may say about Spark. The defaults need nothing but this machine."""

    remote: str | None = None
    """A running Spark Connect server, `sc://host:port`; it needs `roamq` installed beside it."""
    master: str = "local[*]"
    """Where an embedded server runs its tasks: `local[N]`, `spark://...`, `yarn`, `k8s://...`."""
    warehouse: str | None = None
    """The place of the tables that are read: a folder, or an address."""
    driver_memory: str = "2g"
    shuffle_partitions: int = 4
    java_options: str = ""
    """Further options of the embedded server's virtual machine."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings; they override ours."""


def require_spark() -> None:
    """Raise `ModuleNotFoundError` where Spark is not installed: for commands that do more before a first session."""
    import pyspark.sql  # noqa: F401


@contextlib.contextmanager
def open_session(settings: SparkSettings | None = None) -> Iterator["SparkSession"]:
    """A Spark session for the time of the `with` block.

    Raises `ConfigError` where Spark cannot start or the remote does not answer: the operator can mend both.
    """
    settings = settings or SparkSettings()
    if settings.remote is not None:
        _require_address(settings.remote)
        fixed = sorted(key for key in settings.config if not _is_of_session(key))
        if fixed:
            raise ConfigError(
                f"--conf {fixed[0]}: a server that runs already (--remote) takes spark.sql settings only"
            )
        with _client(settings.remote, settings) as spark:
            yield spark
        return
    with _embedded_server(settings, _scratch()) as url, _client(url, settings) as spark:
        yield spark


@functools.cache
def _scratch() -> Path:
    """This process's folder for Spark's temporary files; it is removed when the process ends.

    It outlives a session because the virtual machine does: a second session finds the first one's settings.
    """
    folder = Path(tempfile.mkdtemp(prefix="roamq-spark-"))
    (folder / "local").mkdir()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def runtime_settings(settings: SparkSettings) -> dict[str, str]:
    """The settings that belong to a session, embedded or remote: they decide what queries mean."""
    return {
        "spark.sql.session.timeZone": "UTC",
        # Errors are one message; the stack of the virtual machine says nothing about our code.
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # A campaign's task writes to two folders in turn: keeping both open spares a sort of all its rows.
        "spark.sql.maxConcurrentOutputFileWriters": "4",
        # Overwriting a partitioned table replaces the partitions that were written, not the whole table.
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    } | {key: value for key, value in settings.config.items() if _is_of_session(key)}


def _is_of_session(key: str) -> bool:
    return key.startswith("spark.sql.") and key not in FIXED_AT_START


def server_settings(settings: SparkSettings, scratch: Path, token: str) -> dict[str, str]:
    """The settings that belong to an embedded server and are fixed once it runs."""
    return {
        "spark.app.name": "roamq",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **driver_address(settings.master),
        "spark.driver.memory": settings.driver_memory,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": (
            f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} {settings.java_options} "
            f"{archive_options(settings.java_options)}".strip()
        ),
        "spark.plugins": CONNECT_PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        # Each session finds the Python code that it was sent, as a stand-alone Connect server would have it.
        "spark.sql.artifact.isolation.enabled": "true",
        # Every column would look for the line of code that made it, and carry it: errors are one line here.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Progress bars move twice a second.
        "spark.connect.progress.reportInterval": "500ms",
        # A run has hundreds of pieces of code: a session that remembers them all compiles none again in the next run.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Python workers outlive a task: the next run of a campaign starts at once.
        "spark.python.worker.reuse": "true",
        **settings.config,
    }


def driver_address(master: str) -> dict[str, str]:
    """Where executors find the driver: on loopback if they run in this process; otherwise at the address of this
    machine from which packets to the master leave. Where the master has no address (`yarn`), Spark finds its own.
    """
    if master.startswith("local"):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    first = master.partition(",")[0].removeprefix("k8s://")
    address = urlsplit(first if "://" in first else f"//{first}")
    try:
        port = address.port or 443
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address.hostname or "", port))  # a datagram socket sends nothing to connect
            host: str = probe.getsockname()[0]
    except (OSError, ValueError):
        return {}
    return {} if host == "0.0.0.0" else {"spark.driver.host": host}  # noqa: S104 - nothing is bound here


@contextlib.contextmanager
def _embedded_server(settings: SparkSettings, scratch: Path) -> Iterator[str]:
    """Start Spark inside this process with its Connect plugin; yields the address to connect to."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    token = secrets.token_urlsafe(32)
    conf = (
        SparkConf().setMaster(settings.master).setAll(list(server_settings(settings, scratch, token).items()))
    )
    if settings.master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log = scratch / "spark.log"
    try:
        with _stderr_into(log):
            driver = SparkSession(SparkContext(conf=conf))
    except Exception as error:
        raise ConfigError(_why_spark_failed(error, log)) from error
    try:
        driver.sparkContext.setLogLevel("ERROR")
        jvm: Any = driver.sparkContext._jvm
        service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
        port = service.__getattr__("MODULE$").localPort()
        # By name: to `localhost`, and to no address, the client sends a token without asking for TLS.
        yield f"sc://localhost:{port}/;token={token}"
    finally:
        driver.stop()


@contextlib.contextmanager
def _client(url: str, settings: SparkSettings) -> Iterator["SparkSession"]:
    """A Connect session at `url`."""
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    # PySpark writes a page of JSON to standard error before it raises; whoever catches the error says it in a line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # PySpark asks the environment which of its two APIs `functions` should build columns for.
    before = os.environ.get("SPARK_CONNECT_MODE_ENABLED")
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    try:
        try:
            spark: Any = ConnectSession.builder.remote(url).create()
            # The client retries for ten minutes: good in the middle of work, too long for a wrong address.
            patience = spark.client.get_retry_policies()
            spark.client.set_retry_policies([DefaultPolicy(max_retries=FIRST_CALL_RETRIES)])
            with warnings.catch_warnings(action="ignore"):  # our own error says it better
                for key, value in runtime_settings(settings).items():
                    spark.conf.set(key, value)
            spark.client.set_retry_policies(patience)
        except PySparkException as error:
            raise ConfigError(f"no Spark answers at {_without_token(url)}: {_first_line(error)}") from error
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        if before is None:
            os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


@contextlib.contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Send the standard error of processes started now to `log`: the JVM greets there before any option."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("wb") as sink:
            os.dup2(sink.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _require_address(url: str) -> None:
    address = urlsplit(url)
    if address.scheme != "sc" or address.hostname is None:
        raise ConfigError(
            f"--remote {_without_token(url)}: not a Spark Connect address; it looks like sc://host:15002"
        )


def _why_spark_failed(error: Exception, log: Path) -> str:
    why = f"{_first_line(error)}."
    if "JAVA_GATEWAY_EXITED" in str(error) or isinstance(error, FileNotFoundError):
        why = "Java 17 or newer must be on PATH or in JAVA_HOME (`make setup` installs it)."
    tail = " | ".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    return f"Spark did not start: {why}" + (f" Its log ends: {tail}" if tail else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _without_token(url: str) -> str:
    return url.partition("/;")[0]
