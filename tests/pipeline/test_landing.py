"""Files land once by content, whole or not at all; rules are checked before anything is written."""

import bz2
import dataclasses
import gzip
import io
import lzma
import math
import os
import re
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.errors import ConfigError
from roamq.pipeline import landing
from roamq.pipeline.books import FileEntry, Shelf, TraceSource
from roamq.pipeline.derive import recipe_of
from roamq.pipeline.input_files import count_lines
from roamq.pipeline.landing import add_source, committed, landed_bytes, load_sources
from roamq.pipeline.rules import Rules
from roamq.pipeline.upkeep import retry_failed


def land(path: str, warehouse: Path, dataset: str, **options: bool | str) -> Path:
    """Land files as a dataset of its own; returns the folder of the copies."""

    def add(shelf: Shelf) -> str:
        shelf.sources[dataset] = TraceSource(dataset=dataset, format="associations", path="")
        landing.land(path, shelf, dataset, **options)  # type: ignore[arg-type]
        return "landed"

    committed(warehouse, add)
    return warehouse / "landing" / dataset


def landed(warehouse: Path, dataset: str = "d") -> list[str]:
    return sorted(entry.name for entry in entries(warehouse, dataset))


def test_the_same_content_lands_once_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a.csv", "copy-of-a.csv", "b.csv"):
        (tmp_path / name).write_text("other" if name == "b.csv" else "same")
    warehouse = tmp_path / "w"
    land(str(tmp_path / "a.csv"), warehouse, "d")
    before = sorted((warehouse / "landing" / "d").rglob("*"))

    land(str(tmp_path / "a.csv"), warehouse, "d")
    land(str(tmp_path / "copy-of-a.csv"), warehouse, "d")
    assert sorted((warehouse / "landing" / "d").rglob("*")) == before

    land(str(tmp_path / "b.csv"), warehouse, "d")
    assert landed(warehouse) == ["a.csv", "b.csv"]


def test_where_the_name_is_the_client_equal_content_is_another_client(tmp_path: Path) -> None:
    for name in ("new_x.txt", "new_y.txt"):
        (tmp_path / name).write_text("same")

    land(str(tmp_path), tmp_path / "w", "d", client_in_name=True)

    assert landed(tmp_path / "w") == ["new_x.txt", "new_y.txt"]


