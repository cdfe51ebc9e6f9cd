"""Inline tags stand around the words that are linked with theirs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.apps.documents.blocks import Block, Item
from nmt.apps.documents.tag_projection import Tag, join_details, project
from nmt.translation.word_links import Details

# the red house -> la casa roja
HOUSE = Details(["the ", "red ", "house"], ["la ", "casa ", "roja"], [(0, 0), (1, 2), (2, 1)], [1.0, 1.0, 1.0])


def tags(*places: tuple[int, str]) -> list[Tag]:
    names = [tag.strip("<>") for _, tag in places]
    return [Tag(at, "!" if name == "br" else name) for (at, _), name in zip(places, names, strict=True)]


def written(placed: list[Tag], aligned: Details) -> str | None:
    """Return the translation with its tags, `<br>` for those that stand alone."""
    marked = project(placed, aligned)
    names = [tag.name.replace("!", "br") for tag in placed]
    return marked and re.sub(r"\{h(\d+)\}", lambda mark: f"<{names[int(mark[1])]}>", marked)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        (tags((4, "<b>"), (7, "</b>")), "la casa <b>roja</b>"),
        (tags((4, "<b>"), (13, "</b>")), "la <b>casa roja</b>"),
        (tags((4, "<b>"), (4, "<i>"), (7, "</i>"), (13, "</b>")), "la <b>casa <i>roja</i></b>"),
        (tags((0, "<u>"), (3, "</u>"), (8, "<b>"), (13, "</b>")), "<u>la</u> <b>casa</b> roja"),
        (tags((0, "<br>")), "<br>la casa roja"),
        (tags((3, "<br>")), "la <br> casa roja"),
        (tags((4, "<b>"), (7, "<i>"), (13, "</b>"), (13, "</i>")), None),
        (tags((4, "<b>"), (4, "</b>")), None),
        (tags((4, "<b>")), None),
    ],
)
def test_tags_follow_the_links(placed, expected):
    assert written(placed, HOUSE) == expected


def test_an_element_without_linked_words_keeps_its_place_in_the_sentence():
    assert written(tags((4, "<b>"), (7, "</b>")), HOUSE._replace(links=[(0, 0)])) == "la <b>casa</b> roja"


def test_elements_that_would_overlap_are_cut():
    links = [(0, 0), (0, 1), (1, 1), (2, 2)]
    two = tags((0, "<u>"), (3, "</u>"), (4, "<b>"), (7, "</b>"))
    assert written(two, HOUSE._replace(links=links)) == "<u>la</u> <b>casa</b> roja"
    assert written(two, HOUSE._replace(links=[(0, 1), (1, 1)])) is None


def test_links_far_away_are_noise():
    words = [f"{n} " for n in range(9)] + ["<"]
    aligned = Details(["a ", "b"], words, [(0, 0), (0, 1), (0, 9), (1, 5)], [])
    assert written(tags((0, "<b>"), (1, "</b>")), aligned) == "<b>0 1</b> 2 3 4 5 6 7 8 <"


def test_units_of_a_text_are_joined_with_their_white_space():
    first = Details(["a ", "b."], ["x ", "y."], [(0, 1)], [0.5, 0.25])
    second = Details(["c"], ["z"], [(0, 0)], [1.0])
    assert join_details("a b. c", [("", first, " "), ("", second, "")]) == Details(
        ["a ", "b. ", "c"], ["x ", "y. ", "z"], [(0, 1), (2, 2)], [0.5, 0.25, 1.0]
    )
    assert join_details("a b. d", [("", first, " "), ("", second, "")]) is None
    assert join_details("a", [("", None, "")]) is None


def offsets(block: Block) -> list[int]:
    found: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt.apps.documents.blocks.project", lambda tags, _: found.extend(tag.offset for tag in tags))
        block.from_links(HOUSE)
    return found


@given(st.lists(st.text(" \na\u3000", max_size=3), min_size=1, max_size=8))
def test_a_tag_is_placed_by_the_length_of_the_plain_text_before_it(texts):
    block = Block([item for text in texts for item in (Item(text), Item("<br>", "!"))] + [Item("a")])
    kept = [number for number, item in enumerate(block.items) if item.tag]
    before = ["".join(item.text for item in block.items[:number] if not item.tag) for number in kept]
    assert offsets(block) == [len(re.sub(r"[ \n]+", " ", text).lstrip()) for text in before]


def test_a_text_of_very_many_tags_is_left_to_be_translated_in_parts():
    words = [f"{number} " for number in range(251)]
    aligned = Details(words, words, [(number, number) for number in range(251)], [])
    ends = [sum(map(len, words[: number + 1])) for number in range(251)]
    placed = tags(*(place for end in ends for place in ((end - 2, "<b>"), (end - 1, "</b>"))))
    assert written(placed[:500], aligned).count("<b>") == 250
    assert project(placed, aligned) is None
