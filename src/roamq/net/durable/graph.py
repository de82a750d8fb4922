"""Turns the state of a broker into plain values, and plain values into the state again.

A broker is made of *parts*, each of which exists once and is put together by code (`parts_of` finds them), and of
*values*, of which there are many: contexts, sessions, events. Of a part, its attributes are stored by name; the program
that reads them makes the parts and their references to each other anew, from settings. Of a value, its fields are
stored, under the name that its form has in `forms.py`. No stored name says where a class lives in the program.

    value       None, a truth value, a number, text, bytes: itself
                anything else: an array whose first element says what it is (`Tag`)
    event       a row of the table of events, which is most of a snapshot
    object      a row of the table of objects: the name of its form, then its fields
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum, IntEnum
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

import msgspec

from roamq.core.events import Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message
from roamq.net.links import wire
from roamq.net.links.wire import Plain

Row = list[Any]


class Tag(IntEnum):
    """The kind of value that an array stands for. The numbers are written to disk: never give one another meaning."""

    LIST = 0
    TUPLE = 1
    DICT = 2
    SET = 3
    FROZENSET = 4
    DEQUE = 5
    COUNTER = 6
    OBJECT = 7
    EVENT = 8
    NAMED = 9
    ENUM = 10
    INTEGER = 11
    PART = 12
    INDEX = 13


class UnknownFormError(TypeError):
    """A value has no stored form: `forms.py` must say what is stored of it."""


class Form(NamedTuple):
    """What is stored of a class of values, and under which name."""

    name: str
    kind: type
    fields: tuple[str, ...] = ()
    """The attributes that are stored."""
    pack: "Callable[[Packer, Any], Row] | None" = None
    """Makes the row of a value, for a form without `fields`."""
    make: "Callable[[Unpacker, Row], Any] | None" = None
    """Makes a value at once from a row that refers to no other row."""
    fill: "Callable[[Unpacker, Any, Row], None] | None" = None
    """Fills a blank value from a row."""
    defaults: Callable[[str], Any] = lambda name: None
    """Field -> its value in a value that was stored before the field existed."""


class Forms:
    """All forms that a program knows."""

    def __init__(
        self,
        values: Iterable[Form],
        parts: Mapping[type, tuple[str, frozenset[str]]],
        tuples: Mapping[str, type],
        enums: Mapping[str, type[Enum]],
        wiring: tuple[type, ...],
        formerly: Mapping[str, str | None] | None = None,
        *,
        finds_parts: bool = True,
    ) -> None:
        """`parts`: a part's class -> the part's name, and the attributes that are not stored. `wiring`: classes of
        objects that are never stored.
        `formerly`: a part's attribute, by its older name -> its name today, as `part.attribute` if another part has it
        now, or None if it means nothing any more.
        `finds_parts`: an object that is an attribute of a part and has no form is a part as well."""
        self._finds_parts = finds_parts
        self.formerly = formerly or {}
        values = tuple(values)
        self.by_kind: dict[type, Form] = {form.kind: form for form in values}
        self.by_name = {form.name: form for form in values}
        self.parts = dict(parts)
        self.tuples = tuples
        self.tuple_names = {kind: name for name, kind in tuples.items()}
        self.enums = enums
        self.enum_names = {kind: name for name, kind in enums.items()}
        self.wiring = (*wiring, MethodType, FunctionType, BuiltinMethodType, type)

    def part_name(self, value: object) -> str | None:
        known = self.parts.get(value.__class__)
        return None if known is None else known[0]

    def is_unnamed_part(self, value: object) -> bool:
        """Whether a value, which is an attribute of a part, is itself a part that the forms do not name."""
        kind = value.__class__
        is_value = kind in self.by_kind or kind in self.tuple_names or kind in self.enum_names
        of_program = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
        known = (*self.wiring, Enum, tuple, Message, Event, Filter, MatchIndex, msgspec.Struct)
        return (
            self._finds_parts
            and of_program
            and not is_value
            and kind not in self.parts
            and not isinstance(value, known)
        )

    def form_of(self, kind: type) -> Form | None:
        """Returns the form of a class. A message between brokers needs none: its fields, by its name on the wire."""
        found = self.by_kind.get(kind)
        if found is None and issubclass(kind, Message):
            found = self.by_kind[kind] = self.by_name[kind.__name__] = record_form(kind.__name__, kind)
        return found

    def form_named(self, name: str) -> Form:
        found = self.by_name.get(name)
        if found is None:
            kind = wire.message_type(name)
            if kind is None:
                raise UnknownFormError(f"{name!r} means nothing to this program")
            found = self.form_of(kind)
            assert found is not None
        return found

    def stored_fields(self, part: object) -> Iterator[tuple[str, Any]]:
        """Yields the attributes of a part that are its state, with their values."""
        _, left_out = self.parts[part.__class__]
        for name in attributes(part):
            value = getattr(part, name)
            is_wiring = isinstance(value, self.wiring) or value.__class__ in self.parts
            if name not in left_out and not is_wiring:
                yield name, value


def attributes(value: object) -> list[str]:
    """Returns the names of an object's attributes, always in the same order for one class."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [
        name
        for name in dict.fromkeys((*getattr(value, "__dict__", ()), *slots))
        if name not in ("__dict__", "__weakref__") and hasattr(value, name)
    ]


