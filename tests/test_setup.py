"""`make test` installs programs that some tests use, and goes on without them."""

import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_S

SCRIPT = Path(__file__).parent.parent / "scripts" / "setup-peers"
TOOLS = ("bash", "id", "timeout", "echo")


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The script on a machine that has these programs, and nothing else but a shell."""
    for name in TOOLS:
        found = next(path for place in ("/bin", "/usr/bin") if (path := Path(place, name)).exists())
        (folder / name).symlink_to(found)
    for name, text in {"sudo": 'shift; "$@"', **programs}.items():
        (folder / name.replace("_", "-")).write_text(f"#!{folder / 'bash'}\n{text}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return subprocess.run(
        [folder / "bash", SCRIPT],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )


def test_what_is_missing_is_installed_one_by_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    said = run(tmp_path, apt_get=f'echo "${{!#}}" >> {log}', faketime="")
    assert log.read_text().split() == ["update", "mosquitto-clients", "chromium"]
    assert "could not be installed" not in said.stdout


@pytest.mark.parametrize(
    ("programs", "told"),
    [
        ({"apt_get": "exit 100"}, "chromium could not be installed; tests that use them will be skipped"),
        ({}, "not installed: mosquitto-clients chromium faketime; tests that use them will be skipped"),
    ],
)
def test_what_cannot_be_installed_is_said_and_no_failure(
    tmp_path: Path, programs: dict[str, str], told: str
) -> None:
    assert told in run(tmp_path, **programs).stdout
