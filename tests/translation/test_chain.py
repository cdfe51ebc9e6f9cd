"""Two models in a row give what each gives for the output of the other."""

from __future__ import annotations

import json

import pytest

from nmt import Glossary, Translator
from nmt.base.errors import NmtError
from nmt.base.languages import Direction
from nmt.data.text.glossary import Term
from nmt.translation.chain import Chain, languages_of, paths
from nmt.translation.languages import LanguagePair
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.through_models import TextToTranslate, through_models
from nmt.translation.translation import FLAGS, Translation
from tests.command_line import nmt

TEXTS = ["12345", "", "4 56", "12. 34. 56.", "%d 7"] * 5


@pytest.fixture(scope="module")
def translators(letters_run, two_run):
    with Translator.load(letters_run, device="cpu") as first, Translator.load(two_run, device="cpu") as second:
        yield first, second


def test_a_translation_is_that_of_the_translation_and_its_score_the_sum(translators):
    first, second = translators
    pivot = Chain(translators)
    ((block, found),) = pivot.translate_blocks([TEXTS], Request(pivot.options))
    between = first.translate(TEXTS)
    final = second.translate([each.text for each in between], to="fr", from_="en")
    assert (block, [each.text for each in found]) == (TEXTS, [each.text for each in final])
    sums = [into.score + out.score for into, out in zip(between, final, strict=True)]
    assert [each.score for each in found] == sums
    assert found[0].pivot == ["en"]
    assert found[0].through is not None
    assert found[0].through.text == between[0].text
    assert (found[1].pivot, found[1].mean_log_prob) == ([], 0.0)
    num_tokens = len(between[0].tgt_ids) + len(final[0].tgt_ids) + between[0].finished + final[0].finished
    assert found[0].mean_log_prob == pytest.approx(sums[0] / num_tokens)


def test_blocks_of_any_size_give_the_same(translators):
    pivot = Chain(translators)
    options = pivot.options.changed(beam_size=2, num_hypotheses=2)
    whole = [each for _, some in pivot.translate_blocks([TEXTS], Request(options)) for each in some]
    alone = [each for _, some in pivot.translate_blocks([[text] for text in TEXTS], Request(options)) for each in some]
    assert alone == whole
    assert len(whole[0].alternatives) == 1
    assert whole[0].alternatives[0].pivot == ["en"]


def test_models_that_cannot_be_chained_are_refused(translators, digits_run):
    with Translator.load(digits_run, device="cpu") as digits, pytest.raises(NmtError) as refused:
        Chain([digits, translators[0]])
    assert refused.value.message == "these models cannot be chained: the first writes en, the second reads de"
    with pytest.raises(NmtError, match="this model translates into fr, not into it"):
        next(Chain(translators).translate_blocks([["1"]], Request(translators[1].options, to="it")))


def of_pairs(*pairs: str) -> LanguagePair:
    first, *others = (Direction(*pair.split(" ")) for pair in pairs)
    return LanguagePair(*first, directions=(first, *others) if others else ())


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (of_pairs("fr de"), of_pairs("en fr"), "the first writes de, the second reads en"),
        (of_pairs("fr de", "fr it"), of_pairs("en zh", "es ja"), "the first writes de and it, the second reads en and "
         "es"),
        (of_pairs("de en"), of_pairs("en de"), "the first writes en, the second reads en and only translates back"),
        (of_pairs("de-AT en-GB"), of_pairs("en de"), "the first writes en-GB, the second reads en and only translates "
         "back"),
        (of_pairs("zh en"), of_pairs("yue en"), "the first writes en, the second reads yue"),
    ],
)  # fmt: skip
def test_the_reason_why_two_models_cannot_be_chained_names_their_languages(first, second, reason):
    with pytest.raises(NmtError) as refused:
        languages_of([first, second])
    assert refused.value.message == f"these models cannot be chained: {reason}"


def test_a_path_does_not_lead_back_and_joins_regional_codes():
    assert paths([Direction("de", "en")], [Direction("en", "de")]) == {}
    path = Direction("de", "en-US"), Direction("en", "fr")
    assert paths([Direction("de", "it"), path[0]], [path[1]]) == {("de", "fr"): path}