def parts_of(root: object, forms: Forms) -> dict[str, Any]:
    """Finds the parts of a broker, by name. A part that the forms do not name has the name of its class."""
    found: dict[str, Any] = {}
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if forms.is_unnamed_part(part):
            forms.parts[part.__class__] = (part.__class__.__name__, frozenset({"me"}))
        name = forms.part_name(part)
        if name is None or found.get(name) is part:
            continue
        assert name not in found, f"two parts are called {name!r}"
        found[name] = part
        waiting += [getattr(part, attribute) for attribute in attributes(part)]
    return found


_SMALL: Final = 1 << 63


class Packer:
    """Turns state into plain values."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self.events: list[Plain] = []
        self.objects: list[Row] = []
        self._event_numbers: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._waiting: deque[tuple[int, Any, Form]] = deque()
        self._by_kind: dict[type, Callable[[Any], Plain]] = {
            int: self._integer,
            list: lambda value: [0, *map(self.pack, value)],
            tuple: lambda value: [1, *map(self.pack, value)],
            dict: self._mapping,
            # The order of a set depends on the process; the order of stored items does not.
            set: lambda value: [3, *map(self.pack, sorted(value, key=repr))],
            frozenset: lambda value: [4, *map(self.pack, sorted(value, key=repr))],
            deque: lambda value: [5, *map(self.pack, value)],
            Counter: lambda value: [6, *self._pairs(value)],
            Event: lambda value: [8, self.event(value)],
            MatchIndex: self._index,
        }

    def index_kinds(self, kind: type) -> None:
        """Packs values of the class `kind` as match indexes, from now on."""
        self._by_kind[kind] = self._index

    def pack(self, value: Any) -> Plain:
        kind = value.__class__
        if kind is str or value is None or kind is float or kind is bool or kind is bytes:
            return value
        found = self._by_kind.get(kind)
        return found(value) if found is not None else self._other(value, kind)

    def event(self, event: Event) -> int:
        """Returns the number of the event's row in the table of events, and adds the row if there is none."""
        number = self._event_numbers.get(id(event))
        if number is None:
            number = self._event_numbers[id(event)] = len(self.events)
            self.events.append(_event_row(event))
        return number

    def part(self, part: object) -> dict[str, Plain]:
        return {name: self.pack(value) for name, value in self.forms.stored_fields(part)}

    def finish(self) -> None:
        """Packs the objects that packed values refer to, and the objects that those refer to."""
        while self._waiting:
            number, value, form = self._waiting.popleft()
            if form.pack is not None:
                row = form.pack(self, value)
            else:
                row = [
                    self.pack(getattr(value, name) if hasattr(value, name) else form.defaults(name))
                    for name in form.fields
                ]
            self.objects[number] = [form.name, *row]

    def _other(self, value: Any, kind: type) -> Plain:
        forms = self.forms
        form = forms.form_of(kind)
        if form is not None:
            return [7, self._object(value, form)]
        name = forms.tuple_names.get(kind)
        if name is not None:
            return [9, name, *map(self.pack, value)]
        name = forms.enum_names.get(kind)
        if name is not None:
            return [10, name, value.value]
        name = forms.part_name(value)
        if name is not None:
            return [12, name]
        if isinstance(value, int | str) and not isinstance(value, Enum):
            return self.pack(int(value) if isinstance(value, int) else str(value))
        raise UnknownFormError(
            f"{kind.__qualname__} has no stored form: say in durable/forms.py what is stored of it"
        )

    def _object(self, value: Any, form: Form) -> int:
        key = value if form.kind is Filter else id(value)  # equal filters are one
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.objects)
            self.objects.append([])
            self._waiting.append((number, value, form))
        return number

    def _integer(self, value: int) -> Plain:
        if -_SMALL <= value < _SMALL:
            return value
        return [11, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)]

    def _mapping(self, value: dict[Any, Any]) -> Plain:
        return [2, *self._pairs(value)]

    def _pairs(self, value: Mapping[Any, Any]) -> Iterator[Plain]:
        pack = self.pack
        for key, item in value.items():
            yield pack(key)
            yield pack(item)

    def _index(self, index: MatchIndex[Any]) -> Plain:
        packed: Row = [13]
        for key, filters in index.pairs():
            packed.append(self.pack(key))
            form = self.forms.by_kind[Filter]
            packed.append([self._object(filter, form) for filter in sorted(filters, key=str)])
        return packed


def _event_row(event: Event) -> Plain:
    """Returns the values of an event that a link carries, and the event's cost in bytes."""
    return (*wire.event_values(event, None), event.cost_bytes)


