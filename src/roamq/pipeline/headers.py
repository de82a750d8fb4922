"""Which columns the files of a trace have, by the first file, looked at before anything lands.

Importable without Spark.
"""

import codecs
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from roamq.core.errors import ConfigError
from roamq.pipeline.input_files import ARCHIVES, data_files, uncompressed
from roamq.pipeline.traces.mapping import Mapping


def load_mapping(file: Path, traces: str) -> Mapping:
    """The mapping of a file, with the columns of the CSV files at `traces`; Parquet files must have its columns."""
    return complete_mapping(Mapping.load(file), traces)


def complete_mapping(mapping: Mapping, traces: str) -> Mapping:
    """The mapping with its columns, which it gives itself or the header of the first CSV file does."""
    if mapping.file == "parquet" and "://" not in traces:
        _require_columns(mapping, Path(traces))
    if mapping.file != "csv" or mapping.columns:
        return mapping
    if "://" in traces:
        raise ConfigError(f"mapping: columns: {traces} is read in place; name the columns in the mapping")
    name, line = first_line(Path(traces), mapping.cleaning().encoding, mapping.comment)
    return mapping.with_columns(line, name)


def _require_columns(mapping: Mapping, traces: Path) -> None:
    """Refuse a mapping that names columns which the first Parquet file does not have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in data_files(traces):
        try:
            columns = pq.read_schema(file).names
        except (pa.ArrowException, OSError):
            continue  # whoever reads the files says what is wrong with it
        if missing := mapping.missing_among(columns):
            raise ConfigError(f"mapping: {file.name}: {missing}")
        return


def first_line(traces: Path, encoding: str = "utf-8", comment: str = "") -> tuple[str, str]:
    """The name of the first file and its first line that is neither blank nor a comment."""
    if not traces.exists():
        raise ConfigError(f"traces: there is no file or folder {traces}")
    file = next(data_files(traces), None)
    if file is None:
        raise ConfigError(f"traces: {traces} holds no data files")
    try:
        with _opened(file) as (name, stream):
            for line in codecs.getreader(encoding)(stream):
                text = line.strip("\ufeff\r\n")
                if text.strip() and not (comment and text.lstrip().startswith(comment)):
                    return name, text
    except (OSError, EOFError, UnicodeError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ConfigError(f"traces: the header of {file} cannot be read: {error}") from error
    raise ConfigError(f"traces: {file} has no header")


@contextmanager
def _opened(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The file, or the first file of an archive, as a stream of bytes with its name."""
    if not file.name.lower().endswith(ARCHIVES):
        with file.open("rb") as raw, uncompressed(raw, file.name) as plain:
            yield file.name, plain
    elif file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            names = sorted(member.filename for member in archive.infolist() if not member.is_dir())
            with archive.open(names[0]) as member, uncompressed(member, names[0]) as stream:
                yield names[0], stream
    else:
        with tarfile.open(file) as archive:
            members = sorted((member for member in archive if member.isfile()), key=lambda one: one.name)
            content = archive.extractfile(members[0])
            assert content is not None, "members are files"
            with uncompressed(content, members[0].name) as stream:
                yield members[0].name, stream