def test_a_folder_leaves_its_descriptions_and_hidden_files_behind(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(
        ("README.md", ".hidden", "_SUCCESS", "places.json", "data.csv.gz", "sub/more.csv")
    ):
        (folder / name).write_text(str(number))

    land(str(folder), tmp_path / "w", "d")

    assert landed(tmp_path / "w") == ["data.csv.gz", "sub/more.csv"]


def states(warehouse: Path) -> dict[str, str]:
    """Name -> reason of the files that failed, or their state."""
    return {entry.name: entry.reason or entry.state for entry in Shelf.of(warehouse).book("d")}


def test_what_is_no_file_is_named_and_the_files_beside_it_land(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "real.csv").mkdir(parents=True)
    (folder / "real.csv" / "a.csv").write_text("1,c,s\n")
    (folder / "nowhere.csv").symlink_to(tmp_path / "gone.csv")
    (folder / "elsewhere").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.csv")

    land(str(folder), tmp_path / "w", "d")

    found = states(tmp_path / "w")
    assert found.pop("real.csv/a.csv") == "landed"
    assert found.pop("elsewhere") == (
        "it is a link to a folder, which is not followed: name that folder with --traces"
    )
    assert found == {
        "nowhere.csv": "it is a link to a file that is not there",
        "pipe.csv": "it is neither a file nor a folder",
    }


@pytest.mark.parametrize("known", [False, True])
def test_a_place_without_files_is_refused_also_where_files_landed_before(tmp_path: Path, known: bool) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    if known:
        land(str(tmp_path / "a.csv"), tmp_path / "w", "d")
    for place in ("empty", "pipe.csv"):
        with pytest.raises(ConfigError, match=f"{place} holds no data files"):
            land(str(tmp_path / place), tmp_path / "w", "d")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", gzip.compress(b"1,c,s\n"), "gzip, which a name ending in .gz must say"),
        ("A.CSV.GZ", gzip.compress(b"1,c,s\n"), "gzip, which a name ending in .gz must say"),
        ("a.csv.BZ2", bz2.compress(b"1,c,s\n"), "bzip2, which a name ending in .bz2 must say"),
        ("a.csv.xz", lzma.compress(b"1,c,s\n"), "use gzip or bzip2"),
        ("a.csv", b"PAR1\x15\x04", "a Parquet file, and the format reads text"),
    ],
    ids=["gzip", "GZIP", "bzip2", "xz", "parquet"],
)
def test_content_that_is_no_text_by_a_name_that_says_text_has_failed(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_bytes(content)
    (folder / "good.csv").write_text("BZh,c,s\nPK,c,s\n")
    with tarfile.open(folder / "t.tar", "w") as tar:
        tar.add(folder / name, "inner")

    land(str(folder), tmp_path / "w", "d")

    found = states(tmp_path / "w")
    assert found["good.csv"] == "landed"
    assert reason in found[name]
    assert reason in found["t.tar/inner"]


def test_new_lines_that_change_while_they_are_copied_fail_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the digest and the copy of what is new, the file is written anew."""
    file = tmp_path / "a.csv"
    file.write_text("1,c,s\n")
    land(str(file), tmp_path / "w", "d")
    file.write_text("1,c,s\n2,c,s\n")
    real = landing._Landing._copied

    def after_a_change(*arguments: Any) -> Any:
        file.write_text("1,c,s\n3,c,s\n")
        return real(*arguments)

    monkeypatch.setattr(landing._Landing, "_copied", after_a_change)
    land(str(file), tmp_path / "w", "d")

    found = [entry.reason or entry.state for entry in Shelf.of(tmp_path / "w").book("d")]
    assert sorted(found) == ["it changed while it was copied", "landed"]


def test_a_rule_for_sites_that_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("37.7 -122.4 0 1211018404\n")
    for name, sites, message in (
        ("gps", "nearest:nowhere.csv", "there is no file nowhere.csv"),
        ("gps", "grid:nan", "needs a number after the colon"),
        ("associations", "grid:500", "traces of associations have no positions"),
    ):
        with pytest.raises(ConfigError, match=f"rule sites: .*{message}"):
            add_source(tmp_path / "w", str(tmp_path / "a.txt"), name, "d", {"sites": sites})
    assert not (tmp_path / "w").exists()


def test_the_list_of_sites_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule keeps where the file lies, and what is derived depends on what it says."""
    (tmp_path / "a.txt").write_text("37.7 -122.4 0 1211018404\n")
    (tmp_path / "sites.csv").write_text("site,longitude,latitude\ns,-122.4,37.7\n")
    monkeypatch.chdir(tmp_path)
    source = add_source(tmp_path / "w", "a.txt", "gps", "d", {"sites": "nearest:sites.csv"})

    assert source.settings == {"sites": f"nearest:{tmp_path}/sites.csv"}
    before = recipe_of(source)
    assert recipe_of(source) == before
    (tmp_path / "sites.csv").write_text("site,longitude,latitude\nother,-122.4,37.7\n")
    assert recipe_of(source) != before


def archive(path: Path, **members: str) -> None:
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))


def test_an_archive_is_unpacked_whole_and_once(tmp_path: Path) -> None:
    archive(tmp_path / "t.tar.gz", cabs__a="1", cabs__b="2")
    for _ in range(2):
        folder = land(str(tmp_path / "t.tar.gz"), tmp_path / "w", "d")

    assert landed(tmp_path / "w") == ["t.tar.gz/cabs/a", "t.tar.gz/cabs/b"]
    assert sorted(p.read_text() for p in folder.rglob("*") if p.is_file()) == ["1", "2"]


def test_a_broken_archive_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    archive(tmp_path / "t.tar.gz", a="1" * 100_000)
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes((tmp_path / "t.tar.gz").read_bytes()[:60])

    with pytest.raises(ConfigError, match=r"torn\.tar\.gz cannot be unpacked"):
        land(str(torn), tmp_path / "w", "d")
    assert not (tmp_path / "w").exists()


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive(tmp_path / "evil.tar.gz", **{"..__..__..__escaped": "x"})

    with pytest.raises(ConfigError, match="cannot be unpacked"):
        land(str(tmp_path / "evil.tar.gz"), tmp_path / "w", "d")
    assert not list(tmp_path.rglob("escaped"))


def entries(warehouse: Path, dataset: str = "d") -> list[FileEntry]:
    return list(Shelf.of(warehouse).book(dataset))


def texts(warehouse: Path, dataset: str = "d") -> list[str]:
    """What Spark would read, piece by piece in the order of the book."""
    return [
        (warehouse / entry.path).read_text()
        for entry in entries(warehouse, dataset)
        if entry.state == "landed"
    ]


