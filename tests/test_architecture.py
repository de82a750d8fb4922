"""The import rule of docs/architecture.md: dependencies point up the page only."""

import ast
import builtins
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.source import SOURCE, modules, nodes, parsed, reads_the_source

pytestmark = reads_the_source

ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "config": {"core"},
    "geo": {"core"},
    "overlay": {"core"},
    "broker": {"core", "overlay"},
    "schemes": {"core", "overlay", "geo", "broker"},
    "build": {"core", "overlay", "geo", "broker", "schemes"},
    "models": set(),
    "sim": {"config", "core", "geo", "overlay", "broker", "schemes", "build"},
    "manet": set(),
    "manet.protocol": {"core"},
    "manet.simulation": {"core", "sim", "manet.protocol"},
    "net": {"config", "core", "geo", "overlay", "broker", "schemes", "build", "models"},
    "fieldtest": {"config", "core", "overlay", "sim", "net"},
    "pipeline": {"config", "core", "geo", "overlay", "schemes", "sim", "manet", "models"},
    "report": {"pipeline.schemas", "models", "core", "geo"},
    "reproduce": {
        "core",
        "fieldtest",
        "geo",
        "overlay",
        "schemes",
        "sim",
        "manet",
        "models",
        "pipeline",
        "report",
    },
    "cli": {
        *("broker", "config", "fieldtest", "core", "geo", "manet", "models", "net", "overlay", "pipeline"),
        *("report", "reproduce", "schemes", "sim"),
    },
    "__main__": {"cli"},
}
"""Package, or part of a package -> what it may import of ours, besides itself."""

NAMES_OF_TWO_THINGS: dict[str, str] = {
    "Subscribe": "a packet of MQTT, and a message of the overlay",
    "Unsubscribe": "a packet of MQTT, and a message of the overlay",
    "Message": "what one broker sends to another, and in DRIP what one node sends to others: the field's word for both",
    "Packet": "MQTT's word, and DRIP's for what goes hop by hop (docs/glossary.md)",
    "Publish": "a packet of MQTT, and in DRIP's simulation what a subscriber's detector calls",
    "Discards": "the events that a broker gives up, and the test by which the simulated radio drops a beacon",
    "Claim": "the request for a context, and what a paper asserts (docs/glossary.md)",
    "Cell": "of the H3 grid, of a printed table, and of a table of [PRO]",
    "Row": "a row: each module that reads or writes rows says what its own are",
    "Value": "of an attribute of an event, and of a metric of a run",
    "Place": "on the earth, and where a warehouse is",
    "Options": "of a simulation, and of a measure of mobility",
    "Texts": "that a set of constraints holds, and the columns of a trace",
    "Figures": "numbers that brokers tell each other, and those of a paper",
    "Counted": "arrivals of a warehouse, and traffic of a run of [DIS]",
    "Model": "of [DIS], and of a prediction of [PRO]",
}
"""Names of classes that stand for two things -> which. A new name does not come in here: find another word."""

ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"pipeline"},
    "asyncio": {"net", "fieldtest"},
    "uvloop": {"net"},
    "click": {"cli"},
    "rich": {"cli"},
    "matplotlib": {"report"},
    "time": {"net", "cli", "pipeline", "reproduce"},
    "random": {"sim", "manet.simulation", "fieldtest"},
    "socket": {"net", "cli", "pipeline"},
}
"""What touches the world, or a framework -> where it may live."""

