"""The names under which a broker's state is stored: none of them goes or changes without a rule.

`layout.txt` has all that brokers of this release and of the one before store. When this test fails, see "When what is
stored changes" in docs/live.md.
"""

from pathlib import Path

from roamq.build import OVERLAYS
from roamq.core.events import BrokerId
from roamq.net.durable.forms import FORMERLY, VALUES, forms_for
from roamq.net.durable.graph import parts_of
from roamq.net.durable.inputs import LiveBroker
from roamq.net.ops.settings import Settings
from roamq.schemes.table import scheme_names

LAYOUT = Path(__file__).with_name("layout.txt")


def names() -> dict[str, set[str]]:
    """All parts and values, and what is stored of each, in every scheme and overlay."""
    brokers = (BrokerId("a"), BrokerId("b"))
    found: dict[str, set[str]] = {form.name: set(form.fields) for form in VALUES}
    for scheme in scheme_names():
        for overlay in OVERLAYS:
            settings = Settings(
                me=brokers[0], brokers=brokers, links=(("a", "b"),), scheme=scheme, overlay=overlay
            )
            live = LiveBroker(settings, 1.0)
            forms = forms_for(live)
            for name, part in parts_of(live, forms).items():
                label = f"{name} ({scheme.removesuffix('+on-device')})" if name == "scheme" else name
                found.setdefault(label, set()).update(field for field, _ in forms.stored_fields(part))
    return found


def stored_before() -> dict[str, set[str]]:
    lines = LAYOUT.read_text().splitlines()
    return {name: set(fields.split()) for name, _, fields in (line.partition(":") for line in lines)}


def test_what_was_stored_under_a_name_is_still_known_by_it() -> None:
    now = names()
    gone = {
        f"{name}.{field}"
        for name, fields in stored_before().items()
        for field in fields - now.get(name, set())
        if f"{name}.{field}" not in FORMERLY
    }

    assert not gone, "say in FORMERLY (durable/forms.py) what became of it"


def test_what_became_of_a_name_is_known() -> None:
    now = names()
    for label, name in FORMERLY.items():
        part, _, field = label.partition(".")
        assert field not in now.get(part, set()), label
        if name is not None:
            moved_to, _, name = name.rpartition(".")
            assert name in now[moved_to or part], label
