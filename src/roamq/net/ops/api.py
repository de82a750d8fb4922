"""The HTTP API for operators: questions to one broker, and actions of it, on the port of its metrics.

GET /api/status                              the broker and its links
GET /api/clients?after=&limit=&search=       who is connected, in pages
GET /api/sessions?after=&limit=&search=      whose sessions are here, with how many messages, in pages
GET /api/where/CLIENT                        what this broker knows of a client
GET /api/events?after=&limit=                what happened last
GET /api/network                             all brokers, and how many clients are at each
GET /api/trace/WHAT?last=                    what the records tell of a message, a client or a topic
GET /api/openapi.json                        this list as OpenAPI
POST /api/kick/CLIENT                        end the connection of a client; its session stays
POST /api/reload                             read users and access rules again
POST /api/drain                              hand the sessions to other brokers
POST /api/join/BROKER?at=B1,B2               admit a broker that will be linked with B1 and B2
POST /api/leave                              hand everything over, leave the network and stop
POST /api/forget/BROKER                      declare a broker dead that will never return

Without `[console]` in the configuration the API is open to whoever reaches the port, as `/metrics` is. With it, every
question needs the token: `Authorization: Bearer TOKEN`, or the cookie that the console's login sets. Actions need the
operators' token (`[operation]`), with which one may read as well. A cookie alone does not act: a browser would send it
along with a form of another page, so that an action needs the header `X-RoamQ` too, which only a page of ours can set.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from roamq import __version__
from roamq.config import strings_under_fields
from roamq.net.ops.inspection import (
    PAGE_MAX,
    ApiAnswer,
    ClientsAnswer,
    DoneAnswer,
    ErrorAnswer,
    EventsAnswer,
    Inspector,
    NetworkAnswer,
    SessionsAnswer,
    StatusAnswer,
    TraceAnswer,
    WhereAnswer,
)

COOKIE: Final = "roamq"
PREFIX: Final = "/api/"
TRACE: Final = "/api/trace/"
ACT_HEADER: Final = "x-roamq"
_PAGE: Final = {
    "after": "the last client id of the page before; empty for the first page",
    "limit": f"rows of a page, at most {PAGE_MAX}",
    "search": "only client ids that contain this text",
}
_PATHS: Final[dict[str, tuple[type[ApiAnswer], str, dict[str, str]]]] = {
    "/api/status": (StatusAnswer, "The broker and its links", {}),
    "/api/clients": (ClientsAnswer, "Clients that are connected here, in pages", _PAGE),
    "/api/sessions": (SessionsAnswer, "Sessions and copies at this broker, in pages", _PAGE),
    "/api/where/{client}": (WhereAnswer, "What this broker knows of a client", {}),
    "/api/events": (
        EventsAnswer,
        "What happened last",
        {"after": "only what happened after this number", "limit": f"at most {PAGE_MAX}"},
    ),
    "/api/network": (NetworkAnswer, "All brokers, and how many clients are at each", {}),
    "/api/trace/{what}": (
        TraceAnswer,
        "What the records in this broker's folder tell of a message, a client or a topic",
        {"last": f"rows, at most {PAGE_MAX}"},
    ),
}
_ACTIONS: Final = {
    "/api/kick/{client}": "End the connection of a client; its session stays",
    "/api/reload": "Read users and access rules again; a file with a mistake changes nothing",
    "/api/drain": "Send the clients to other brokers and hand the sessions of absent ones over",
    "/api/join/{broker}": "Admit a broker that will be linked with those named by `at`",
    "/api/leave": "Hand everything over, leave the network and stop",
    "/api/forget/{broker}": "Declare a broker dead that will never return; tells whose sessions are lost",
}
_ERRORS: Final = {
    "400": "It cannot be done, or a parameter is wrong; `error` says why.",
    "401": "A token is needed: of [console] to read, of [operation] to act.",
    "403": "A page of somebody else asks: the `Host` is not this machine's, or an action lacks the header `X-RoamQ`.",
    "503": "Records are being read for somebody else, or are too many to be read in time; `error` says which.",
}
_CLIENT: Final[dict[str, Any]] = {
    "name": "client",
    "in": "path",
    "required": True,
    "description": "a client id",
    "schema": {"type": "string"},
}
_IN_PATH: Final[dict[str, dict[str, Any]]] = {
    "{client}": _CLIENT,
    "{broker}": {**_CLIENT, "name": "broker", "description": "the name of a broker"},
    "{what}": {
        **_CLIENT,
        "name": "what",
        "description": "the id of a message, a client id, a topic or filter",
    },
}
_JOINING: Final = [
    {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
    for name, about in {
        "at": "brokers of the first configuration, with commas between",
        "reference": "host:port that clients are told which are sent there",
        "position": "LATITUDE,LONGITUDE",
        "publishes": "a JSON list of topic filters of all that may be published there",
    }.items()
]
Action = Callable[[str], dict[str, Any]]
"""Does something, to the named client or broker if there is one, and reports it; raises ValueError if it cannot."""

DetailedAction = Callable[[str, Mapping[str, str]], dict[str, Any]]
"""An action that takes further parameters from the query."""


class HttpResponse(NamedTuple):
    status: str
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class HttpRequest(NamedTuple):
    """The parts of an HTTP request that the operators' pages look at."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @classmethod
    def parse(cls, head: str) -> "HttpRequest":
        line, *rest = head.split("\r\n")
        method, _, target = line.partition(" ")
        parts = urlsplit(target.partition(" ")[0])
        headers = {}
        for header in rest:
            name, colon, value = header.partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return cls(method, parts.path, query, headers)

    def shows(self, token: str | None) -> bool:
        """Whether the request shows the token; if there is no token (None), no request does."""
        if token is None:
            return False
        shown = self._bearer if self._bearer is not None else self.cookie
        return hmac.compare_digest(shown.encode(), token.encode())

    @property
    def is_from_a_program_or_our_page(self) -> bool:
        """Whether a program or one of our pages sent the request: a foreign page cannot have made a browser send it."""
        return self._bearer is not None or ACT_HEADER in self.headers

    @property
    def _bearer(self) -> str | None:
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token if kind.lower() == "bearer" else None

    @property
    def cookie(self) -> str:
        for part in self.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return unquote(value)
        return ""


