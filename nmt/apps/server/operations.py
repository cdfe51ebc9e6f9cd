"""The operations of a server: paths, each with its handler and what it reads and answers, and their specification.

An operation reads and checks a request before its handler is called, and writes what the handler returns as JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt import __version__
from nmt.apps.server.access import Access, key_beside_body
from nmt.apps.server.bodies import Fields
from nmt.apps.server.requests import FORM, JSON, MULTIPART, RequestError, as_json, read_fields
from nmt.apps.server.routes import Routes
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import Turns

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
BYTES = "application/octet-stream"
FIELDS = (JSON, FORM, MULTIPART)  # as which most bodies may be sent


Handler = TypeVar("Handler", bound=Callable[..., object])


@dataclass(frozen=True)
class Operation:
    """A path of the server. It marks its handler, the docstring of which opens with what the operation does."""

    path: str
    body: type[Fields] = Fields
    answer: Any = dict[str, Any]  # its type in JSON
    reads: Sequence[str] = FIELDS  # media types of the body, if there is one
    writes: Sequence[str] = (JSON,)  # media types of the answer
    methods: Sequence[str] = ()  # default: POST with a body, else GET
    is_public: bool = False  # needs no key

    def __call__(self, handle: Handler) -> Handler:
        """Mark the handler of this operation, which may have several."""
        vars(handle).setdefault("operations", []).insert(0, self)
        return handle

    @property
    def has_body(self) -> bool:
        """True if it reads more than a key."""
        return self.body is not Fields

    def route(
        self,
        handle: Callable[[Request, Any, bytes], Awaitable[object]],  # of the fields of a body, and of a client
        access: Access,
        settings: Settings,
        turns: Turns,
    ) -> Route:
        """Return the route of requests to `handle` within the limits of `access` and `settings`."""

        async def answer(request: Request) -> Response:
            try:
                body = await read_fields(request, settings, turns, self.body, self.reads) if self.has_body else Fields()
            except RequestError:
                # Who has no key, learns no more than that; a key in a body that cannot be read is unknown.
                (access.check if key_beside_body(request) else access.count)(request)
                raise
            client = b"" if self.is_public else access.check(request, body.api_key)
            answer = await handle(request, body, client)
            return answer if isinstance(answer, Response) else as_json(answer)

        answer.__doc__ = handle.__doc__
        return Route(self.path, answer, methods=self.methods or ["POST" if self.has_body else "GET"])


def specification(routes: Sequence[tuple[Operation, Route]], offered: Routes) -> dict[str, Any]:
    """Return the OpenAPI 3.1 specification of a server with the languages and models `offered`, as JSON values."""
    kinds = [kind for operation, _ in routes for kind in (operation.body, operation.answer)]
    found, definitions = TypeAdapter.json_schemas(
        [(number, "validation", TypeAdapter(kind)) for number, kind in enumerate(kinds)],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, dict[str, object]] = {}
    for number, (operation, route) in enumerate(routes):
        body, answer = (found[2 * number + each, "validation"] for each in range(2))
        text = {"schema": {"type": "string"}}
        written = {media: {"schema": answer} if media == JSON else text for media in operation.writes}
        described: dict[str, object] = {
            "summary": (route.endpoint.__doc__ or "").partition("\n")[0].rstrip("."),
            "parameters": [{"name": name, "in": "path", "required": True, **text} for name in route.param_convertors],
            "responses": {
                "200": {"description": "The answer", "content": written},
                "default": {"description": "An error", "content": {JSON: {"schema": {"type": "object"}}}},
            },
        }
        if operation.has_body:
            content = {media: {"schema": body} for media in operation.reads}
            described["requestBody"] = {"required": True, "content": content}
        for method in (route.methods or set()) - {"HEAD"}:
            paths.setdefault(route.path_format, {})[method.lower()] = described
    schemas = definitions["$defs"]
    schemas["TranslateBody"]["properties"]["source"]["enum"] = ["auto", *offered.sources]
    schemas["TranslateBody"]["properties"]["target"]["enum"] = [*offered.targets]
    schemas["ChatBody"]["properties"]["model"]["enum"] = [*offered.models.names]
    description = "Machine translation, with the APIs of LibreTranslate, OpenAI and DeepL."
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt", "version": __version__, "description": description},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }
