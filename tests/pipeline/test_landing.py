"""Files land once by content, whole or not at all; rules are checked before anything is written."""

import io
import math
import tarfile
from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.pipeline.landing import Source, add_source, land, landed_bytes, load_sources, register
from roamq.pipeline.rules import Rules


def landed(warehouse: Path, dataset: str = "d") -> list[str]:
    return sorted(path.name[17:] for path in (warehouse / "landing" / dataset).iterdir())


def test_the_same_content_lands_once_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a.csv", "copy-of-a.csv", "b.csv"):
        (tmp_path / name).write_text("other" if name == "b.csv" else "same")
    warehouse = tmp_path / "w"
    land(str(tmp_path / "a.csv"), warehouse, "d")
    before = sorted((warehouse / "landing" / "d").iterdir())

    land(str(tmp_path / "a.csv"), warehouse, "d")
    land(str(tmp_path / "copy-of-a.csv"), warehouse, "d")
    assert sorted((warehouse / "landing" / "d").iterdir()) == before

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

    assert landed(tmp_path / "w") == ["data.csv.gz", "more.csv"]


def archive(path: Path, **members: str) -> None:
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))


def test_an_archive_is_unpacked_whole_and_once(tmp_path: Path) -> None:
    archive(tmp_path / "t.tar.gz", cabs__a="1", cabs__b="2")
    for _ in range(2):
        folder = Path(land(str(tmp_path / "t.tar.gz"), tmp_path / "w", "d"))

    assert sorted(str(p.relative_to(folder))[17:] for p in folder.rglob("*") if p.is_file()) == [
        "t.tar.gz/cabs/a",
        "t.tar.gz/cabs/b",
    ]


def test_a_broken_archive_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    archive(tmp_path / "t.tar.gz", a="1" * 100_000)
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes((tmp_path / "t.tar.gz").read_bytes()[:60])

    with pytest.raises(ConfigError, match=r"torn\.tar\.gz cannot be unpacked"):
        land(str(torn), tmp_path / "w", "d")
    assert landed(tmp_path / "w") == []


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive(tmp_path / "evil.tar.gz", **{"..__..__..__escaped": "x"})

    with pytest.raises(ConfigError, match="cannot be unpacked"):
        land(str(tmp_path / "evil.tar.gz"), tmp_path / "w", "d")
    assert not list(tmp_path.rglob("escaped"))


def test_places_that_are_not_local_are_left_to_spark(tmp_path: Path) -> None:
    assert land("hdfs://there/traces", tmp_path, "d") == "hdfs://there/traces"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file or folder .*nothing"):
        land(str(tmp_path / "nothing"), tmp_path / "w", "d")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no data files"):
        land(str(tmp_path / "empty"), tmp_path / "w", "d")


def test_sources_are_remembered_and_keep_their_format(tmp_path: Path) -> None:
    register(tmp_path, Source(dataset="b", format="gps", path="/p"))
    register(tmp_path, Source(dataset="a", format="wifi", path="/q", settings={"gap_s": "60"}))
    register(tmp_path, Source(dataset="b", format="gps", path="/p", settings={"sites": "h3:8"}))

    assert [(s.dataset, s.settings) for s in load_sources(tmp_path)] == [
        ("a", {"gap_s": "60"}),
        ("b", {"sites": "h3:8"}),
    ]
    with pytest.raises(ConfigError, match="holds 'gps' traces already"):
        register(tmp_path, Source(dataset="b", format="wifi", path="/p"))


def test_a_wrong_rule_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,c,s\n")
    for settings, message in (
        ({"gapp_s": "1"}, "unknown rule 'gapp_s'"),
        ({"gap_s": "soon"}, "rule gap_s: 'soon' is not a number"),
        ({"gap_s": "-1"}, "rule gap_s: must be above 0"),
        ({"silence": "maybe"}, "rule silence: must be one of disconnected, unknown"),
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
