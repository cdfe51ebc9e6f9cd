"""A language model as teacher: translations from any server with OpenAI's API, /v1/chat/completions."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from nmt.apps.recipes.candidates import Answer
from nmt.apps.recipes.defaults import NUM_EXAMPLES, NUM_REQUESTS
from nmt.base.errors import NmtError, in_words, require
from nmt.base.languages import Direction, english_name
from nmt.config import Config, SearchOptions
from nmt.data.read.lines import without_surrogates
from nmt.data.text.spans import find_spans
from nmt.data.text.words import counted_words
from nmt.training.corpus.corpus import Corpus, with_both_sides
from nmt.translation.guards import find_loop
from nmt.translation.languages import LanguagePair
from nmt.translation.protect import Protected, lost_spans
from nmt.translation.request import Request
from nmt.translation.segments import SegmentTranslation
from nmt.translation.translation import Translation
from nmt.translation.translator import Blocks, TranslatedBlock

KEY_VARIABLE = "NMT_TEACHER_KEY"  # the environment variable with the server's API key
TIMEOUT_SECONDS = 300.0
MAX_RETRIES = 6  # by the client, which pauses for half a second and more between them
ROUNDS = (
    2  # of requests for a line, each with the retries; in the last one, other lines show whether the server answers
)
_MAX_GIVEN_UP = 20  # lines in a row; more are the server's fault
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


class Teacher(NamedTuple):
    """A language model on a server with OpenAI's API, and how it is asked; it needs the extra `teacher`."""

    url: str  # such as http://localhost:8000/v1; its key is read from the environment variable NMT_TEACHER_KEY
    config: Config | str | Path  # of the model to train: its languages, and the examples in the prompt
    name: str | None = None  # of the model on the server; None: the only one
    num_examples: int = NUM_EXAMPLES  # training pairs in the prompt
    num_requests: int = NUM_REQUESTS  # at the same time