def test_then_translates_what_the_first_model_translated(letters_run, two_run, tmp_path):
    lines = b"123\n\n45\n"
    command = ("translate", "-m", letters_run, "--then", two_run, "--to", "fr")
    done = nmt(*command, "--format", "jsonl", stdin=lines)
    assert done.returncode == 0, done.stderr
    first, blank, _ = map(json.loads, done.stdout.splitlines())
    between = nmt("translate", "-m", letters_run, stdin=lines)
    final = nmt("translate", "-m", two_run, "--to", "fr", stdin=between.stdout.encode())
    assert (first["pivot"], first["pivot_text"]) == ("en", between.stdout.splitlines()[0])
    assert blank["pivot"] is None
    assert nmt(*command, stdin=lines).stdout == final.stdout
    (tmp_path / "a.txt").write_bytes(lines)
    output = tmp_path / "b.txt"
    assert nmt(*command, "-i", tmp_path / "a.txt", "-o", output).returncode == 0
    assert output.read_text(encoding="utf-8") == final.stdout


def test_terms_hold_through_a_third_language_by_what_stands_between(translators):
    chain, glossary = Chain(translators), Glossary({"12": "xyz", "7": "y" * 60, "absent": "z"})
    texts = ["12 34", "5. 12. 12", "7 12", "34"]
    found = chain.translate_block(texts, Request(chain.options, to="fr", glossary=glossary))
    assert [each.text.lower().count("xyz") for each in found] == [1, 2, 1, 0]
    assert [each.num_terms for each in found] == [1, 2, 2, 0]
    assert [each.terms_missed for each in found] == [[], [], [("7", "y" * 60)], []]
    plain = chain.translate_block(texts, Request(chain.options, to="fr"))
    assert found[3].text == plain[3].text


def test_a_term_that_the_first_model_misses_is_missed_unless_the_second_writes_it():
    term, word = Term("12", "xyz"), Term("12", "twelve")
    way = through_models("12 34", [0, 1], glossary=Glossary([term]))
    assert next(way) == [TextToTranslate("12", 0)]
    (ask,) = way.send([Translation("twelve.")])
    assert ask.glossary.terms == [word]
    with pytest.raises(StopIteration) as last:
        way.send([Translation("without it", terms_missed=[word])])
    finish = last.value.value.finish
    assert finish(Translation("rien")).terms_missed == [term]
    assert finish(Translation("rien xyz")).terms_missed == []


def test_a_memory_stands_before_both_models_and_its_words_are_those_of_the_whole_way(translators):
    pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
    memory = TranslationMemory([("12 34", "connu"), ("98 765", "autre")])
    plain = Chain(translators)
    texts, request = ["12 34", "98 764", "5"], Request(plain.options, to="fr")
    known, similar, new = Chain(translators, memory).translate_block(texts, request)
    assert (known.text, known.through, known.flags) == ("connu", None, {"from_memory": True})
    assert similar.memory is not None
    assert similar.memory.target == "autre"
    assert [similar.text, new.text] == [each.text for each in plain.translate_block(texts, request)][1:]
    assert similar.flags["pivot"] == new.flags["pivot"] == ["en"]


def test_a_known_translation_without_the_prefix_is_only_a_draft(translators):
    pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")
    memory = TranslationMemory([("12 34", "abc"), ("98", "xyz")])
    for row in (translators[1:], translators):
        request = Request(row[-1].options, to="fr", prefix="a")
        known, other = Chain(row, memory).translate_block(["12 34", "98"], request)
        assert known.text == "abc"
        assert other.text == Chain(row).translate_block(["98"], request)[0].text
        assert other.text.startswith("a")


def test_the_fields_of_a_translation_are_flags_and_json(translators):
    (found,) = Chain(translators).translate_block(["12 %d"], Request(translators[1].options, to="fr"))
    assert {*found.flags} <= {*FLAGS}
    assert {*found.through.flags} - {"unusual_source"} <= {*found.flags}
    fields = found.as_json(translators[1].tokenizers, memory=True, terms=True, hypotheses=True, alignments={"a": "0-0"})
    names = ["memory", "pivot", "pivot_text", "num_terms", "terms_missed", "terms_misplaced", "a", "hypotheses"]
    assert [*fields][-len(names) :] == names
