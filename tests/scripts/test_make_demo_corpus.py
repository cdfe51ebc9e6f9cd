"""The shipped English-Mandarin demo corpus: what its script makes, byte for byte, and what it promises."""

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SHIPPED = REPO / "data" / "demo-en-zh"
NAMES = ("train", "valid", "test")
CJK = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")

sys.path.append(str(REPO / "scripts"))
corpus = importlib.import_module("make_demo_corpus")
grammar = importlib.import_module("demo_corpus.grammar")


@pytest.fixture(scope="module")
def rows():
    return corpus.corpus_rows()


@pytest.fixture(scope="module")
def parts(rows):
    return corpus.split(rows)


def shipped_pairs(name):
    lines = (SHIPPED / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


def all_shipped_pairs():
    return [pair for name in NAMES for pair in shipped_pairs(name)]


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_script_makes_the_shipped_files_byte_for_byte_whatever_the_hash_seed(tmp_path, hash_seed):
    command = [sys.executable, "scripts/make_demo_corpus.py", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=REPO, env=environment, check=True, capture_output=True, text=True)
    for name in NAMES:
        made = (tmp_path / f"{name}.tsv").read_bytes()
        assert made == (SHIPPED / f"{name}.tsv").read_bytes(), f"{name}.tsv is not what the script makes"
        assert f"{name}.tsv: {len(made.splitlines())} rows" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_files_are_two_columns_with_line_feeds_and_no_byte_order_mark(name):
    raw = (SHIPPED / f"{name}.tsv").read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    for src, tgt in shipped_pairs(name):
        assert src == src.strip() != ""
        assert tgt == tgt.strip() != ""


def test_there_are_as_many_rows_as_the_readme_says():
    readme = (SHIPPED / "README.md").read_text(encoding="utf-8")
    counts = {name: len(shipped_pairs(name)) for name in NAMES}
    assert sum(counts.values()) >= 4000
    assert counts["test"] >= 300
    assert 200 <= counts["valid"] <= 300
    for name, count in counts.items():
        assert f"| `{name}.tsv` | {count:,} |" in readme
    assert len(corpus.free_rows()) >= 300
    assert f"{len(corpus.free_rows())} sentences written one by one" in readme
    templates = grammar.read_templates(corpus.GRAMMAR_DIR / "templates.txt")
    assert f"{len(templates)} sentence patterns" in readme


def test_no_source_of_one_part_is_in_another_even_without_case_and_final_punctuation():
    keys = {name: {corpus.source_key(src) for src, _ in shipped_pairs(name)} for name in NAMES}
    assert not keys["test"] & keys["train"]
    assert not keys["test"] & keys["valid"]
    assert not keys["valid"] & keys["train"]


def test_every_source_has_one_translation():
    translations = {}
    for src, tgt in all_shipped_pairs():
        assert translations.setdefault(corpus.source_key(src), tgt) == tgt
    assert len(set(all_shipped_pairs())) == len(all_shipped_pairs())


def test_every_template_of_the_test_and_valid_parts_is_in_train(parts):
    in_train = {row.template for row in parts["train"]}
    assert len(in_train) >= 20
    for name in ("valid", "test"):
        assert {row.template for row in parts[name]} <= in_train - {corpus.FREE, "origin_me"}


def test_every_word_and_character_held_out_is_in_train_twice(parts):
    counts = Counter(word for row in parts["train"] for word in corpus.words(row))
    for row in parts["valid"] + parts["test"]:
        assert all(counts[word] >= 2 for word in corpus.words(row)), row


@pytest.mark.parametrize(
    "pair",
    [
        ("I am from China", "我来自中国。"),
        ("I am from China.", "我来自中国。"),
        ("You and me are best friends", "你我是最好的朋友。"),
    ],
)
def test_the_sentences_of_the_first_steps_are_in_train(pair):
    assert pair in shipped_pairs("train")


def test_every_country_is_in_train_with_and_without_the_full_stop():
    tables = grammar.read_tables(corpus.GRAMMAR_DIR / "words.txt")
    train = set(shipped_pairs("train"))
    for country in tables["country"]:
        for stop in ("", "."):
            assert (f"I am from {country['en']}{stop}", f"我来自{country['zh']}。") in train


def test_about_every_sixth_template_sentence_lacks_its_full_stop(rows):
    made = [row for row in rows if row.template != corpus.FREE]
    bare = sum(row.src[-1] not in ".?!" for row in made)
    assert 0.13 < bare / len(made) < 0.19


def test_english_is_ascii_and_mandarin_uses_only_its_own_punctuation():
    for src, tgt in all_shipped_pairs():
        assert re.fullmatch(r"[A-Za-z',.?! ]+", src), src
        assert "  " not in src
        assert not CJK.search(src), src
        assert re.fullmatch(r"[\u4e00-\u9fff，]+[。？！]", tgt), tgt


def test_one_source_with_two_translations_is_refused(monkeypatch):
    rival = corpus.Row(corpus.FREE, "i am from china!", "我是中国人。")
    templates = corpus.read_templates(corpus.GRAMMAR_DIR / "templates.txt")
    monkeypatch.setattr(corpus, "read_templates", lambda _: [each for each in templates if each.name == "origin_me"])
    monkeypatch.setattr(corpus, "free_rows", lambda: [rival])
    with pytest.raises(ValueError, match="two translations of one source"):
        corpus.corpus_rows()


def test_a_held_out_row_with_a_word_rare_in_train_goes_to_train():
    common = [corpus.Row("t", f"Tom has {'very ' * n}big cats.", "汤姆有猫。") for n in range(40)]
    rare = [corpus.Row("u", f"Tom has {word}.", "汤姆有猫。") for word in "abcdefghijklmnopqrst"]
    parts = corpus.split(common + rare)
    assert not [row for name in ("valid", "test") for row in parts[name] if row.template == "u"]
    assert parts["test"]
    assert sum(map(len, parts.values())) == 60


def test_templates_fill_agreeing_forms_and_never_the_same_entry_twice():
    tables = {
        "who": [
            {"en": "I", "zh": "我", "verb": "en", "be": "am"},
            {"en": "she", "zh": "她", "verb": "third", "be": "is"},
        ],
        "act": [{"en": "run", "third": "runs", "zh": "跑步"}],
    }
    src = "{who1} {who1.be} here, {who1} {who1:like/likes} it, {who2} {act[who2.verb]}."
    template = grammar.Template("t", src, "{who1}{who2}", None, False, False)
    assert list(grammar.fillings(template, tables)) == [
        ("I am here, I like it, she runs.", "我她"),
        ("She is here, she likes it, I run.", "她我"),
    ]


def test_a_wrong_template_header_is_refused_with_its_file(tmp_path):
    path = tmp_path / "templates.txt"
    path.write_text("[origin] many\nI am.\n我。\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"templates\.txt: not a template header: \[origin\] many"):
        grammar.read_templates(path)