CORE_MAY_IMPORT = {"sortedcontainers"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            if node.module == "roamq":
                yield from ((node.lineno, f"roamq.{alias.name}") for alias in node.names)


def named_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Strings that name a module of ours, `roamq.x.y` or `roamq.x.y:z`, also where an f-string begins with one.

    A name that is no package, such as a logger's `roamq.links`, is none.
    """
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(r"roamq\.(\w+)[\w.]*(:\w+)?", node.value)
            if found and found[1] in all_packages():
                yield node.lineno, node.value.partition(":")[0].rstrip(".")


@functools.cache
def all_packages() -> frozenset[str]:
    return frozenset(map(package_of, modules()))


def methods_of(paths: list[Path]) -> set[str]:
    """The names of all methods in these modules; a property is none."""
    return {
        member.name
        for path in paths
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
        if not any("property" in ast.unparse(decorator) for decorator in member.decorator_list)
    }


def assigned_callbacks(path: Path, methods: set[str], of_others: set[str]) -> Iterator[tuple[int, str]]:
    """`other.attribute = self.method` and the like: assignments that give another object a way to call back.

    The assigned value is a lambda, a partial, an attribute with the name of one of `methods`, or what a function like
    `cache` makes of a method of any package (`of_others`). What an object assigns to itself is its own affair.
    """

    def calls_back(value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            function = ast.unparse(value.func).removeprefix("functools.")
            if not re.fullmatch(r"_?[a-z]\w*", function) or function in dir(builtins):
                return False
            given = {one.attr for one in value.args if isinstance(one, ast.Attribute)}
            return function == "partial" or bool(given & of_others)
        return isinstance(value, ast.Lambda) or (isinstance(value, ast.Attribute) and value.attr in methods)

    for node in nodes(path):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        for target in targets:
            if (
                calls_back(value)
                and isinstance(target, ast.Attribute)
                and ast.unparse(target.value) != "self"
            ):
                yield node.lineno, f"{ast.unparse(target)} = {ast.unparse(value)}"


def package_of(path: Path) -> str:
    """The package that the module belongs to; a part of a package that has a rule of its own counts as one."""
    parts = path.relative_to(SOURCE).parts
    part = ".".join(parts[:2])
    return part if part in ALLOWED else parts[0].removesuffix(".py")


def may_import(here: str, name: str) -> bool:
    """Whether the package `here` may import the module `name` of ours."""
    there = name.removeprefix("roamq.")
    parts = {there.split(".")[0], ".".join(there.split(".")[:2])}
    return bool(parts & (ALLOWED[here] | {here, "__version__"}))


def broken_rules(path: Path, here: str) -> Iterator[str]:
    """The lines of a module in the package `here` that import what they must not."""
    for line, name in imports(path):
        place = f"{path}, line {line}"
        top = name.split(".")[0]
        if name.startswith("roamq.") and here != "__init__":
            if not may_import(here, name):
                yield f"{place}: {here} must not import {name}"
        elif top in ONLY_IN and here not in ONLY_IN[top]:
            yield f"{place}: {top} belongs to {sorted(ONLY_IN[top])}, not to {here}"
        if here == "core" and top != "roamq" and top not in sys.stdlib_module_names | CORE_MAY_IMPORT:
            yield f"{place}: the core uses the standard library alone, not {top}"


def test_imports_point_up_the_page() -> None:
    broken = [line for path in modules() for line in broken_rules(path, package_of(path))]

    assert len(modules()) > 400
    assert not broken, "\n".join(broken)


def test_an_import_that_points_down_the_page_is_found(tmp_path: Path) -> None:
    path = tmp_path / "context.py"
    path.write_text("import difflib\nfrom roamq.net import machine\nimport asyncio\nimport msgspec\n")

    assert list(broken_rules(path, "core")) == [
        f"{path}, line 2: core must not import roamq.net",
        f"{path}, line 3: asyncio belongs to {sorted(ONLY_IN['asyncio'])}, not to core",
        f"{path}, line 4: the core uses the standard library alone, not msgspec",
    ]


def test_a_package_that_is_not_in_the_picture_is_noticed() -> None:
    packages = {package_of(path) for path in modules()} - {"__init__"}

    assert packages <= ALLOWED.keys()


def test_a_module_that_a_string_names_counts_as_imported() -> None:
    """A string such as `roamq.net.server:run` that some code imports later is a door past the import rule."""
    found = {
        (package_of(path), name): f"src/roamq/{path.relative_to(SOURCE)}, line {line}"
        for path in modules()
        for line, name in named_modules(path)
        if not may_import(package_of(path), name)
    }

    assert not found, {place: f"{here} must not reach {there}" for (here, there), place in found.items()}


def test_modules_are_imported_by_name_only_where_commands_and_claims_are_found() -> None:
    callers = {
        package_of(path)
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__")
    }

    assert callers <= {"cli", "reproduce"}, "import the module, or take what you need as an argument"


def test_no_shell_assigns_a_callback_into_another_object() -> None:
    """The Host is all that a broker may ask of the world: an assigned callback would be a second, hidden way."""
    shells = [path for path in modules() if package_of(path) in ("sim", "net", "build")]
    methods, of_others = methods_of(shells), methods_of(modules())
    found = {
        (package_of(path), text): f"src/roamq/{path.relative_to(SOURCE)}, line {line}"
        for path in shells
        for line, text in assigned_callbacks(path, methods, of_others)
    }

    assert not found, f"hand it to the constructor, or return what happened: {found}"


def test_the_checks_see_what_they_look_for(tmp_path: Path) -> None:
    path = tmp_path / "shell.py"
    path.write_text(
        "RUNNER = 'roamq.net.server:run'\n"
        "LOG = getLogger('roamq.links')\n"
        "NAME = f'roamq.cli.{name}'\n"
        "class Shell:\n"
        "    def _observe(self): ...\n"
        "    def __init__(self):\n"
        "        self.broker.observer = self._observe\n"
        "        scheme.now = lambda: 0.0\n"
        "        scheme.bring: Bring = partial(bring, 1)\n"
        "        self.mine = self._observe\n"
        "        host.size = self.size\n"
        "        network.hops = cache(topology.distance)\n"
        "        network.size = max(0, topology.distance)\n"
    )

    assert list(named_modules(path)) == [(1, "roamq.net.server"), (3, "roamq.cli")]
    assert [line for line, _ in assigned_callbacks(path, methods_of([path]), {"distance"})] == [7, 8, 9, 12]


def named_types(path: Path) -> Iterator[tuple[str, bool]]:
    """The names of a module's classes, and of its type aliases (True): capitalised names that it assigns at its top."""
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            yield node.name, False
    for statement in parsed(path).body:
        if isinstance(statement, ast.Assign) and "TypeVar(" not in ast.unparse(statement.value):
            for target in statement.targets:
                if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z]\w*[a-z]\w*", target.id):
                    yield target.id, True


