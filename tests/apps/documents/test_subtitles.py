"""WebVTT keeps its notes, styles and settings."""

from __future__ import annotations

from nmt.apps.documents.formats import read_document
from tests.apps.documents.written import capitals, upper

VTT = """WEBVTT - a film

STYLE
::cue {}

NOTE
not a text

intro
00:01.000 --> 00:02.000 align:left
<v Anna>Hello <i>you</i>
&amp; me <00:01.500>now

00:03.000 --> 00:04.000
- a
- b
"""


def test_the_texts_of_webvtt_are_translated_and_all_else_stays():
    document = read_document(VTT.encode(), "a.vtt")
    assert [block.with_marks() for block in document.blocks] == ["Hello {h0}you{h1} & me {h2}now", "a", "b"]
    written = upper(VTT.encode(), "a.vtt").decode()
    assert written.partition("<v Anna>")[0] == VTT.partition("<v Anna>")[0]
    cue = "<v Anna>[Hello] <i>[you]</i>\n[&amp; me] <00:01.500>[now]\n\n00:03.000 --> 00:04.000\n- [a]\n- [b]\n"
    assert written.endswith(cue)


def test_angle_brackets_of_captions_open_what_another_says():
    for mark in (">>", "&gt;&gt;", ">>>"):
        text = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{mark} a b.\n{mark} ANNA: c\nd\n"
        blocks = read_document(text.encode(), "a.vtt").blocks
        assert [(block.with_marks(), block.line) for block in blocks] == [("a b.", 4), ("ANNA: c d", 4)]
        assert upper(text.encode(), "a.vtt").decode() == text.replace("a b.", "[a b.]").replace(
            "ANNA: c\nd", "[ANNA:\nc d]"
        )


def test_a_subtitle_right_behind_another_keeps_its_number():
    text = "1\n00:00:01,000 --> 00:00:02,000\n12\n2\n00:00:03,000 --> 00:00:04,000\n34"
    assert upper(text.encode(), "a.srt").decode() == text.replace("\n12", "\n[12]").replace("34", "[34]")


def test_a_line_before_the_times_of_another_subtitle_is_text_unless_it_is_a_number():
    times = "00:00:01,000 --> 00:00:02,000\n"
    for head, name in (("WEBVTT\n\n", "a.vtt"), ("1\n", "a.srt")):
        for number in ("", "2\n", "2 \n"):
            text = f"{head}{times}a\nb c\n{number}{times}d\n"
            assert [block.plain() for block in read_document(text.encode(), name).blocks] == ["a b c", "d"]
            assert capitals(text.encode(), name).decode() == text.replace("a\nb c", "A\nB C").replace("d\n", "D\n")


def test_times_without_a_text_stay():
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n00:02.000 --> 00:03.000\na b\n"
    assert capitals(text.encode(), "a.vtt").decode() == text.replace("a b", "A B")