def _event_of(row: Row) -> Event:
    return wire.event_of_values(row, row[wire.EVENT_VALUES])


class Unpacker:
    """Turns plain values into state again, inside a broker that was put together anew."""

    def __init__(
        self,
        forms: Forms,
        parts: Mapping[str, Any],
        events: list[Row],
        objects: list[Row],
        layout: Mapping[str, list[str]],
    ) -> None:
        """`layout`: a form's name -> the fields, in the order of the rows of this form."""
        self.forms = forms
        self.parts = parts
        self.events = list(map(_event_of, events))
        self.objects: list[Any] = []
        self._by_tag: list[Callable[[Row], Any]] = [
            lambda row: [self.unpack(item) for item in row[1:]],
            lambda row: tuple([self.unpack(item) for item in row[1:]]),
            lambda row: dict(self._pairs(row)),
            lambda row: {self.unpack(item) for item in row[1:]},
            lambda row: frozenset([self.unpack(item) for item in row[1:]]),
            lambda row: deque([self.unpack(item) for item in row[1:]]),
            lambda row: Counter(dict(self._pairs(row))),
            lambda row: self.objects[row[1]],
            lambda row: self.events[row[1]],
            lambda row: tuple.__new__(forms.tuples[row[1]], [self.unpack(item) for item in row[2:]]),
            lambda row: forms.enums[row[1]](row[2]),
            lambda row: int.from_bytes(row[1], "little", signed=True),
            lambda row: parts[row[1]],
            lambda row: self._fill_index(MatchIndex(), row),
        ]
        blank = []
        for row in objects:
            form = forms.form_named(row[0])
            value = form.make(self, row) if form.make is not None else object.__new__(form.kind)
            self.objects.append(value)
            if form.make is None:
                blank.append((form, value, row))
        for form, value, row in blank:
            self._fill(form, value, row, layout)

    def unpack(self, value: Plain) -> Any:
        return self._by_tag[value[0]](value) if value.__class__ is list else value

    def into_part(self, part: object, stored: Mapping[str, Plain]) -> None:
        """Gives a part its state. A container of the part is filled, not replaced: other objects may refer to it."""
        for stored_as, plain in stored.items():
            label = f"{self.forms.part_name(part)}.{stored_as}"
            found = self.forms.formerly.get(label, stored_as)
            if found is None:
                continue
            moved_to, _, name = found.rpartition(".")
            owner = self.parts[moved_to] if moved_to else part
            if not hasattr(owner, name):
                raise UnknownFormError(f"{label} means nothing to this program")
            held = getattr(owner, name)
            kind = held.__class__
            if kind is MatchIndex:
                self._fill_index(held, plain)
                continue
            value = self.unpack(plain)
            if value.__class__ is not kind:
                setattr(owner, name, value)
            elif kind is dict or kind is set or kind is Counter:
                held.clear()
                held.update(value)
            elif kind is list or kind is deque:
                held.clear()
                held.extend(value)
            else:
                setattr(owner, name, value)

    def _fill(self, form: Form, value: Any, row: Row, layout: Mapping[str, list[str]]) -> None:
        if form.fill is not None:
            form.fill(self, value, row)
            return
        put = object.__setattr__  # some classes are frozen
        stored = layout[form.name]
        for name, item in zip(stored, row[1:], strict=True):
            put(value, name, self.unpack(item))
        for name in form.fields:
            if name not in stored:
                put(value, name, form.defaults(name))

    def _pairs(self, row: Row) -> Iterator[tuple[Any, Any]]:
        items = iter(row)
        next(items)
        unpack = self.unpack
        return ((unpack(key), unpack(item)) for key, item in zip(items, items, strict=True))

    def _fill_index(self, index: "MatchIndex[Any]", row: Row) -> "MatchIndex[Any]":
        items = iter(row)
        next(items)
        for key, filters in zip(items, items, strict=True):
            found = self.unpack(key)
            for number in filters:
                index.add(found, self.objects[number])
        return index


def record_form(name: str, kind: type[Any]) -> Form:
    """Returns the form of a dataclass, of which all fields are stored."""
    declared = {field.name: field for field in fields(kind)}

    def default(field: str) -> Any:
        made = declared[field].default_factory
        if made is not MISSING:
            return made()
        return None if declared[field].default is MISSING else declared[field].default

    return Form(name, kind, tuple(declared), defaults=default)


encode_settings: Final = msgspec.msgpack.Encoder(order="deterministic").encode
"""Encodes the sets of settings, whose order differs between processes, in one order: equal brokers give equal bytes."""


def struct_form(
    name: str, kind: type[msgspec.Struct], encode: Callable[[Any], bytes] = msgspec.msgpack.encode
) -> Form:
    """Returns the form of a structure of plain fields: it is stored as MessagePack by the names of its fields."""
    decode = msgspec.msgpack.Decoder(kind).decode
    return Form(name, kind, pack=lambda _, value: [encode(value)], make=lambda _, row: decode(row[1]))