def shared_names(paths: list[Path]) -> dict[str, list[str]]:
    """Names that classes of two modules have, or a class and an alias, capitals or not -> where."""
    classes: dict[str, set[str]] = {}
    aliases: dict[str, set[str]] = {}
    for path in paths:
        for name, is_alias in named_types(path):
            (aliases if is_alias else classes).setdefault(name.lower(), set()).add(f"{path}: {name}")
    places = {name: sorted(where | aliases.get(name, set())) for name, where in classes.items()}
    return {where[0].rpartition(" ")[2]: where for where in places.values() if len(where) > 1}


def test_a_class_name_stands_for_one_thing() -> None:
    shared = shared_names(modules())

    assert shared.keys() == NAMES_OF_TWO_THINGS.keys(), {
        name: shared.get(name, "stands for one thing now: strike it")
        for name in shared.keys() ^ NAMES_OF_TWO_THINGS.keys()
    }


def test_a_name_that_differs_in_capitals_alone_and_an_alias_are_found(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("class HandOver: ...\nclass Kind: ...\nFloats = list[float]\n")
    other.write_text("class Handover: ...\nKind = int | str\nFloats = list[float]\nKIND = 1\n")

    assert shared_names([one, other]) == {
        "HandOver": [f"{one}: HandOver", f"{other}: Handover"],
        "Kind": [f"{one}: Kind", f"{other}: Kind"],
    }


def scheme_classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for path in modules()
        if package_of(path) == "schemes"
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    }


def test_schemes_are_composed_and_none_inherits_from_another() -> None:
    """The longest chain of our own classes in `schemes` is two: a base, and what derives from it."""
    classes = scheme_classes()
    bases = {
        name: {ast.unparse(base) for base in node.bases} & classes.keys() for name, node in classes.items()
    }

    chains = {
        name: sorted(parents) for name, parents in bases.items() if any(bases[parent] for parent in parents)
    }
    assert not chains, chains


def test_no_scheme_or_part_has_forty_methods() -> None:
    sizes = {
        name: sum(isinstance(member, ast.FunctionDef) for member in node.body)
        for name, node in scheme_classes().items()
    }

    assert max(sizes.values()) < 40, {name: size for name, size in sizes.items() if size >= 40}
