"""The reference pages, made from what the programs themselves read: settings classes, commands, answers, contracts."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from roamq.cli.describe import describe, scheme_parameters
from roamq.cli.main import COMMANDS, cli
from roamq.config import strings_under_fields, to_toml
from roamq.core.records import KINDS, Record
from roamq.net.ops import tables as tables
from roamq.net.ops.api import openapi
from roamq.net.ops.metrics import described_metrics
from roamq.net.ops.settings import ClientClass, Rule
from roamq.pipeline import schemas
from roamq.schemes.table import scheme_named, scheme_names
from roamq.sim.scenario import load_scenario, presets

MADE = "*This page is made from the code.*\n"
PYTHON = {
    "python": (
        "Python: core",
        ["core.events", "core.filters", "core.selectors", "core.records", "core.context", "core.ports"],
    ),
    "python-schemes": (
        "Python: schemes",
        [
            "schemes.base",
            "schemes.parts.handover",
            "schemes.parts.copies",
            "schemes.parts.neighbors",
            "schemes.parts.prediction",
            "broker.contexts",
            "broker.mailbox",
            "core.messages",
            "overlay.topology",
        ],
    ),
    "python-sim": ("Python: simulator", ["sim.scenario", "sim.options", "sim.mobility", "sim.workload"]),
    "python-models": (
        "Python: models",
        [
            "models." + name
            for name in ("queueing", "network", "intermittent", "handoff", "capacity", "buffers")
        ]
        + [
            "models." + name
            for name in ("connectivity", "markov", "phase_type", "lifetimes", "tariff", "fitting")
        ],
    ),
    "python-pipeline": (
        "Python: pipeline",
        [
            *("pipeline.sweep", "pipeline.campaign", "pipeline.jobs", "pipeline.results", "pipeline.session"),
            *("pipeline.metrics", "pipeline.study"),
        ],
    ),
    "python-net": ("Python: live brokers", ["net.device", "net.ops.local", "net.ops.configuration"]),
}


def pages() -> dict[str, str]:
    """Name of the page -> its text."""
    made = {
        "configuration": configuration_page(),
        "commands": commands_page(),
        "http": http_page(),
        "broker-metrics": metrics_page(),
        "records": records_page(),
        "tables": tables_page(),
        "scenarios": scenarios_page(),
    }
    return made | {name: python_page(*what) for name, what in PYTHON.items()}


# --- configuration -----------------------------------------------------------------------------------------------


def configuration_page() -> str:
    parts = [
        "# Configuration of a network\n",
        MADE,
        "One TOML file describes the whole network, and every broker gets the same file. "
        "[Live brokers](../live.md#configuration) shows a whole file with comments; here is every field. "
        "`roamq serve network.toml --broker NAME --check` names the line of a mistake.\n",
    ]
    for name, kind in tables.TABLES.items():
        parts += _settings(f"[{name}]", kind)
        if kind is tables.NetworkTable:
            parts += _settings("[[network.classes]]", ClientClass)
        if kind is tables.AccessTable:
            parts += _settings("[[access.rules]]", Rule)
    parts += _settings("[brokers.NAME]", tables.BrokerTable)
    parts += _settings("Entries of brokers.NAME.listeners", tables.ListenerTable)
    return "\n".join(parts)


def _settings(title: str, kind: Any) -> Iterator[str]:
    about = strings_under_fields(kind)
    annotations = inspect.get_annotations(kind)
    yield f"## {title}\n"
    if kind.__doc__ and "Struct" not in kind.__doc__[:20]:
        yield " ".join(kind.__doc__.split()) + "\n"
    yield "| field | type | default | meaning |\n| --- | --- | --- | --- |"
    for field in msgspec.structs.fields(kind):
        default = "required" if field.required else _code(_default(field))
        kind_of_value = _code(_type(annotations[field.name]))
        yield f"| `{field.name}` | {kind_of_value} | {default} | {_cell(about.get(field.name, ''))} |"
    yield ""


def _default(field: Any) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, (set, frozenset, tuple)):
        value = sorted(value)
    return _toml(value)


def _toml(value: Any) -> str:
    return "unset" if value is None else to_toml(msgspec.to_builtins(value))


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    text = re.sub(r"Literal\[([^\]]*)\]", lambda found: found.group(1).replace(", ", " or "), text)
    return text.replace(" | None", "").replace(" | ", " or ").replace("'", '"')


# --- commands ----------------------------------------------------------------------------------------------------


def commands_page() -> str:
    parts = [
        "# Commands\n",
        MADE,
        "`roamq COMMAND --help` prints the same. Exit codes: 0 done, 1 what was asked for is not so, 2 a mistake in "
        "the command or the configuration, 130 after Ctrl-C.\n",
    ]
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        parts += _command(f"roamq {name}", command)
    return "\n".join(parts)


def _command(name: str, command: click.Command, depth: int = 2) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"{'#' * depth} {name}\n"
    yield f"```text\n{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n```\n"
    yield from _help(command.help or "")
    options = [
        record
        for parameter in command.get_params(context)
        if not isinstance(parameter, click.Argument) and (record := parameter.get_help_record(context))
    ]
    options = [option for option in options if not option[0].endswith("--help")]
    if options:
        yield "| option | meaning |\n| --- | --- |"
        for option, about in options:
            yield f"| {_code(option)} | {_cell(about)} |"
        yield ""
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _command(f"{name} {sub}", found, depth + 1)


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a help text; one after a backspace is shown as it is."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            yield f"```text\n{inspect.cleandoc(paragraph.removeprefix(chr(8)).strip(chr(10)))}\n```\n"
        else:
            yield _cell(" ".join(paragraph.split())) + "\n"


# --- HTTP --------------------------------------------------------------------------------------------------------


def http_page() -> str:
    described = openapi()
    parts = [
        "# HTTP\n",
        MADE,
        "Every broker answers on its `metrics_port`; `GET /api/openapi.json` is the description that this page is made "
        "of (OpenAPI 3.1). [Watch a network](../how-to/watch.md) says who may ask.\n",
    ]
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{about['summary']}.\n")
            if about.get("parameters"):
                parts.append("| parameter | in | type | meaning |\n| --- | --- | --- | --- |")
                parts += [
                    f"| `{one['name']}` | {one['in']} | {one['schema']['type']} | {_cell(one['description'])} |"
                    for one in about["parameters"]
                ]
                parts.append("")
            answer = (
                about["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
            )
            if "$ref" in answer:
                name = answer["$ref"].rpartition("/")[2]
                parts.append(f"Answers [{name}](#{name.lower()}).\n")
    parts.append("## Answers\n")
    for name, schema in described["components"]["schemas"].items():
        parts.append(f"### {name}\n\n{_cell(schema.get('description', ''))}\n")
        parts.append("| field | type | meaning |\n| --- | --- | --- |")
        for field, one in schema.get("properties", {}).items():
            parts.append(f"| `{field}` | {_json_type(one)} | {_cell(one.get('description', ''))} |")
        parts.append("")
    return "\n".join(parts)


def _json_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_json_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_json_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def metrics_page() -> str:
    parts = [
        "# Metrics of a broker\n",
        MADE,
        "`GET /metrics` serves these to Prometheus. `packaging/grafana/roamq.json` is a board of them.\n",
        "| metric | kind | labels | meaning |\n| --- | --- | --- | --- |",
    ]
    parts += [
        f"| `{name}` | {kind} | {', '.join(map(_code, labels)) or '-'} | {_cell(about)} |"
        for name, kind, labels, about in described_metrics()
    ]
    return "\n".join(parts) + "\n"


# --- records and tables ------------------------------------------------------------------------------------------


def records_page() -> str:
    about = strings_under_fields(Record)
    parts = [
        "# Records\n",
        MADE,
        "A record is one row: something that happened, in a simulation or at a live broker. Live brokers write them to "
        "`records.folder`, campaigns to `OUT/campaign`, as Parquet under `part=records`.\n",
        "## Kinds\n\n| kind | meaning |\n| --- | --- |",
        *(f"| `{kind}` | {_cell(text)} |" for kind, text in KINDS.items()),
        "\n## Columns\n\n| column | type | meaning |\n| --- | --- | --- |",
    ]
    for name, kind in schemas.fields(schemas.RECORDS).items():
        parts.append(f"| `{name}` | {kind} | {_cell(about.get(name, ''))} |")
    return "\n".join(parts) + "\n"


def tables_page() -> str:
    parts = ["# Tables\n", MADE, "## Of a campaign\n"]
    for name, contract in {
        "runs": schemas.RUNS,
        "metrics": schemas.METRICS,
        "summary": schemas.SUMMARY,
    }.items():
        parts += _contract(name, "", contract)
    parts.append(
        "## Of a warehouse\n\nBronze tables hold the lines of traces as they came; these are made of them.\n"
    )
    for name, table in schemas.DERIVED.items():
        parts += _contract(name, table.about, table.contract)
    return "\n".join(parts)


def _contract(name: str, about: str, contract: str) -> Iterator[str]:
    yield f"### `{name}`\n"
    if about:
        yield _cell(about[0].upper() + about[1:]) + ".\n"
    yield "| column | type |\n| --- | --- |"
    yield from (f"| `{column}` | `{kind}` |" for column, kind in schemas.fields(contract).items())
    yield ""


def scenarios_page() -> str:
    parts = [
        "# Scenarios and schemes\n",
        MADE,
        "`roamq simulate NAME --show` prints a scenario with every parameter; `--set KEY=VALUE` changes one.\n",
        "## Scenarios\n",
    ]
    for name in presets():
        scenario = load_scenario(name)
        parts.append(f"### `{name}`\n\n{_cell(scenario.description)}\n\n```toml\n{describe(scenario)}\n```\n")
    parts.append("## Schemes and their options\n")
    for name in scheme_names():
        kind = scheme_named(name)
        options = list(scheme_parameters(kind.options_type()))
        first = (inspect.getdoc(inspect.getmodule(kind)) or inspect.getdoc(kind) or "").partition("\n")[0]
        parts.append(f"### `{name}`\n\n{_cell(first)}\n")
        if options:
            parts.append("| option | default | meaning |\n| --- | --- | --- |")
            parts += [
                f"| `{option}` | {_code(_toml(value))} | {_cell(about)} |" for option, value, about in options
            ]
            parts.append("")
    return "\n".join(parts)


def python_page(title: str, modules: list[str]) -> str:
    return "\n".join([f"# {title}\n", MADE, *(f"::: roamq.{module}\n" for module in modules)])


# --- text --------------------------------------------------------------------------------------------------------


def _cell(text: str) -> str:
    """Text for a cell of a table: one line, nothing that Markdown would take for its own."""
    text = " ".join(text.split()).replace("|", "\\|")
    return re.sub(r"\[(?=[A-Za-z])", r"\\[", text) if "](" not in text else text


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""