def answered(value: object, status: str = "200 OK") -> HttpResponse:
    return HttpResponse(status, "application/json", msgspec.json.encode(value) + b"\n")


class Rights:
    """Which requests may read, and which may act."""

    def __init__(self, reader: str | None, operator: str | None) -> None:
        """`reader`: the console's token; None: everybody may read. `operator`: the operators'; None: nobody may act."""
        self._reader = reader
        self._operator = operator

    def may_read(self, request: HttpRequest) -> bool:
        return self._reader is None or request.shows(self._reader) or self.may_act(request)

    def may_act(self, request: HttpRequest) -> bool:
        return request.shows(self._operator)

    def is_token(self, token: str) -> bool:
        """Whether a person can log in with the token."""
        known = [one.encode() for one in (self._reader, self._operator) if one is not None]
        return any(hmac.compare_digest(token.encode(), one) for one in known)


class Api:
    """Answers questions of operators and their programs, and acts for operators."""

    def __init__(
        self,
        inspector: Inspector,
        rights: Rights,
        actions: Mapping[str, Action],
        detailed: Mapping[str, DetailedAction] | None = None,
        trace: Callable[[str, int], Awaitable[HttpResponse]] | None = None,
    ) -> None:
        """`actions`: kick, reload, drain, leave and forget; `detailed`: join, which has parameters; `trace` answers
        from records."""
        self.detailed = detailed or {}
        self._trace = trace
        self.inspector = inspector
        self.rights = rights
        self.actions = actions
        self._answers: dict[str, Callable[[Mapping[str, str]], ApiAnswer]] = {
            "/api/status": lambda _: inspector.status(),
            "/api/clients": lambda query: inspector.clients(**_page(query)),
            "/api/sessions": lambda query: inspector.sessions(**_page(query)),
            "/api/events": lambda query: inspector.events(
                after=_number(query, "after", 0), limit=min(PAGE_MAX, _number(query, "limit", 100))
            ),
            "/api/network": lambda _: inspector.network(),
        }

    async def serve(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer; waits for answers that take a while."""
        is_trace = request.path.startswith(TRACE) and request.method == "GET"
        if self._trace is None or not is_trace or not self.rights.may_read(request):
            return self.answer(request)
        try:
            last = _number(request.query, "last", 100)
            if not 1 <= last <= PAGE_MAX:
                raise ValueError(f"last: is {last}, and may be 1 to {PAGE_MAX}")
        except ValueError as error:
            return answered({"error": str(error)}, "400 Bad Request")
        return await self._trace(unquote(request.path.removeprefix(TRACE)), last)

    def answer(self, request: HttpRequest) -> HttpResponse:
        name, _, about = request.path.removeprefix(PREFIX).partition("/")
        if name in self.actions or name in self.detailed:
            return self._act(request, name, unquote(about))
        if request.method != "GET":
            return answered({"error": "questions are asked with GET"}, "405 Method Not Allowed")
        if not self.rights.may_read(request):
            error = "show the token of [console]: Authorization: Bearer TOKEN"
            return answered({"error": error}, "401 Unauthorized")
        if request.path == "/api/openapi.json":
            return answered(openapi())
        if request.path.startswith("/api/where/"):
            return answered(self.inspector.where(unquote(request.path.removeprefix("/api/where/"))))
        ask = self._answers.get(request.path)
        if ask is None:
            return answered({"error": f"there is no {request.path}"}, "404 Not Found")
        try:
            return answered(ask(request.query))
        except ValueError as error:
            return answered({"error": str(error)}, "400 Bad Request")

    def _act(self, request: HttpRequest, name: str, about: str) -> HttpResponse:
        if request.method != "POST":
            return answered({"error": f"POST to {request.path}"}, "405 Method Not Allowed")
        if not self.rights.may_act(request):
            error = "show the token of [operation]: Authorization: Bearer TOKEN"
            return answered({"error": error}, "401 Unauthorized")
        if not request.is_from_a_program_or_our_page:
            return answered({"error": f"the header {ACT_HEADER} is missing"}, "403 Forbidden")
        try:
            detailed = self.detailed.get(name)
            details = self.actions[name](about) if detailed is None else detailed(about, request.query)
        except ValueError as error:
            return answered({"error": str(error)}, "400 Bad Request")
        return answered(DoneAnswer(done=f"{name} {about}".strip(), details=details))


def openapi() -> dict[str, Any]:
    """The description of the API (OpenAPI 3.1), made from the classes of its answers."""
    kinds = {kind: f"#/components/schemas/{kind.__name__}" for kind, _, _ in _PATHS.values()}
    _, components = msgspec.json.schema_components(
        [*kinds, DoneAnswer, ErrorAnswer], ref_template="#/components/schemas/{name}"
    )
    described = json.loads(msgspec.json.encode(components))
    for kind in ApiAnswer.__subclasses__():
        for name, about in strings_under_fields(kind).items():
            described[kind.__name__]["properties"][name]["description"] = about
    paths: dict[str, Any] = {}
    for path, (kind, text, query) in _PATHS.items():
        parameters: list[dict[str, Any]] = [
            {"name": name, "in": "query", "description": about, "schema": _schema_of(path, name)}
            for name, about in query.items()
        ]
        parameters += [one for name, one in _IN_PATH.items() if name in path]
        errors = ("401", "403", *(("400",) if query else ()), *(("503",) if path.startswith(TRACE) else ()))
        paths[path] = {"get": _operation(path, text, parameters, kind, errors)}
    for path, text in _ACTIONS.items():
        parameters = [one for name, one in _IN_PATH.items() if name in path]
        if path.startswith("/api/join"):
            parameters += _JOINING
        paths[path] = {"post": _operation(path, text, parameters, DoneAnswer, ("400", "401", "403"))}
    return {
        "openapi": "3.1.0",
        "info": {"title": "RoamQ broker", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": described,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _schema_of(path: str, name: str) -> dict[str, str]:
    """Returns the type of a parameter: the pages of events begin after a number, all others after a client id."""
    is_number = name in ("limit", "last") or path == "/api/events"
    return {"type": "integer" if is_number else "string"}


def _operation(
    path: str, text: str, parameters: list[dict[str, Any]], answer: type[ApiAnswer], errors: tuple[str, ...]
) -> dict[str, Any]:
    def said(about: str, kind: type[ApiAnswer]) -> dict[str, Any]:
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
        return {"description": about, "content": {"application/json": {"schema": schema}}}

    return {
        "operationId": path.split("/")[2],
        "summary": text,
        "parameters": parameters,
        "responses": {"200": said(text, answer)}
        | {code: said(_ERRORS[code], ErrorAnswer) for code in errors},
    }


def _page(query: Mapping[str, str]) -> dict[str, Any]:
    limit = _number(query, "limit", 100)
    if not 1 <= limit <= PAGE_MAX:
        raise ValueError(f"limit: is {limit}, and may be 1 to {PAGE_MAX}")
    return {"after": query.get("after", ""), "limit": limit, "search": query.get("search", "")}


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(query.get(name, default))
    except ValueError:
        raise ValueError(f"{name}: {query[name]!r} is not a number") from None
