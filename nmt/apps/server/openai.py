"""OpenAI's API: /v1/models, /v1/chat/completions, /v1/completions, /v1/responses, for programs that support no other.

Only the last user message of a chat is translated. The model name selects the direction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.server.bodies import ChatBody, Fields, Message, PromptBody, ResponseBody
from nmt.apps.server.models import Step
from nmt.apps.server.operations import EVENTS, Operation
from nmt.apps.server.requests import JSON, RequestError, as_list, dump, stream, unless_gone
from nmt.apps.server.routes import Routed
from nmt.apps.server.service import Service, TextTranslation, TranslatedSegment, with_signs
from nmt.translation.translation import Flags

_TEXTS = ("text", "input_text", "output_text")  # types of parts of a message
_DONE = b"data: [DONE]\n\n"


class OpenAI:
    """Handles requests from OpenAI clients."""

    def __init__(self, service: Service):
        self._service = service
        self._created = int(time.time())

    @Operation("/v1/models")
    async def models(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """List the models: one per direction, by the name of its folder and by its languages."""
        return {"object": "list", "data": [self._describe(name) for name in self._service.routes.models.names]}

    @Operation("/v1/models/{model:path}")
    async def model(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """Describe one model."""
        self._find(name := request.path_params["model"])
        return self._describe(name)

    @Operation("/v1/chat/completions", ChatBody, reads=[JSON], writes=[JSON, EVENTS])
    async def complete(self, request: Request, body: ChatBody, client: bytes) -> dict[str, object] | Response:
        """Translate the last user message."""
        (routed,) = self._route(client, body.model, [_last_of_user(body.messages)])
        routed = routed._replace(flags=bool(body.flags))
        num_alternatives = (body.n or 1) - 1
        if body.stream:
            has_usage = bool((body.stream_options or {}).get("include_usage"))
            return await self._stream(request, body.model, routed, num_alternatives, has_usage=has_usage)
        (translated,) = await unless_gone(request, self._service.translate([routed], num_alternatives))
        return self._completion(body.model, translated)

    @Operation("/v1/completions", PromptBody, reads=[JSON], writes=[JSON, EVENTS])
    async def complete_prompt(self, request: Request, body: PromptBody, client: bytes) -> dict[str, object] | Response:
        """Translate one prompt or several."""
        routed = self._route(client, body.model, as_list(body.prompt))
        translated = await unless_gone(request, self._service.translate(routed, (body.n or 1) - 1))
        texts = [text for each in translated for text in (each.text, *each.alternatives)]
        choices = [
            {"index": i, "text": text, "logprobs": None, "finish_reason": "stop"} for i, text in enumerate(texts)
        ]
        segments = [segment for each in translated for segment in each.segments]
        answer = {**_head("text_completion", body.model), "choices": choices, "usage": _usage(segments)}
        if not body.stream:
            return answer
        return Response(_sent(answer) + _DONE, media_type=EVENTS)

    @Operation("/v1/responses", ResponseBody, reads=[JSON], writes=[JSON, EVENTS])
    async def respond(self, request: Request, body: ResponseBody, client: bytes) -> dict[str, object] | Response:
        """Translate the input, or the last user message in it."""
        text = body.input if isinstance(body.input, str) else _last_of_user(body.input)
        (translated,) = await unless_gone(request, self._service.translate(self._route(client, body.model, [text])))
        part = {"type": "output_text", "text": translated.text, "annotations": []}
        item = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "status": "completed"}
        answer = {
            "id": f"resp_{uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": body.model,
            "output": [{**item, "content": [part]}],
            "usage": _usage(translated.segments, "input", "output"),
        }
        if not body.stream:
            return answer
        begun = {**answer, "status": "in_progress", "output": [{**item, "content": [{**part, "text": ""}]}]}
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        events: list[dict[str, object]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_text.delta", **place, "delta": translated.text},
            {"type": "response.completed", "response": answer},
        ]
        return Response(b"".join(map(_sent, events)), media_type=EVENTS)

    def _route(self, client: bytes, model: str, texts: Sequence[str]) -> list[Routed]:
        self._service.check_size(texts)
        (src, tgt), served = self._find(model)
        routed = self._service.routes.route(src, tgt, client, served)
        return [routed._replace(text=text) for text in texts]

    def _find(self, model: str) -> Step:
        if (step := self._service.routes.models.names.get(model)) is None:
            raise RequestError(404, f"there is no model {model}; /v1/models lists them"[:300])
        return step

    def _describe(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "nmt"}

    def _completion(self, model: str, translated: TextTranslation) -> dict[str, object]:
        finished = all(segment.translation.finished for segment in translated.segments)
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
        return {**_head("chat.completion", model), "choices": choices, "usage": _usage(translated.segments)}

    async def _stream(
        self, request: Request, model: str, routed: Routed, num_alternatives: int, *, has_usage: bool
    ) -> Response:
        """Send server-sent events, one per segment and choice, and one with the numbers of tokens, if `has_usage`."""
        head = _head("chat.completion.chunk", model)
        choices = range(num_alternatives + 1)

        start = b"".join(_event(head, i, {"role": "assistant", "content": ""}) for i in choices)
        sent: list[TranslatedSegment] = []

        def write(segment: TranslatedSegment) -> bytes:
            sent.append(segment)
            flags = [segment.flags, *[None] * num_alternatives]
            return b"".join(_event(head, i, {"content": segment.written(i)}, flags[i]) for i in choices)

        def end(refusal: RequestError | None) -> bytes:
            if refusal is not None:
                return _sent(error_body(refusal.status_code, refusal.detail)) + _DONE
            finish = b"".join(_event(head, i, {}, finish="stop") for i in choices)
            usage = _sent({**head, "choices": [], "usage": _usage(sent)}) if has_usage else b""
            return finish + usage + _DONE

        segments = self._service.segments([routed], num_alternatives)
        return await stream(request, start, segments, write, end, EVENTS)


def error_body(status: int, message: str) -> dict[str, object]:
    """Return an error in the format that OpenAI clients expect."""
    kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    name = kind.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": name, "param": None, "code": None}}


def _last_of_user(messages: list[Message]) -> str:
    """Return the text of the last user message, each of its parts on a line. RequestError (400) if there is none."""
    content = next((message.content for message in reversed(messages) if message.role == "user"), None)
    parts = content if isinstance(content, list) else []
    if others := [part.type for part in parts if part.type not in _TEXTS]:
        raise RequestError(400, f"Invalid request: messages: only text is translated, no {others[0]}"[:200])
    text = content if isinstance(content, str) else "\n".join(part.text for part in parts)
    if not text.strip():
        raise RequestError(400, "Invalid request: messages: there is no user message with text")
    return text


def _usage(segments: Sequence[TranslatedSegment], src: str = "prompt", tgt: str = "completion") -> dict[str, int]:
    """Return the numbers of tokens, under the names that OpenAI has for the two sides."""
    num_src = sum(len(segment.translation.src_ids) for segment in segments)
    num_tgt = sum(len(segment.translation.tgt_ids) for segment in segments)
    return {f"{src}_tokens": num_src, f"{tgt}_tokens": num_tgt, "total_tokens": num_src + num_tgt}


def _head(kind: str, model: str) -> dict[str, object]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _event(
    head: dict[str, object], index: int, delta: dict[str, Any], flags: Flags | None = None, finish: str | None = None
) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **with_signs(flags)}
    return _sent({**head, "choices": [choice]})


def _sent(event: dict[str, object]) -> bytes:
    return b"data: " + dump(event) + b"\n\n"
