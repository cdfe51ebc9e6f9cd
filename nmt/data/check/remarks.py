"""Remarks on a corpus that concern no single pair: two spellings of one character, and how held-out sets differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import is_normalized

import numpy as np

from nmt.base.errors import counted
from nmt.base.languages import written_without_spaces

_APOSTROPHE = re.compile(r"['’ʼꞌ`´‘ʻ′＇](?<=[^\W\d_].)(?=[^\W\d_])")  # between letters, where it is no quotation mark
_ALIKE = ("şș", "ţț", "ɛεԑ", "ɔͻ", "ŋη", "ɩι", "əǝә", "ɖđ", "ʋυ", "ɣγ")  # letters of one language, by two keyboards
_LETTER = re.compile(f"[{''.join(_ALIKE)}]")
_WORD = re.compile(r"[^\W\d_]+")
_RARE = 0.01  # share of a character among those like it
_MANY_UNKNOWN = 0.1  # share of the words of a set
_OTHER_LENGTH = 2.0


class SideText:
    """What the texts of one language in one set look like."""

    def __init__(self, language: str, wanted: Mapping[str, int] | None = None):
        """Keep all words, or only whether there are those of `wanted`."""
        self.language = language
        self._by_character = any(map(written_without_spaces, language.split("/")))
        self._wanted = wanted
        self.words = Counter[str]()
        self.apostrophes, self.letters = Counter[str](), Counter[str]()
        self.num_texts = self.num_decomposed = 0

    def add(self, texts: Sequence[str]) -> None:
        """Add texts."""
        joined = "\n".join(texts)
        self.num_texts += len(texts)
        self.apostrophes.update(_APOSTROPHE.findall(joined))
        if not joined.isascii():
            self.letters.update(_LETTER.findall(joined))
            if not is_normalized("NFC", joined):
                self.num_decomposed += sum(not is_normalized("NFC", text) for text in texts)
        if self._wanted is None or len(self.words) < len(self._wanted):
            words = [*joined] if self._by_character else _WORD.findall(joined.lower())
            self.words.update(words if self._wanted is None else self._wanted.keys() & set(words))

    def spellings(self) -> Iterator[str]:
        """Yield a remark on each character that is written in several ways."""
        groups = [self.apostrophes, *({char: self.letters[char] for char in group} for group in _ALIKE)]
        for counts in groups:
            frequent = [each for each in Counter(counts).most_common() if each[1] > _RARE * sum(counts.values())]
            if len(frequent) > 1:
                ways = ", ".join(f"{char} ({count:,})" for char, count in frequent)
                yield f"{self.language}: one character is written in {len(frequent)} ways: {ways}"
        if self.num_decomposed:
            yield f"{self.language}: {counted(self.num_decomposed, 'text')} not in NFC: letters and accents are apart"

    def differences(self, other: SideText, median: int, usual: int) -> Iterator[str]:
        """Yield how the texts of `other`, with its `median` length, differ from these, which have a `usual` one."""
        if not other.num_texts:
            return
        unknown = sum(count for word, count in other.words.items() if word not in self.words)
        share = unknown / max(1, other.words.total())
        if share > _MANY_UNKNOWN:
            yield f"{share:.0%} of its {'characters' if self._by_character else 'words'} are not in train"
        if max(median, usual) > _OTHER_LENGTH * max(1, min(median, usual)):
            yield f"{median} characters in the median, train has {usual}"
        mine, theirs = (side.apostrophes.most_common(1) for side in (self, other))
        if mine and theirs and mine[0][0] != theirs[0][0]:
            yield f"its apostrophe is {theirs[0][0]}, that of train {mine[0][0]}"
        if (2 * other.num_decomposed > other.num_texts) != (2 * self.num_decomposed > self.num_texts):
            yield "only one of it and train is in NFC"


class Remarks:
    """Adds up the texts of a training corpus, beside its held-out sets."""

    def __init__(self, languages: tuple[str, str], held_out: Mapping[str, Sequence[tuple[str, str]]]):
        """Read the pairs of the sets that are held out, by name."""
        self._sets: dict[str, list[tuple[SideText, int]]] = {}
        for name, pairs in held_out.items():
            sides = [SideText(language) for language in languages]
            texts = list(zip(*pairs, strict=True)) or [(), ()]
            for side, own in zip(sides, texts, strict=True):
                side.add(own)
            self._sets[name] = [(side, _median(own)) for side, own in zip(sides, texts, strict=True)]
        wanted = [Counter[str](), Counter[str]()]
        for number, words in enumerate(wanted):
            for measured in self._sets.values():
                words.update(measured[number][0].words)
        self.train = [SideText(language, words) for language, words in zip(languages, wanted, strict=True)]

    def lines(self, medians: Sequence[int]) -> Iterator[str]:
        """Yield the remarks; `medians`: the median length of each side of the training text, in characters."""
        for side in self.train:
            yield from side.spellings()
        for name, measured in self._sets.items():
            for train, (side, median), usual in zip(self.train, measured, medians, strict=True):
                if differences := list(train.differences(side, median, usual)):
                    yield f"{name}, {side.language}: {'; '.join(differences)}"


def _median(texts: Sequence[str]) -> int:
    return int(np.median([len(text) for text in texts])) if texts else 0
