"""OpenAI's API: /v1/models and /v1/chat/completions, for programs that support no other.

Only the last user message of the chat is translated. The model name selects the direction.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.apps.server.access import Access
from nmt.apps.server.bodies import ChatBody, Message
from nmt.apps.server.models import Models
from nmt.apps.server.requests import RequestError, as_json, dump, read_fields, stream, unless_gone
from nmt.apps.server.service import Routed, Service, TextTranslation, with_signs
from nmt.translation.translation import Flags

_DONE = b"data: [DONE]\n\n"


class OpenAI:
    """Handles requests from OpenAI clients."""

    def __init__(self, service: Service, access: Access):
        self._service = service
        self._access = access
        self._ids = _ids(self._service.models)
        self._created = int(time.time())

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return list(self._ids)

    @property
    def routes(self) -> list[Route]:
        """The paths, each with its handler."""
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        """List the models: one per direction, by the name of its folder and by its languages."""
        self._access.check(request)
        return as_json({"object": "list", "data": [self._describe(name) for name in self._ids]})

    async def model(self, request: Request) -> Response:
        """Describe one model."""
        self._access.check(request)
        self._find(name := request.path_params["model"])
        return as_json(self._describe(name))

    async def complete(self, request: Request) -> Response:
        """Translate the last user message."""
        client = self._access.check(request)
        body = await read_fields(request, self._service.settings, ChatBody, forms=False)
        text = _last_of_user(body.messages)
        self._service.check_size([text])
        routed = self._find(body.model)._replace(text=text, flags=bool(body.flags))
        routed = routed._replace(memory=self._service.memory(client, routed.direction))
        num_alternatives = (body.n or 1) - 1
        if body.stream:
            return await self._stream(request, body.model, routed, num_alternatives)
        (translated,) = await unless_gone(request, self._service.translate([routed], num_alternatives))
        return as_json(self._completion(body.model, translated))

    def _find(self, model: str) -> Routed:
        if model not in self._ids:
            raise RequestError(404, f"there is no model {model}; /v1/models lists them"[:300])
        return self._ids[model]

    def _describe(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "nmt"}

    def _completion(self, model: str, translated: TextTranslation) -> dict[str, object]:
        translations = [segment.translation for segment in translated.segments]
        finished = all(translation.finished for translation in translations)
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop" if finished else "length",
                **({} if index else with_signs(translated.flags, translated.expected_chrf)),
            }
            for index, text in enumerate([translated.text, *translated.alternatives])
        ]
        num_src = sum(len(translation.src_ids) for translation in translations)
        num_tgt = sum(len(translation.tgt_ids) for translation in translations)
        usage = {"prompt_tokens": num_src, "completion_tokens": num_tgt, "total_tokens": num_src + num_tgt}
        return {**_head("chat.completion", model), "choices": choices, "usage": usage}

    async def _stream(self, request: Request, model: str, routed: Routed, num_alternatives: int) -> Response:
        """Send server-sent events, one per segment and choice."""
        head, choices = _head("chat.completion.chunk", model), range(num_alternatives + 1)

        async def events() -> AsyncGenerator[bytes]:
            start = b"".join(_event(head, i, {"role": "assistant", "content": ""}) for i in choices)
            segments = self._service.segments([routed], num_alternatives)
            async with aclosing(segments):
                async for segment in segments:
                    flags = [segment.flags, *[None] * num_alternatives]
                    yield start + b"".join(_event(head, i, {"content": segment.written(i)}, flags[i]) for i in choices)
                    start = b""
            yield start + b"".join(_event(head, i, {}, finish="stop") for i in choices) + _DONE

        def refuse(refusal: RequestError) -> bytes:
            return b"data: " + dump(error_body(refusal.status_code, refusal.detail)) + b"\n\n" + _DONE

        return await stream(request, events(), refuse, "text/event-stream")


def error_body(status: int, message: str) -> dict[str, object]:
    """Return an error in the format that OpenAI clients expect."""
    kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    name = kind.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": name, "param": None, "code": None}}


def _ids(models: Models) -> dict[str, Routed]:
    """Return the models by name: the folder, with the direction if it has several; then each direction."""
    ids = {}
    for served in models.served:
        for direction in served.directions:
            name = served.name if len(served.directions) == 1 else f"{served.name}:{direction}"
            ids[name] = Routed("", [(direction, served)])
    for direction, first in models.directions.items():
        ids.setdefault(str(direction), Routed("", [(direction, first)]))
    return ids


def _last_of_user(messages: list[Message]) -> str:
    """Return the text of the last user message. RequestError (400) if there is none."""
    content = next((message.content for message in reversed(messages) if message.role == "user"), None)
    text = content if isinstance(content, str) else "".join(part.text for part in content or [])
    if not text.strip():
        raise RequestError(400, "Invalid request: messages: there is no user message with text")
    return text


def _head(kind: str, model: str) -> dict[str, object]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _event(
    head: dict[str, object], index: int, delta: dict[str, Any], flags: Flags | None = None, finish: str | None = None
) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **with_signs(flags)}
    return b"data: " + dump({**head, "choices": [choice]}) + b"\n\n"
