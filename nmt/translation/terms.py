"""Write glossary terms as tokens, for a search that must find them, and find them in the tokens of a translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from nmt.data.text.glossary import Glossary, Term, may_end
from nmt.data.text.words import cuts_term_word
from nmt.data.tokens.tokenizer import Tokenizer

# Terms of a segment that a search must find, with up to 4 forms each: the decoder takes 64 forms. A
# form of more than 60 tokens, which nobody types, leaves no room for a translation. Chosen by hand.
MAX_TERMS = 16
_MAX_TOKENS = 60

Ids = Sequence[int]


def term_ids(tokenizer: Tokenizer, terms: Iterable[Term]) -> list[int]:
    """Return the targets of the first 16 terms as (number, length, ids) of each form; see `interface.Terms`.

    The first letter may be a capital, as at the beginning of a sentence. In scripts without spaces, a term needs none
    before it.
    """
    written: list[int] = []
    number = 0
    for term in [*terms][:MAX_TERMS]:
        target = term.target
        forms = [tokenizer.encode(text) for text in (target, target[0].upper() + target[1:])]
        if not cuts_term_word("x" + target, 1):
            forms += [without for form in forms for without in _without_space(tokenizer, form)]
        known = {tuple(form): None for form in forms if tokenizer.decode(form).lower() == target.lower()}
        if usable := [form for form in known if 0 < len(form) <= _MAX_TOKENS]:
            written += [each for form in usable for each in (number, len(form), *form)]
            number += 1
    return written


def _without_space(tokenizer: Tokenizer, form: list[int]) -> list[list[int]]:
    """Return the `form` without the space before it, if a token spells its beginning."""
    first = tokenizer.tokens(form[:1])[0].removeprefix("▁")
    token = tokenizer.id_of(first) if first else None
    return [form[1:]] if not first else [] if token is None else [[token, *form[1:]]]


def with_target(tokenizer: Tokenizer, ids: Ids, places: Ids, target: str) -> list[int]:
    """Return `ids` with the target of a term in place of those at `places`."""
    replaced = tokenizer.tokens([ids[places[0]]])[0]
    if places[0] == 0 and replaced.lstrip("▁")[:1].isupper():
        target = target[0].upper() + target[1:]
    form = tokenizer.encode(target)
    without = [] if replaced.startswith("▁") else _without_space(tokenizer, form)
    rest = [ids[i] for i in range(places[0], len(ids)) if i not in places]
    return [*ids[: places[0]], *(without[0] if without else form), *rest]


def occurrences(tokenizer: Tokenizer, ids: Ids, terms: Mapping[str, str]) -> list[tuple[set[int], Term]]:
    """Return the terms in the text of `ids`, each after the numbers of its tokens."""
    spelled = [token.replace("▁", " ") for token in tokenizer.tokens(ids)]
    owners = [number for number, text in enumerate(spelled) for _ in text]
    return [({*owners[start:end]}, term) for start, end, term in Glossary(terms).find("".join(spelled))]


@lru_cache(maxsize=8)
def word_boundaries(tokenizer: Tokenizer) -> bytes:
    """Return for each token whether the word before it ends there: 1 or 0."""
    tokens = tokenizer.vocabulary
    ends = bytearray(
        token.startswith("▁") or (not cuts_term_word("xx" + token, 2) and may_end("xx" + token, 0, 2))
        for token in tokens
    )
    for token in tokenizer.byte_tokens:
        ends[token] = 0
    return bytes(ends)
