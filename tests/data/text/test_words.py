"""What each definition of a word takes for one, on the same texts."""

from __future__ import annotations

import pytest

from nmt.data.text.words import (
    BARE_WORD,
    DIFF_TOKEN,
    counted_words,
    cuts_term_word,
    letter_runs,
    term_words,
    trigrams_of,
    unseen_words,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "terms", "counted", "letters"),
    [
        ("The 3 Dogs_2!", ["The", "3", "Dogs_2", "!"], ["the", "dogs"], ["the", "dogs"]),
        ("我是人", ["我", "是", "人"], ["我", "是", "人"], ["我是人"]),
        ("한국어 Straße", ["한", "국", "어", "Straße"], ["한국어", "straße"], ["한국어", "strasse"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"], ["ภ", "า", "ษ", "า"], ["ภาษา"]),
        ("", [], [], []),
    ],
)
def test_terms_counts_and_comparisons_have_words_of_their_own(text, terms, counted, letters):
    assert [word.text for word in term_words(text)] == terms
    assert all(text[word.start : word.end] == word.text for word in term_words(text))
    assert counted_words(text) == counted
    assert letter_runs(text) == letters


def test_a_term_may_be_cut_between_characters_of_unspaced_scripts_alone():
    assert [cuts_term_word("ab 我是", at) for at in range(6)] == [False, True, False, False, False, False]


@pytest.mark.parametrize("text", ["“Ja, 3,5 %!” 我\n是  x_y", "...", " "])
def test_tokens_of_a_comparison_are_the_whole_text(text):
    assert "".join(DIFF_TOKEN.findall(text)) == text


def test_a_bare_word_has_no_punctuation_around_it():
    assert BARE_WORD.findall("“don't” (3.5), x!") == ["“", "don't", "”", "(", "3.5", "),", "x", "!"]


SEEN = ["the", "dog", "sees", "a", "cat", "see", "and", "sudden"]


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        ("The dog sees a cat.", {}),
        ("THE DOG", {}),
        ("See README, the NATO, a DOG.", {"README": "capitals", "NATO": "capitals", "DOG": "capitals seen"}),
        ("Siobhan and dogs.", {"Siobhan": "capital 7 2", "dogs": "small 4 2"}),
        ("seed the sudo, a npm", {"seed": "small 4 2", "sudo": "small 4 2", "npm": "small 3 2"}),
        ("sudd and cats", {"sudd": "small 4 1", "cats": "small 4 2"}),
        ("“Dos”, (Dos): Dos; Dos… ¿Dos? Dos's", {"Dos": "capital 3 2", "s": "small 1 1"}),
        ("THE README", {"README": "small 6 2"}),  # all of the text is in capitals
        ("我看README和狗", {"README": "capitals"}),
        ("我看「README」，和GNOME。", {"README": "capitals", "GNOME": "capitals"}),
        ("x\u0304 and", {"x\u0304": "small 2 2"}),
        ("the dog.Lorem see", {"Lorem": "capital 5 2"}),  # a space is missing
    ],
)  # fmt: skip
def test_words_that_were_not_seen_have_a_kind_by_their_case_length_and_letters(text, unseen):
    assert dict(unseen_words(text, SEEN, {*trigrams_of(f" {' '.join(SEEN)} ")})) == unseen


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the apt-get, (get_it)", {"apt-get": "form a-a unseen", "get_it": "form a_a unseen"}),
        ("the dog-house; dog/the", {"dog-house": "form a-a partly seen", "dog/the": "form a/a seen"}),
        ("f(x), arr[0]... “--see”", {"f(x)": "form x(x) unseen", "arr[0]": "form a[0] unseen"}),
        ("-xvf see>the :-) &&", {"-xvf": "form -a unseen", "see>the": "form a>a seen", "&&": "form & seen"}),
        ("see 3,5 or 12:30, 99%, 1.000.000, but 1-2-3", {"1-2-3": "form 0-0-0 seen"}),
        ("l'a the dog's ‘see’ see!the (the) [dog]", {}),  # prose
        ("the dog sees.Lorem ipsum", {}),  # a space is missing
        ("看x-y狗v3", {"x-y": "form x-x unseen", "v3": "form x0 unseen"}),
        ("a 16h30, 3.x 100px Get-Item", {"3.x": "form 0.x unseen", "100px": "form 0a unseen",
            "Get-Item": "form A-A unseen"}),
        ("n°5 see,Lorem dog-the-dog-house & dog", {"n°5": "form °", "see,Lorem": "form ;",
            "dog-the-dog-house": "form a-a-a-a partly seen", "&": "form & seen"}),
        ("the v-see, 12-B, 1.5see but 1.5 see", {"v-see": "form a-a partly seen", "12-B": "form 0-x unseen",
            "1.5see": "form 0.0a seen"}),
    ],
)  # fmt: skip
def test_tokens_with_signs_have_a_kind_by_their_signs_and_words(text, tokens):
    found = dict(unseen_words(text, {"the", "dog", "see", "sees", "l", "h"}, ""))
    assert {token: kind for token, kind in found.items() if kind.startswith("form")} == tokens