class Prompt(NamedTuple):
    """The languages of a teacher, and what precedes each text: instructions, and pairs of the corpus as examples."""

    direction: Direction
    messages: list[dict[str, str]]

    @classmethod
    def from_config(cls, config: Config, direction: Direction, num_examples: int) -> Self:
        """Take examples from the training pairs, evenly spaced; `direction` may be the opposite of the model's.

        They are the same for every text, so that servers read them only once.
        """
        corpus = Corpus(config)
        found = []
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
    """Translates by requests to a server, several at once. OpenAI's client repeats those that fail."""

    precision = ""  # unknown

    def __init__(self, url: str, model: str | None, prompt: Prompt, options: SearchOptions, num_requests: int):
        """Send a first request, and only once.

        NmtError if the server cannot be reached or refuses the model or the key, or if the extra `teacher` is missing.
        """
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
        except ValueError:
            is_url = False
        if not is_url:
            raise NmtError(
                "--teacher is not the URL of a server",
                hint=f"such as http://localhost:8000/v1; a key goes into the environment variable {KEY_VARIABLE}",
            )
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self._url = f"{parts.scheme}://{parts.netloc}{path or '/v1'}"
        self._prompt = prompt
        self.options = options
        self._num_requests = num_requests
        self.languages = LanguagePair(*prompt.direction)
        self._key = os.environ.get(KEY_VARIABLE, "").strip()
        self._slots = BoundedSemaphore(num_requests)
        self._num_answered = 0
        self._num_given_up = 0
        self._optional = {"max_tokens": _MAX_TOKENS, "temperature": 0.0}
        self._openai = require("teacher", "openai", "a language model as teacher")
        # The client would read these from environment variables that are meant for OpenAI's own server.
        unsent = ("OpenAI-Organization", "OpenAI-Project")
        self._client = self._openai.OpenAI(
            base_url=self._url,
            api_key=self._key or "none",  # it needs one; most servers of one's own do not look at it
            max_retries=0,  # a wrong address is named at once
            timeout=TIMEOUT_SECONDS,
            default_headers=dict.fromkeys(unsent, self._openai.Omit()),
        )
        try:
            self._model = model or self._only_model()
            self._create(0, prompt.messages[0]["content"].rpartition("\n")[2])
        except (self._openai.APIError, ValueError) as error:
            hint = f"is the server running? --teacher {self._url}"
            status = _status_of(error)
            if status in (401, 403):
                hint = f"{'check' if self._key else 'put'} the server's key in the environment variable {KEY_VARIABLE}"
            elif status:
                hint = "check --teacher and --model" + (f" {model}" if model else "")
            raise NmtError(self._problem_of(error), path=self._url, hint=hint) from None
        self._client = self._client.with_options(max_retries=MAX_RETRIES)

    def settings(self) -> dict[str, object]:
        """Return what determines the translations, so that no others continue an output."""
        prompt = hashlib.sha256(json.dumps(self._prompt).encode()).hexdigest()[:16]
        return {**self.options.model_dump(), "teacher": self._model, "prompt": prompt}

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
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
        except (self._openai.APIError, ValueError) as error:
            failure = NmtError(
                f"line {number:,}: {self._problem_of(error)}",
                path=self._url,
                hint="what was written is kept; continue with --resume when the server answers",
            )
            future.set_exception(failure)
        except BaseException as error:
            future.set_exception(error)

    def _ask(self, number: int, text: str) -> Answer:
        """Return the answers for line `number`; an empty one if only this line fails.

        Raises the error of the last request if the server seems to be at fault: nothing else was answered meanwhile.
        """
        for is_last in [False] * (ROUNDS - 1) + [True]:
            num_answered = self._num_answered
            try:
                answer = self._create(number, text)
            except (self._openai.APIError, ValueError) as error:
                status = _status_of(error)
                is_refused = 400 <= status < 500 and status not in (408, 409, 429)
                if not (is_refused or is_last):
                    continue
                self._num_given_up += 1
                is_servers = status in (401, 403, 404) or self._num_given_up > _MAX_GIVEN_UP
                if is_servers or not (is_refused or self._num_answered > num_answered):
                    raise
                break
            self._num_answered += 1
            self._num_given_up = 0
            return answer
        return Answer("", faults=("refused" if is_refused else "failed",))

    def _create(self, number: int, text: str) -> Answer:
        """Send a request for a line. openai.APIError without a reply, ValueError if it is no chat completion."""
        options = self.options
        messages = [*self._prompt.messages, {"role": "user", "content": text}]
        body: dict[str, object] = {"model": self._model, "messages": messages, "n": options.num_hypotheses}
        if options.sample:
            body |= {"temperature": options.temperature, "top_p": options.top_p, "seed": options.seed + number}
        while True:
            try:
                reply = self._client.chat.completions.create(**{**self._optional, **body})
                break
            except self._openai.BadRequestError as error:  # a parameter that not every model takes?
                if self._optional.pop(str(error.param), None) is None:
                    raise
        try:
            best, *others = (self._answer(choice.message, choice.finish_reason, text) for choice in reply.choices)
        except (ValueError, TypeError, AttributeError):
            raise ValueError("the reply holds no chat completion") from None
        best.alternatives.extend(others)
        return best

    def _only_model(self) -> str:
        listed = getattr(self._client.models.list(), "data", None) or []
        names = [str(model.id) for model in listed]
        if len(names) != 1:
            raise NmtError(f"the server has {in_words(names) or 'no list of models'}", hint="choose one with --model")
        return names[0]

    def _problem_of(self, error: Any) -> str:
        """Return what a user is told of a failed request: the server's words, without the key."""
        if not (status := _status_of(error)):
            return str(error) if isinstance(error, ValueError) else f"cannot be reached ({_root_cause(error)})"
        said = error.body.get("message") if isinstance(error.body, dict) else None
        words = " ".join(str(said or error.response.reason_phrase).split())[:300]
        return f"HTTP {status}: {words.replace(self._key, '…') if self._key else words}"

    def _answer(self, message: Any, reason: str | None, text: str) -> Answer:
        output = without_surrogates(_THOUGHTS.sub("", message.content or "")).strip()
        if (quoted := _QUOTED.fullmatch(output)) and not _QUOTED.fullmatch(text.strip()):
            output = quoted[1].strip()
        is_long = "\n" in output or len(output) > _MAX_GROWTH * len(text) + _MIN_CHARACTERS
        faults = {
            "refused": getattr(message, "refusal", None) or reason == "content_filter" or _REFUSAL.search(output),
            "explained": is_long or (_EXPLANATION.match(output) and not _EXPLANATION.match(text)),
        }
        kept = [text[span.start : span.end] for span in find_spans(text)]
        without = Protected([], kept).without_spans
        return Answer(
            output,
            float("nan"),
            [SegmentTranslation(output, 0.0, [], [], truncated=False, finished=reason != "length")],
            loop_unresolved=find_loop(counted_words(output), counted_words(text)) is not None,
            protected_lost=lost_spans(kept, output),
            without_spans=(without(text), without(output)),
            direction=self._prompt.direction,
            faults=tuple(fault for fault, is_so in faults.items() if is_so),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()


def _status_of(error: Exception) -> int:
    """Return the HTTP status of a reply that was an error; 0 without one."""
    return int(getattr(error, "status_code", 0))


def _root_cause(error: BaseException) -> str:
    """Return why there was no connection, as the system says it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return getattr(error, "strerror", None) or str(error)
