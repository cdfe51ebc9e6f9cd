"""Remarks on a corpus that concern no single pair: two spellings of one character, and how held-out sets differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from unicodedata import is_normalized

import numpy as np

from nmt.base.errors import counted
from nmt.base.languages import written_without_spaces
from nmt.data.text.characters import CharacterRule

# Between letters, or a letter itself: no quotation mark.
_APOSTROPHE = re.compile(r"['’`´‘′＇](?<=[^\W\d_].)(?=[^\W\d_])|[ʼꞌʻ]")
_WORD = re.compile(r"[^\W\d_]+")
_RARE = 0.01  # share of a character among those like it, of words that are cut
_MOST = 0.9  # share of the texts that begin alike
_MANY_UNKNOWN = 0.1  # share of the words of a set
_OTHER_LENGTH = 2.0
_MAX_LENGTH = 2000  # characters; longer texts count as this long
_MAX_SAMPLE = 20_000  # texts of a set whose words are counted


class SideText:
    """Counts of the texts of one language in one set: their lengths, words, apostrophes and letters.

    `held_out`: those of the sets that are held out beside a training corpus, by name.
    """

    def __init__(self, language: str):
        self.language = language
        self._by_character = any(map(written_without_spaces, language.split("/")))
        self.words: Counter[str] = Counter()  # of the first texts
        self.apostrophes: Counter[str] = Counter()
        self.bars = self.cuts = self.blanks = 0  # separators of factors, of subwords, and of words
        self.firsts: Counter[str] = Counter()  # characters at the beginning of texts
        self.unseen: set[str] = set()  # words that are looked for in all texts
        self.lengths = np.zeros(_MAX_LENGTH + 1, dtype=np.int64)  # the number of texts with 0, 1, 2, … characters
        self.odd: Counter[str] = Counter()  # texts that reading changes, by what it changes
        self.examples: dict[str, str] = {}
        self.held_out: dict[str, SideText] = {}

    def add(self, texts: Sequence[str]) -> None:
        """Add texts."""
        joined = "\n".join(texts)
        lengths = np.fromiter(map(len, texts), dtype=np.int64)
        self.bars += joined.count("|") + joined.count("￨")
        self.cuts += joined.count("@@ ")
        self.blanks += joined.count(" ") + len(texts)
        self.firsts.update("a number" if text[0].isdigit() else text[0] for text in texts if text)
        self.lengths += np.bincount(np.minimum(lengths, _MAX_LENGTH), minlength=len(self.lengths))
        self.apostrophes.update(_APOSTROPHE.findall(joined))
        is_sampled = self.lengths.sum() <= _MAX_SAMPLE
        if is_sampled or self.unseen:
            words = [*joined] if self._by_character else _WORD.findall(joined.lower())
            self.unseen.difference_update(words)
            if is_sampled:
                self.words.update(words)

    def add_held_out(self, name: str, texts: Sequence[str]) -> None:
        """Keep the texts of a held-out set to compare these with; call it before `add`."""
        self.held_out[name] = SideText(self.language)
        self.held_out[name].add(texts)
        self.unseen.update(self.held_out[name].words)

    def add_as_written(self, text: str, rule: CharacterRule) -> None:
        """Count what reading `text` by `rule` changes."""
        if rule(text) != text:
            kinds = {str(match.lastgroup) for match in re.finditer(rule.pattern, text)}
            if not is_normalized("NFC", text):
                kinds.add("letters_and_accents_not_in_NFC")
            self.odd.update(kinds)
            self.examples = dict.fromkeys(kinds, text[:60]) | self.examples

    def length(self, share: float) -> int:
        """Return the length in characters that a share of the texts does not exceed."""
        return int(np.searchsorted(self.lengths.cumsum(), share * self.lengths.sum()))

    def spellings(self) -> Iterator[str]:
        """Yield a remark on each character that is written in several ways, and on marks that are hardly text."""
        if self.bars >= self.blanks > 0:
            advice = "keep the words alone, if what follows is a lemma or a part of speech: sed 's/[|￨][^ ]*//g'"
            yield f"{self.language}: words with factors ({self.bars:,} bars, {self.blanks:,} words); {advice}"
        if self.cuts > _RARE * self.blanks:
            yield f"{self.language}: {self.cuts:,} words are cut, which nmt does itself: sed 's/@@ //g' joins them"
        least = max(20, _MOST * self.firsts.total())
        for first, count in self.firsts.items():
            if count > least and not first.isalpha():
                yield f"{self.language}: {count:,} texts begin with {first}: take it away, unless inputs will have it"
        least = _RARE * self.apostrophes.total()
        frequent = [f"{char} ({count:,})" for char, count in self.apostrophes.most_common() if count > least]
        if len(frequent) > 1:
            yield f"{self.language}: one character is written in {len(frequent)} ways: {', '.join(frequent)}"
        # Most words with a letter also occur with a more frequent one in its place: two habits of writing.
        words = [word for word, count in self.words.most_common(2000) if count > 2 and len(word) > 2]
        # A syllabary takes no longer than an alphabet.
        letters = [letter for letter, _ in Counter("".join(words)).most_common(60)]
        for number, letter in enumerate(letters):
            having = [word for word in words if letter in word]
            for other in letters[:number]:
                both = [word for word in having if word.replace(letter, other) in self.words]
                if len(both) > max(5, len(having) / 2):  # more than pairs like the French ou and où
                    examples = ", ".join(f"{word} and {word.replace(letter, other)}" for word in both[:3])
                    of = f"{len(both)} of {len(having)} frequent words with {letter} are also written with {other}"
                    yield f"{self.language}: {of}: {examples}"
        for kind, count in self.odd.most_common():
            yield (
                f"{self.language}: {counted(count, 'text')} with {kind.replace('_', ' ')} (data.characters:"
                f" normalized rewrites them), such as {self.examples[kind]}"
            )

    def differences(self, name: str) -> Iterator[str]:
        """Yield how the texts of the held-out set `name`, which has some, differ from these."""
        other = self.held_out[name]
        unknown = sum(count for word, count in other.words.items() if word in self.unseen)
        share = unknown / max(1, other.words.total())
        if share > _MANY_UNKNOWN:
            yield f"{share:.0%} of its {'characters' if self._by_character else 'words'} are not in train"
        usual = self.length(0.5)
        median = other.length(0.5)
        if max(median, usual) > _OTHER_LENGTH * max(1, min(median, usual)):
            yield f"{median} characters in the median, train has {usual}"
        mine, theirs = (side.apostrophes.most_common(1) for side in (self, other))
        if mine and theirs and mine[0][0] != theirs[0][0]:
            yield f"its apostrophe is {theirs[0][0]}, that of train {mine[0][0]}"


def remarks(sides: Sequence[SideText]) -> Iterator[str]:
    """Yield the remarks on both sides of a training corpus, and on the sets that are held out."""
    for side in sides:
        yield from side.spellings()
    for name in sides[0].held_out:
        for side in sides:
            if differences := list(side.differences(name)):
                yield f"{name}, {side.language}: {'; '.join(differences)}"
