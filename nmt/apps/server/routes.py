"""Find the models that translate between the languages of a request, and the translation memory of its client."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

from nmt.apps.server.access import Key
from nmt.apps.server.corrections import Corrections
from nmt.apps.server.detect import Detector
from nmt.apps.server.models import Models, ServedModel, Step
from nmt.apps.server.requests import RequestError
from nmt.apps.server.settings import Settings
from nmt.base.errors import how_to_install, in_words
from nmt.base.languages import Direction, chinese_form, english_name, script_of, standard_code
from nmt.data.text.glossary import Glossary
from nmt.translation import Translation, Translator
from nmt.translation.chain import paths
from nmt.translation.memory import TranslationMemory
from nmt.translation.through_models import ThroughModels, through_models

log = logging.getLogger(__name__)

_MAX_DIRECTIONS = 1000  # as clients spell them, of which the direction and model are remembered

Memories = dict[bytes, dict[Direction, TranslationMemory]]  # by the hashes of the keys of clients


class Routed(NamedTuple):
    """A text with the directions and models that translate it, one or two in a row."""

    text: str
    path: Sequence[Step]
    glossary: Glossary | None = None
    form: str | None = None  # of Chinese characters, if the request names one and the model does not
    flags: bool = False  # whether to check the translation, which takes a fifth as long as a sentence
    memory: TranslationMemory | None = None  # of the client
    symbol: str = ""  # a user symbol to read before the text, and a space

    @property
    def translators(self) -> list[Translator]:
        """The models."""
        return [model.translator for _, model in self.path]

    def through_models(self) -> ThroughModels[Step]:
        """Return the way of the text, which its memory may end; without a path, it stays as it is."""
        if not self.path:
            return Translation(self.text.strip())
        match = None if self.memory is None else self.memory.find(self.text)
        return (yield from through_models(self.text, self.path, match=match, glossary=self.glossary))


def ways(directions: Collection[Direction]) -> dict[Direction, Sequence[Direction]]:
    """Return `directions`, and those through a third language, each with the one or two that lead there."""
    direct: dict[Direction, Sequence[Direction]] = {direction: [direction] for direction in directions}
    return direct | paths(directions, directions) | direct


class Routes:
    """The models and memories of a server, which SIGHUP replaces together, and the languages that they join."""

    def __init__(self, models: Models, keys: Mapping[bytes, Key], settings: Settings):
        """Read the translation memories of the settings and of `keys`. DataError if one cannot be used."""
        self.models = models
        self.ways = ways(models.directions)
        self.memories = _read_memories(settings, [*self.ways], keys)
        self.sources = list(dict.fromkeys(direction.src for direction in models.directions))
        self.targets = list(dict.fromkeys(direction.tgt for direction in models.directions))
        self.detector = Detector([*self.sources, *self.targets])
        self.path = lru_cache(_MAX_DIRECTIONS)(self._path)

    def route(self, source: str, target: str, client: bytes = b"", model: ServedModel | None = None) -> Routed:
        """Return the direction, the models and the memory of the `client`, as `Access.check` returns it, for any text.

        Regional codes match their language: pt-BR finds a model for pt. `model` restricts the choice to one model.
        A text in the language of the target gets no models. RequestError (400) if no model supports the languages.
        """
        path = self.path(source, target, model)
        if not path:
            return Routed("", ())
        direction = Direction(path[0][0].src, path[-1][0].tgt)
        memories = self.memories.get(client, self.memories.get(b"", {}))
        form = chinese_form(target) if chinese_form(direction.tgt) is None else None
        return Routed("", path, form=form, memory=memories.get(direction))

    def check_target(self, target: str, model: ServedModel | None) -> None:
        """Raise RequestError (400) if nothing is translated into `target`."""
        _supported(target, "into", self.targets if model is None else [tgt for _, tgt in model.directions])

    def _path(self, source: str, target: str, model: ServedModel | None) -> list[Step]:
        """Return the direction and its model, or two that lead through a third language.

        An empty list if source and target are one language.
        """
        directions = self.models.directions if model is None else dict.fromkeys(model.directions, model)
        known = self.ways if model is None else ways(model.directions)
        fitting = [d for d in known if _fits(d.src, source) and _fits(d.tgt, target)]
        if not fitting and _fits(source, target) and _closest(source, [*self.sources, *self.targets]):
            return []
        tgt = _supported(target, "into", [direction.tgt for direction in directions])
        src = _supported(source, "from", [direction.src for direction in directions])
        if not fitting:
            raise RequestError(400, f"{_named(tgt)} is not available as a target language from {_named(src)}")
        closest = min(fitting, key=lambda d: (len(known[d]), d != (src, tgt)))
        return [(direction, directions[direction]) for direction in known[closest]]


def _read_memories(settings: Settings, directions: Sequence[Direction], keys: Mapping[bytes, Key]) -> Memories:
    """Return the memories of all clients, by the hashes of their keys; b"": of those that have none of their own.

    That of all has the corrections, too, in place of what they correct.
    """
    names = {key.memory for key in keys.values()} - {""}
    memories = {name: TranslationMemory.read_all([name], directions) for name in names}
    found = {client: memories[key.memory] for client, key in keys.items() if key.memory}
    files = [settings.tm] if settings.tm else []
    growing = []
    if settings.corrections:
        Corrections(settings.corrections)  # there is a file, although it may have been moved away
        growing = [str(settings.corrections)]
    if growing and not find_spec("rapidfuzz"):
        log.info(f"corrections are only collected, not used at once; to use them: {how_to_install('tm')}")
        growing = []
    if [*map(os.path.realpath, files)] == [*map(os.path.realpath, growing)]:
        files = []
    if files or growing:
        found[b""] = TranslationMemory.read_all(files, directions, growing)
    return found


def _closest(code: str, codes: Sequence[str]) -> str | None:
    """Return `code` as spelled in `codes`, or else the first of `codes` with the same language."""
    fitting = [each for each in codes if _fits(each, code)]
    return max(fitting, key=lambda each: each.replace("_", "-").lower() == code.replace("_", "-").lower(), default=None)


def _fits(code: str, other: str) -> bool:
    """Return whether two codes name one language, in scripts, or forms of Chinese, that do not differ."""
    if standard_code(code) != standard_code(other):
        return False
    forms = {chinese_form(code), chinese_form(other)} - {None}
    scripts = {script_of(code), script_of(other)} - {None}
    return len(forms) < 2 and len(scripts) < 2


def _named(code: str) -> str:
    """Return the English name of a language with its code, or only the code if it has none."""
    name = english_name(code)
    return name if name == code or name.endswith(f"({code})") else f"{name} ({code})"


def _supported(code: str, preposition: str, codes: Sequence[str]) -> str:
    """Return `code` as `_closest` finds it. RequestError (400) if it is none of `codes`."""
    if (closest := _closest(code, codes)) is not None:
        return closest
    listed = in_words([_named(code) for code in dict.fromkeys(codes)])
    field = "target or target_lang" if preposition == "into" else "source or source_lang"
    raise RequestError(400, f"{field}: {_named(code)} is not supported; this server translates {preposition} {listed}")
