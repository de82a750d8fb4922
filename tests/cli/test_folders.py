"""Folders and files that cannot be written are named before the work begins, with exit code 2."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.cli.options import whole_file
from roamq.net.ops.local import local_network


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "testbed"),
        ("simulate", "drip"),
        ("demo",),
        ("reproduce", "TIME-F7", "--quick"),
        ("study", "--dataset", "walks"),
        ("bench", "roaming", "--quick"),
    ],
    ids=lambda words: words[-1],
)
def test_results_that_cannot_be_written_are_refused_before_anything_runs(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A file stands where the folder should be, so that it is refused whoever runs the test."""
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"

    result = called(*command, "--out", str(out))

    assert result.exit_code == 2
    assert result.output == f"roamq: --out {out}: cannot be written: Not a directory; name another folder\n"


@pytest.mark.parametrize(
    "words",
    [
        ("init", "{path}"),
        ("up", "--data", "{path}"),
        ("up", "--data={path}"),
        ("plan", "response-time", "--preset", "metro-1", "--figure", "{path}/figure.png"),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_path_that_was_typed_is_named_with_what_is_wrong(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "net")

    result = called(*(word.format(path=path) for word in words))

    assert result.exit_code == 2
    assert result.output.startswith(f"roamq: {tmp_path / 'file'}")
    assert result.output.endswith(": Not a directory\n")


FULL = Path("/dev/full")
"""A file that takes no byte, as on a full disk."""


def write_bytes(path: Path, data: bytes) -> int:
    """`Path.write_bytes` on a full disk."""
    path.touch()
    with FULL.open("wb", buffering=0) as full:
        return full.write(data)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_is_named_and_half_a_figure_is_not_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    figure = tmp_path / "figure.png"

    result = called("plan", "response-time", "--preset", "metro-1", "--figure", str(figure))

    assert result.exit_code == 2
    assert "No space left on device; make room, or name another place" in result.output
    assert not figure.exists()


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_results_do_not_begin_on_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: FULL.open("wb"))

    result = called("simulate", "testbed", "--out", str(tmp_path))

    assert result.exit_code == 2
    assert "cannot be written: No space left on device" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("file/cars.csv", "--format", "sumo"), "cannot be written: Not a directory; name another file"),
        (("cars.txt", "--format", "sumo"), "cars.txt: a file of positions ends with .csv or .parquet"),
        (("cars.csv",), "name either a --format that `roamq pipeline formats` lists, or a --mapping"),
    ],
)
def test_positions_that_cannot_be_written_are_refused_before_spark_starts(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    result = called("pipeline", "positions", *words, "--traces", "fcd.xml")

    assert result.exit_code == 2
    assert said in result.output
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_file_that_was_not_finished_leaves_the_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "cars.csv"
    out.write_text("earlier")

    with pytest.raises(RuntimeError), whole_file(out) as beside:
        beside.write_text("half")
        raise RuntimeError

    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"cars.csv": "earlier"}
    with whole_file(out) as beside:
        beside.write_text("all")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"cars.csv": "all"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--broker", "b 4"), "--broker: 'b 4' is no name for a broker: use letters"),
        (("--broker", os.fsdecode(b"b\xff")), "is no name for a broker: use letters"),
        (("--broker", "b4", "--publishes", "a/#/b"), "--publishes: '#' must be the whole last level"),
        (("--broker", "b4"), "no broker of the network answers on this host"),
    ],
    ids=["blank", "not UTF-8", "filter", "nobody"],
)
def test_a_broker_that_cannot_join_leaves_the_file_as_it_was(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2))
    path.chmod(0o600)
    before = path.read_text()

    result = called("join", str(path), "--at", "b1", *words)

    assert result.exit_code in (1, 2)
    assert said in result.output
    assert path.read_text() == before
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["network.toml"]


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_does_not_cost_the_file_of_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2))
    before = path.read_text()
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    monkeypatch.setattr(Path, "write_text", lambda path, text: write_bytes(path, text.encode()))

    result = called("join", str(path), "--at", "b1", "--broker", "b4")

    assert result.exit_code == 2
    assert "network.toml: cannot be written: No space left on device" in result.output
    assert path.read_text() == before


def test_a_file_that_nobody_has_typed_is_not_the_operators_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/nowhere/of/ours")

    monkeypatch.setattr("roamq.sim.scenario.presets", fails)

    result = called("simulate", "--list")

    assert result.exit_code == 1
    assert "unexpected FileNotFoundError" in result.output


def test_a_file_that_replaces_one_with_secrets_is_never_open_to_others(tmp_path: Path) -> None:
    out = tmp_path / "network.toml"
    out.write_text("secret")
    out.chmod(0o600)

    with whole_file(out) as beside:
        assert beside.stat().st_mode & 0o777 == 0o600
        beside.write_text("another secret")

    assert (out.read_text(), out.stat().st_mode & 0o777) == ("another secret", 0o600)
