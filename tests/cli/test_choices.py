"""A value that is none of those allowed: the error names the field, the nearest value and all of them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.ops.local import local_network
from roamq.schemes.table import scheme_names

SCHEMES = ", ".join(scheme_names())
OF_ALL = "buffer_bytes, queue_bytes, timeout_s"
MISTAKES = [
    (
        'overlay = "interest"',
        'overlay = "intrest"',
        "network.overlay: 'intrest' is no choice; did you mean 'interest'? "
        "choose one of interest, flooding, hierarchy",
    ),
    (
        'overlay = "interest"',
        "overlay = 7",
        "network.overlay: expected `str`, got `int`; choose one of interest, flooding, hierarchy",
    ),
    (
        'scheme = "standard"',
        'scheme = "proaktive"',
        f"network.scheme: unknown scheme 'proaktive'; did you mean 'proactive'? choose one of {SCHEMES}",
    ),
    (
        'durability = "process"',
        'durability = "DISK"',
        "storage.durability: 'DISK' is no choice; did you mean 'disk'? choose one of memory, process, disk",
    ),
    (
        'kind = "ws"',
        'kind = "wsx"',
        "brokers.b1.listeners[1].kind: 'wsx' is no choice; did you mean 'ws'? "
        "choose one of mqtt, mqtts, ws, wss",
    ),
    (
        'kind = "ws"',
        'certificate_user = "mail"',
        "brokers.b1.listeners[1].certificate_user: 'mail' is no choice; did you mean 'email'? "
        "choose one of common-name, dns, email, uri",
    ),
    (
        'kind = "ws"',
        'knd = "ws"',
        "brokers.b1.listeners[1].knd: unknown field; did you mean 'kind'?",
    ),
    (
        "options = {}",
        'links = "mash"',
        "network.links: 'mash' is no choice; did you mean 'mesh'? choose one of mesh",
    ),
    (
        "options = {}",
        "options = { timout_s = 5.0 }",
        f"network.options.timout_s: unknown option; did you mean 'timeout_s'? choose one of {OF_ALL}",
    ),
    (
        'scheme = "standard"\n',
        'scheme = "proactive"\n',
        "network.options.fallback: 'standart' is no choice; did you mean 'standard'? "
        "choose one of standard, reactive",
    ),
    (
        'scheme = "standard"\n',
        'scheme = "prefetching"\n',
        "network.options.prediction: 'learnd' is no choice; did you mean 'learned'? "
        "choose one of perfect, learned, wrong",
    ),
    (
        "[operation]",
        '[[network.classes]]\nname = "cars"\nclient_id = "car-*"\nscheme = "standrad"\n\n[operation]',
        f"network.classes[0].scheme: unknown scheme 'standrad'; did you mean 'standard'? choose one of {SCHEMES}",
    ),
    (
        "[operation]",
        '[[network.classes]]\nname = "cars"\nclient_id = "car-*"\nscheme = "prefetching"\n'
        'options = { prediction = "rong" }\n\n[operation]',
        "network.classes[0].options.prediction: 'rong' is no choice; did you mean 'wrong'? "
        "choose one of perfect, learned, wrong",
    ),
    (
        "[operation]",
        '[[network.classes]]\nname = "cars"\nclient_id = "car-*"\nscheme = "prefetching"\n'
        "options = { target = 2 }\n\n[operation]",
        "network.classes[0].options.target: 'prefetching' has no such option; no scheme has it; "
        "did you mean 'targets'? choose one of timeout_s, prediction, targets",
    ),
    (
        "[operation]",
        '[access]\nanonymous = "allways"\n\n[operation]',
        "access.anonymous: 'allways' is no choice; did you mean 'always'? "
        "choose one of loopback, always, never",
    ),
    (
        "[operation]",
        '[[access.rules]]\nmay = ["publsh"]\n\n[operation]',
        "access.rules[0].may: 'publsh' is no right; did you mean 'publish'? choose one of publish, subscribe",
    ),
    (
        "[operation]",
        '[quotas]\nsession_full = "x"\n\n[operation]',
        "quotas.session_full: 'x' is no choice; choose one of refuse, drop",
    ),
    (
        "[operation]",
        "[mqtt]\nmaximum_qos = 3\n\n[operation]",
        "mqtt.maximum_qos: 3 is no choice; choose one of 0, 1, 2",
    ),
]
OPTIONS = {"proactive": '{ fallback = "standart" }', "prefetching": '{ prediction = "learnd" }'}


@pytest.mark.parametrize(("right", "wrong", "said"), MISTAKES)
def test_a_wrong_value_is_named_with_the_values_there_are(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    path = tmp_path / "network.toml"
    text = local_network(2, scheme="standard")
    assert right in text
    text = text.replace(right, wrong, 1)
    for scheme, options in OPTIONS.items():
        if f'scheme = "{scheme}"\nov' in text:
            text = text.replace("options = {}", f"options = {options}")
    path.write_text(text)

    for arguments in (
        ["serve", str(path), "--broker", "b1", "--check"],
        ["serve", str(path), "--broker", "b1"],
        ["up", str(path)],
    ):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 2, result.output
        place, _, rest = result.output.strip().partition(": " + said.partition(": ")[0])
        assert said.partition(": ")[0] + rest == said
        assert place.startswith(f"roamq: {path}, line "), "the line is named"


def test_up_names_the_schemes_there_are() -> None:
    result = CliRunner().invoke(cli, ["up", "--scheme", "standrd"])

    assert result.exit_code == 2
    assert f"unknown scheme 'standrd'; did you mean 'standard'? choose one of {SCHEMES}" in result.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "records.level=trafic",
            "records.level: 'trafic' is no choice; did you mean 'traffic'? choose one of all, moves, traffic",
        ),
        ("network.overlay=floding", "network.overlay: 'floding' is no choice; did you mean 'flooding'? "),
        ("mobility.model=x", "mobility.model: unknown model 'x'; choose one of "),
        ("scheme.fallback=reactve", "scheme.fallback: 'reactve' is no choice; did you mean 'reactive'? "),
    ],
)
def test_so_do_scenarios(change: str, said: str) -> None:
    result = CliRunner().invoke(
        cli, ["simulate", "testbed", "--scheme", "proactive", "--seed", "1", "--set", change]
    )

    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "roaming", "--compress", "0"),
        ("bench", "roaming", "--seconds", "-1"),
        ("bench", "roaming", "--rate", "nan"),
        ("bench", "throughput", "--seconds", "inf"),
        ("study", "--dataset", "walks", "--hours", "nan"),
        ("drain", "network.toml", "--broker", "b1", "--timeout", "nan"),
        ("leave", "network.toml", "--broker", "b1", "--timeout", "-1"),
        ("up", "--for", "nan"),
        ("pipeline", "positions", "cars.csv", "--traces", "fcd.xml", "--begin-s", "nan"),
        ("pipeline", "expire", "--keep-days", "inf"),
        ("pipeline", "mobility", "stay-points", "--distance-m", "-5"),
    ],
    ids=" ".join,
)
def test_a_number_that_makes_no_sense_is_refused_at_once(words: tuple[str, ...]) -> None:
    """`nan` is in every range for click, and a command that waits until `nan` waits for ever."""
    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 2
    assert f"Invalid value for '{words[-2]}'" in result.output


def test_an_entry_that_is_no_table_is_named_with_the_line_of_its_array(tmp_path: Path) -> None:
    """The line of the next array of tables was named, where the entry is not."""
    path = tmp_path / "network.toml"
    path.write_text(local_network(1).replace("[brokers.b1]\n", '[brokers.b1]\npublishes = ["a/#", 7]\n'))
    line = path.read_text().splitlines().index('publishes = ["a/#", 7]') + 1

    result = CliRunner().invoke(cli, ["serve", str(path), "--broker", "b1", "--check"])

    assert result.exit_code == 2
    assert f"network.toml, line {line}: brokers.b1.publishes[1]: expected `str`, got `int`" in result.output