def test_what_landed_stays_when_its_source_changes_or_goes(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("1,c,s\n")
    land(str(source), tmp_path / "w", "d")
    with source.open("r+") as file:
        file.write("2")
    assert texts(tmp_path / "w") == ["1,c,s\n"]
    source.unlink()
    assert texts(tmp_path / "w") == ["1,c,s\n"]


def test_a_file_that_grew_lands_as_its_new_lines(tmp_path: Path) -> None:
    source, warehouse = tmp_path / "a.csv", tmp_path / "w"
    for lines in ("1\n2\n", "1\n2\n3\n", "1\n2\n3\n4\n5\n"):
        source.write_text(lines)
        land(str(source), warehouse, "d")

    assert texts(warehouse) == ["1\n2\n", "3\n", "4\n5\n"]
    first, *more = entries(warehouse)
    assert [entry.lines for entry in (first, *more)] == [2, 1, 2]
    assert [f"landing/d/{entry.first}-a.csv" for entry in more] == [first.path] * 2
    assert [entry.shift for entry in (first, *more)] == [0, 1, 2], "positions grow along the file"


def mark_read(warehouse: Path, state: str = "read") -> None:
    """Take all that landed as read, as a run would, or as failed."""

    def read(shelf: Shelf) -> str:
        for entry in list(shelf.book("d")):
            batch = "b" if state == "read" else ""
            shelf.book("d").put(dataclasses.replace(entry, state=state, batch=batch))
        return "read"

    committed(warehouse, read)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file_that_grew_within_a_line_or_is_compressed_replaces_its_earlier_self(
    tmp_path: Path, name: str
) -> None:
    source, warehouse = tmp_path / name, tmp_path / "w"
    pack = partial(gzip.compress, mtime=0) if name.endswith(".gz") else bytes
    source.write_bytes(pack(b"1,c,s\n2,c"))
    land(str(source), warehouse, "d")
    [before] = entries(warehouse)
    mark_read(warehouse)
    source.write_bytes(pack(b"1,c,s\n2,c") + pack(b",s\n"))
    land(str(source), warehouse, "d")

    assert [(entry.lines, entry.replaces) for entry in entries(warehouse)] == [(2, ()), (2, (before.path,))]


@pytest.mark.parametrize(("name", "pack"), [("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)])
def test_a_file_that_was_compressed_anew_replaces_what_it_begins_with_and_is_no_second_file(
    tmp_path: Path, name: str, pack: Callable[[bytes, int], bytes]
) -> None:
    source, warehouse = tmp_path / name, tmp_path / "w"
    lines = b"".join(b"%d,c,s\n" % number for number in range(100))
    source.write_bytes(pack(lines, 9))
    land(str(source), warehouse, "d")
    [before] = entries(warehouse)
    mark_read(warehouse)

    source.write_bytes(pack(lines, 1))
    land(str(source), warehouse, "d")
    assert [entry.path for entry in entries(warehouse)] == [before.path], "the same lines are nothing new"
    source.write_bytes(pack(lines + b"100,c,s\n", 1))
    land(str(source), warehouse, "d")

    assert [(entry.lines, entry.replaces) for entry in entries(warehouse)] == [
        (100, ()),
        (101, (before.path,)),
    ]


def test_a_file_that_spark_could_not_read_lands_once_it_was_compressed_anew(tmp_path: Path) -> None:
    """Python reads past zeros behind the end of a compressed file, and Spark does not."""
    source, warehouse = tmp_path / "a.csv.gz", tmp_path / "w"
    source.write_bytes(gzip.compress(b"1,c,s\n") + b"\0" * 9)
    land(str(source), warehouse, "d")
    mark_read(warehouse, "failed")
    source.write_bytes(gzip.compress(b"1,c,s\n"))

    land(str(source), warehouse, "d")

    assert [(entry.state, entry.lines) for entry in entries(warehouse)] == [("landed", 1)]


def test_of_an_archive_that_grew_only_new_members_land(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    archive(tmp_path / "t.tar.gz", a="1,c,s\n", b="2,c,s\n")
    land(str(tmp_path / "t.tar.gz"), warehouse, "d")
    before = {entry.name: entry.path for entry in entries(warehouse)}
    mark_read(warehouse)
    archive(tmp_path / "t.tar.gz", a="1,c,s\n", b="2,c,s\n3,c,s\n", c="4,c,s\n")

    land(str(tmp_path / "t.tar.gz"), warehouse, "d")

    new = {entry.name: entry for entry in entries(warehouse) if entry.path not in before.values()}
    assert {name: (entry.lines, entry.replaces) for name, entry in new.items()} == {
        "t.tar.gz/b": (2, (before["t.tar.gz/b"],)),
        "t.tar.gz/c": (1, ()),
    }


def test_a_retry_mends_what_was_mended_and_forgets_nothing(tmp_path: Path) -> None:
    """A broken archive, a broken member of another one, a link and a torn file failed; only the file was mended."""
    folder, warehouse = tmp_path / "in", tmp_path / "w"
    folder.mkdir()
    torn = gzip.compress(b"1,c,s\n" * 100)
    (tmp_path / "inner.csv.gz").write_bytes(torn[:-9])
    (tmp_path / "whole.csv").write_text("1,c,s\n")
    with tarfile.open(folder / "half.tar", "w") as file:
        file.add(tmp_path / "inner.csv.gz", "inner.csv.gz")
        file.add(tmp_path / "whole.csv", "whole.csv")
    (folder / "bad.zip").write_bytes(b"no archive")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "torn.csv.gz").write_bytes(torn[:-9])
    land(str(folder), warehouse, "d")
    before = states(warehouse)
    assert list(before.values()).count("landed") == 1

    (folder / "torn.csv.gz").write_bytes(torn)
    assert sorted(retry_failed(warehouse)) == ["bad.zip", "elsewhere", "half.tar/inner.csv.gz", "torn.csv.gz"]

    assert states(warehouse) == before | {"torn.csv.gz": "landed"}


def test_members_of_an_archive_are_in_the_stated_encoding(tmp_path: Path) -> None:
    text = "1,c,Café\n"
    with tarfile.open(tmp_path / "t.tar", "w") as file:
        info = tarfile.TarInfo("a.csv")
        info.size = len(text.encode("latin-1"))
        file.addfile(info, io.BytesIO(text.encode("latin-1")))

    folder = land(str(tmp_path / "t.tar"), tmp_path / "w", "d", encoding="latin-1")

    assert [path.read_text("utf-8") for path in folder.rglob("*.csv")] == [text]


def test_a_compressed_file_that_is_cut_short_has_failed_and_its_whole_version_replaces_it(
    tmp_path: Path,
) -> None:
    source, warehouse = tmp_path / "a.csv.gz", tmp_path / "w"
    whole = gzip.compress(b"".join(b"%d,c,s\n" % number for number in range(1000)))
    for content in (whole[:-20], whole):
        source.write_bytes(content)
        land(str(source), warehouse, "d")
        states = [(entry.state, entry.reason) for entry in entries(warehouse)]
        if content != whole:
            assert states == [("failed", "the compressed file is cut short")]

    assert states == [("landed", "")]
    assert entries(warehouse)[0].lines == 1000


def test_a_folder_lands_without_its_broken_archive_which_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.tar.gz").write_bytes(b"not an archive")
    (folder / "b.csv").write_text("1,c,s\n")

    land(str(folder), tmp_path / "w", "d")

    assert [(entry.name, entry.state) for entry in entries(tmp_path / "w")] == [
        ("a.tar.gz", "failed"),
        ("b.csv", "landed"),
    ]


@pytest.mark.parametrize(
    ("encoding", "name"), [("latin-1", "a.csv"), ("utf-16", "a.csv"), ("cp1252", "a.csv.gz")]
)
def test_a_file_in_a_stated_encoding_lands_as_utf_8(tmp_path: Path, encoding: str, name: str) -> None:
    text = "1,c,Café\n2,c,Cafè\n"
    raw = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)

    add_source(tmp_path / "w", str(tmp_path / name), "associations", "d", {"encoding": encoding})

    assert texts(tmp_path / "w") == [text]
    assert entries(tmp_path / "w")[0].lines == 2
    with pytest.raises(ConfigError, match=f"landed with encoding {encoding}; remove the dataset first"):
        add_source(tmp_path / "w", str(tmp_path / name), "associations", "d", {})


def test_bytes_that_contradict_the_stated_encoding_fail_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1,c,Caf\xe9\n")
    add_source(tmp_path / "w", str(tmp_path / "a.csv"), "associations", "d", {"encoding": "ascii"})

    [entry] = entries(tmp_path / "w")
    assert entry.state == "failed"
    assert entry.reason.startswith("its bytes are not in the stated encoding")
    with pytest.raises(ConfigError, match="rule encoding: 'klingon' is unknown"):
        Rules(encoding="klingon")


@given(
    st.binary(max_size=40).map(lambda raw: bytes(b"a\r\n\n\rb"[byte % 6] for byte in raw)), st.integers(1, 5)
)
def test_lines_are_counted_as_spark_counts_them_whatever_the_chunks(raw: bytes, chunk: int) -> None:
    """The rule of Hadoop's line reader: a line feed, a carriage return or both end a line."""

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(chunk, size) if size else chunk)

    expected = len(re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", raw))
    assert count_lines(Stream(raw)) == (expected, raw[-1:] in (b"", b"\n"))


def test_a_source_that_shrank_to_a_begin_of_what_landed_is_not_read_twice(tmp_path: Path) -> None:
    source, warehouse = tmp_path / "a.csv", tmp_path / "w"
    for lines in ("1\n2\n", "1\n2\n3\n4\n", "1\n2\n3\n", "1\n"):
        source.write_text(lines)
        land(str(source), warehouse, "d")
    assert texts(warehouse) == ["1\n2\n", "3\n4\n"]

    source.write_text("9\n")
    land(str(source), warehouse, "d")
    assert texts(warehouse) == ["1\n2\n", "3\n4\n", "9\n"], "other content under a known name is another file"


def test_files_of_one_name_in_two_folders_both_land(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "x.csv").write_text(folder)

    land(str(tmp_path / "in"), tmp_path / "w", "d")

    assert landed(tmp_path / "w") == ["a/x.csv", "b/x.csv"]
    assert texts(tmp_path / "w") == ["a", "b"]


def test_landings_at_once_all_count(tmp_path: Path) -> None:
    """Each commit of a landing may be overtaken by another: the landing is then made again on what that one left."""
    warehouse = tmp_path / "w"
    for number in range(6):
        (tmp_path / f"{number}.csv").write_text(f"{number}\n")

    def add(number: int) -> None:
        add_source(warehouse, str(tmp_path / f"{number}.csv"), "associations", f"d{number % 2}", {})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, range(6)))

    assert landed(warehouse, "d0") == ["0.csv", "2.csv", "4.csv"]
    assert landed(warehouse, "d1") == ["1.csv", "3.csv", "5.csv"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file or folder .*nothing"):
        land(str(tmp_path / "nothing"), tmp_path / "w", "d")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no data files"):
        land(str(tmp_path / "empty"), tmp_path / "w", "d")


def test_sources_are_remembered_and_keep_their_format(tmp_path: Path) -> None:
    w = tmp_path / "w"
    (tmp_path / "a.csv").write_text("1,c,s\n")
    file = str(tmp_path / "a.csv")
    add_source(w, file, "gps", "b", {})
    add_source(w, file, "wifi", "a", {"gap_s": "60"})
    add_source(w, file, "gps", "b", {"sites": "h3:8"})

    assert [(s.dataset, s.settings) for s in load_sources(w)] == [
        ("a", {"gap_s": "60"}),
        ("b", {"sites": "h3:8"}),
    ]
    with pytest.raises(ConfigError, match="holds 'gps' traces already"):
        add_source(w, file, "wifi", "b", {})


def test_a_wrong_rule_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    for settings, message in (
        ({"gapp_s": "1"}, "unknown rule 'gapp_s'"),
        ({"gap_s": "soon"}, "rule gap_s: 'soon' is not a number"),
        ({"gap_s": "-1"}, "rule gap_s: must be above 0"),
        ({"silence": "maybe"}, "rule silence: 'maybe' is no choice; choose one of disconnected, unknown"),
        ({"test_share": "1"}, "rule test_share: must lie between 0 and 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            add_source(tmp_path / "w", str(tmp_path / "a.csv"), "associations", "d", settings)
    assert not (tmp_path / "w").exists()


def test_rules_read_numbers_as_numbers() -> None:
    changed = Rules().changed({"gap_s": "90", "min_observations": "5", "sites": "h3:7"})

    assert (changed.gap_s, changed.min_observations, changed.sites) == (90.0, 5, "h3:7")


def test_the_size_of_what_landed_is_known_unless_it_lies_elsewhere(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    assert landed_bytes(warehouse) == 0
    (tmp_path / "a.csv").write_text("12345")
    add_source(warehouse, str(tmp_path / "a.csv"), "associations", "here", {})
    assert landed_bytes(warehouse) == 5

    add_source(warehouse, "s3a://bucket/traces", "associations", "there", {})

    assert landed_bytes(warehouse) == math.inf
