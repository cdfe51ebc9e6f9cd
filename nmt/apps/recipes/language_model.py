"""A language model as teacher: translations from any server with OpenAI's API, /v1/chat/completions."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from http.client import HTTPException
from itertools import chain
from threading import BoundedSemaphore, Event, Thread
from typing import Any, NamedTuple, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from nmt.apps.recipes.candidates import Answer
from nmt.base.errors import NmtError, in_words
from nmt.base.languages import Direction, english_name
from nmt.config import Config, SearchOptions
from nmt.data.read.lines import without_surrogates
from nmt.data.text.spans import find_spans
from nmt.data.text.words import counted_words
from nmt.training.corpus.corpus import Corpus, with_both_sides
from nmt.translation.guards import find_loop
from nmt.translation.languages import LanguagePair
from nmt.translation.protect import Protected, missing
from nmt.translation.segments import SegmentTranslation
from nmt.translation.translation import Translation
from nmt.translation.translator import Blocks, TranslatedBlock

KEY_VARIABLE = "NMT_TEACHER_KEY"  # the environment variable with the server's API key
TIMEOUT_SECONDS, ATTEMPTS, PAUSE_SECONDS, MAX_PAUSE_SECONDS = 300.0, 7, 1.0, 60.0
_MAX_GIVEN_UP = 20  # lines in a row; more are the server's fault
_MAX_REPLY_BYTES = 1 << 24
_MAX_TOKENS = 2048  # a model that repeats itself would fill its whole context
_MAX_EXAMPLE_CHARACTERS = 300
_MAX_GROWTH, _MIN_CHARACTERS = 6, 100  # from Chinese, a translation may have four times as many characters
_LINES_AHEAD = 4  # per request at once, so that a line that is asked for again does not hold up those after it

_THOUGHTS = re.compile(r"<think>.*?(</think>|$)", re.DOTALL)
_QUOTED = re.compile(r"""["“„«「'‘](.*)["”“»」'’]""")
_REFUSAL = re.compile(
    r"\b(as an AI|as a language model|I(['’]m| am)( \w+)? (sorry|unable|not able)|I (cannot|can['’]t|won['’]t))\b"
    r".{0,60}\b(assist|comply|fulfil|help|provide|request|translat|content)",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(
    r"```|(sure|certainly|of course|here(['’]s| is| are)|(the )?translation|note)\b[^.]{0,60}:", re.IGNORECASE
)


class _RequestError(Exception):
    """A request without a usable reply: the HTTP status (0: none), the reason, and what the server says about it."""

    def __init__(self, status: int, problem: str, parameter: str = "", pause: float = 0.0):
        self.status, self.problem, self.parameter, self.pause = status, problem, parameter, pause


class Prompt(NamedTuple):
    """The languages of a teacher, and what precedes each text: instructions, and pairs of the corpus as examples."""

    direction: Direction
    messages: list[dict[str, str]]

    @classmethod
    def from_config(cls, config: Config, direction: Direction, num_examples: int) -> Self:
        """Take examples from the training pairs, evenly spaced; `direction` may be the opposite of the model's.

        They are the same for every text, so that servers read them only once.
        """
        corpus, found = Corpus(config), []
        for pair in with_both_sides(corpus.train_pairs()) if num_examples else ():
            src, tgt = corpus.direction("train", pair)
            if {src, tgt} == {*direction} and max(len(pair.src), len(pair.tgt)) <= _MAX_EXAMPLE_CHARACTERS:
                found.append((pair.src, pair.tgt) if src == direction.src else (pair.tgt, pair.src))
        chosen = [found[i * len(found) // num_examples] for i in range(min(num_examples, len(found)))]
        src, tgt = map(english_name, direction)
        told = f"Translate from {src} into {tgt}. Answer with the translation alone, on one line."
        turns = [(role, text) for pair in chosen for role, text in zip(("user", "assistant"), pair, strict=True)]
        # As part of the first example, because some models take no system message.
        turns = [("user", f"{told}\n\n{turns[0][1]}"), *turns[1:]] if turns else [("system", told)]
        return cls(direction, [{"role": role, "content": text} for role, text in turns])


class LanguageModel:
    """Translates by requests to a server, several at once; failed ones are repeated."""

    def __init__(self, url: str, model: str | None, prompt: Prompt, options: SearchOptions, num_requests: int):
        """Send a first request. NmtError if the server cannot be reached, or refuses the model or the key."""
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
        except ValueError:
            is_url = False
        if not is_url:
            hint = f"such as http://localhost:8000/v1; a key goes into the environment variable {KEY_VARIABLE}"
            raise NmtError("--teacher is not the URL of a server", hint=hint)
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self._url = f"{parts.scheme}://{parts.netloc}{path or '/v1'}"
        self._prompt, self.options, self._num_requests = prompt, options, num_requests
        self.languages = LanguagePair(*prompt.direction)
        self._key = os.environ.get(KEY_VARIABLE, "").strip()
        self._slots, self._closed, self._answered, self._num_given_up = BoundedSemaphore(num_requests), Event(), -1.0, 0
        self._optional = {"max_tokens": _MAX_TOKENS, "temperature": 0.0}
        try:
            self._model = model or self._only_model()
            self._ask(0, prompt.messages[0]["content"].rpartition("\n")[2])
        except _RequestError as failure:
            hint = f"is the server running? --teacher {self._url}"
            if failure.status in (401, 403):
                hint = f"{'check' if self._key else 'put'} the server's key in the environment variable {KEY_VARIABLE}"
            elif failure.status:
                hint = "check --teacher and --model" + (f" {model}" if model else "")
            raise NmtError(failure.problem, path=self._url, hint=hint) from None

    def settings(self) -> dict[str, object]:
        """Return what determines the translations, so that no others continue an output."""
        prompt = hashlib.sha256(json.dumps(self._prompt).encode()).hexdigest()[:16]
        return {**self.options.model_dump(), "teacher": self._model, "prompt": prompt}

    def translate_blocks(self, blocks: Blocks, _request: object, first: int) -> Iterator[TranslatedBlock]:
        """Yield each line with its translation, in order; `first` is the number of the first line."""
        waiting: deque[tuple[str, Future[Translation]]] = deque()
        for number, line in enumerate(chain.from_iterable(blocks), first):
            waiting.append((line, Future()))
            # Daemons, so that a server that does not answer cannot keep a stopped command alive.
            Thread(target=self._fulfil, args=(waiting[-1][1], number, line), daemon=True).start()
            while waiting and (waiting[0][1].done() or len(waiting) > _LINES_AHEAD * self._num_requests):
                line, future = waiting.popleft()
                yield [line], [future.result()]
        yield from (([line], [future.result()]) for line, future in waiting)

    def _fulfil(self, future: Future[Translation], number: int, line: str) -> None:
        try:
            with self._slots:
                future.set_result(self._ask(number, line) if line else Translation(""))
        except _RequestError as failure:
            hint = "what was written is kept; continue with --resume when the server answers"
            future.set_exception(NmtError(f"line {number:,}: {failure.problem}", path=self._url, hint=hint))
        except BaseException as error:
            future.set_exception(error)

    def _ask(self, number: int, text: str) -> Answer:
        """Return the answers for line `number`, asking again if that may help; an empty one if only this line fails.

        _RequestError if the server seems to be at fault: nothing else was answered meanwhile, or `number` is 0.
        """
        options, messages = self.options, [*self._prompt.messages, {"role": "user", "content": text}]
        body: dict[str, object] = {"model": self._model, "messages": messages, "n": options.num_hypotheses}
        if options.sample:
            body |= {"temperature": options.temperature, "top_p": options.top_p, "seed": options.seed + number}
        pause, left, since = PAUSE_SECONDS, ATTEMPTS, time.monotonic()
        while True:
            try:
                answer = self._answers(self._fetch("/chat/completions", {**self._optional, **body}), text)
                self._answered, self._num_given_up = time.monotonic(), 0
                return answer
            except _RequestError as failure:
                left -= 1
                if failure.status == 400 and self._optional.pop(failure.parameter, None) is not None:
                    continue  # a parameter that not every model takes
                is_final = 300 <= failure.status < 500 and failure.status not in (408, 409, 425, 429)
                if (is_final or not left or self._closed.is_set()) or (not number and failure.status < 429):
                    self._num_given_up += 1
                    is_servers = failure.status in (401, 403, 404) or self._num_given_up > _MAX_GIVEN_UP
                    if not number or is_servers or (self._answered < since and not is_final):
                        raise
                    return Answer("", faults=("refused" if is_final else "failed",))
                since = time.monotonic()
                self._closed.wait(min(MAX_PAUSE_SECONDS, failure.pause or pause * random.uniform(0.5, 1)))
                pause *= 2

    def _fetch(self, path: str, body: object = None) -> Any:
        """Return the JSON of a reply. _RequestError if there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data, {"Content-Type": "application/json"})
        if self._key:  # not sent to where the server redirects
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
                return json.loads(reply.read(_MAX_REPLY_BYTES))
        except HTTPError as error:
            said, parameter = _explained(error)
            problem = f"HTTP {error.code}: {said.replace(self._key, '…') if self._key else said}"
            after = re.fullmatch(r"\d+", error.headers.get("Retry-After") or "0")
            raise _RequestError(error.code, problem, parameter, float(after[0]) if after else 0.0) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _RequestError(0, f"cannot be reached ({getattr(reason, 'strerror', None) or reason})") from None
        except (ValueError, RecursionError):
            raise _RequestError(200, "the reply is not JSON") from None

    def _only_model(self) -> str:
        try:
            names = [str(model["id"]) for model in self._fetch("/models")["data"]]
        except (LookupError, TypeError):
            names = []
        if len(names) != 1:
            raise NmtError(f"the server has {in_words(names) or 'no list of models'}", hint="choose one with --model")
        return names[0]

    def _answers(self, reply: Any, text: str) -> Answer:
        """Return the first choice of a reply, with the others as alternatives. _RequestError if it has none."""
        try:
            best, *others = (
                self._answer(choice["message"], choice.get("finish_reason"), text) for choice in reply["choices"]
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _RequestError(200, "the reply holds no chat completion") from None
        best.alternatives.extend(others)
        return best

    def _answer(self, message: dict[str, Any], reason: str | None, text: str) -> Answer:
        output = without_surrogates(_THOUGHTS.sub("", message["content"] or "")).strip()
        if (quoted := _QUOTED.fullmatch(output)) and not _QUOTED.fullmatch(text.strip()):
            output = quoted[1].strip()
        is_long = "\n" in output or len(output) > _MAX_GROWTH * len(text) + _MIN_CHARACTERS
        faults = {
            "refused": message.get("refusal") or reason == "content_filter" or _REFUSAL.search(output),
            "explained": is_long or (_EXPLANATION.match(output) and not _EXPLANATION.match(text)),
        }
        kept = [text[span.start : span.end] for span in find_spans(text)]
        without = Protected("", kept).without_spans
        return Answer(
            output,
            float("nan"),
            [SegmentTranslation(output, 0.0, [], [], truncated=False, finished=reason != "length")],
            loop_unresolved=find_loop(counted_words(output), counted_words(text)) is not None,
            protected_lost=missing(kept, output),
            without_spans=(without(text), without(output)),
            direction=self._prompt.direction,
            faults=tuple(fault for fault, is_so in faults.items() if is_so),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()


def _explained(error: HTTPError) -> tuple[str, str]:
    """Return the server's words for an error, and the parameter of the request that it names, if any."""
    try:
        found = json.loads(error.read(10_000))
        found = found.get("error", found)
        said, parameter = (found.get("message"), found.get("param")) if isinstance(found, dict) else (found, "")
    except (OSError, HTTPException, ValueError, AttributeError, RecursionError):
        said, parameter = "", ""
    return " ".join(str(said or error.reason).split())[:300], str(parameter)
