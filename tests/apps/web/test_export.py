"""`nmt export web`: the page's own scripts translate, in node, as `nmt translate` does."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from nmt import Translator
from nmt.apps.web.export import MODULES, build_modules, export_web
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.data.text.words import UNSEEN
from nmt.translation import retries
from nmt.translation.chain import Chain
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from tests.apps.web.scripts import needs_node, run_script
from tests.ordinary.test_ordinary import TEXTS
from tests.stored import MODELS

LINES = [
    "",
    "  ",
    "12 345",
    "See https://example.org/12 and 45",
    "1 2. 3 4.",
    "7" * 200,
    "55 55 55\n\n12",
    "⟦1⟧ 3",
    "<b>4</b> 5 6",
    "Haus ❤ Hund und ⟪name⟫.",
    "♪ eins ♪ zwei 👍🏽 ♪",
    "(♪ Haus ♪)",
    "1. Haus Hund.",
    "- Haus\n- Hund",
    "a) Haus b) Hund",
    "(iv) Katze",
    "⟪Haus Hund⟫ 【x】 「Hund」",
    "👨\u200d👩\u200d👧 12 ★ 3 € + ⌘ + S",
    "5 ★ 3",
    "HAUS HUND KATZE BAUM",
    "Haus Haus Haus Haus Haus Haus Haus Haus",
    "qwxzv jkqwz xvbnq",
    "Haus http://a.org/x qwxzv 12",
]


NOT_IN_BROWSERS = ("wrong_language",)


def flags_of_a_page(flags: dict) -> dict:
    """Return those flags of the command that a page has: it does not identify languages."""
    kept = {name: value for name, value in flags.items() if name not in NOT_IN_BROWSERS}
    reasons = [reason for reason in kept.pop("unusual_source", []) if reason != "language"]
    return kept | ({"unusual_source": reasons} if reasons else {})


def drawn_lines(count: int) -> list[str]:
    draw = random.Random(3)
    return [
        " ".join("".join(draw.choices("0123456789", k=draw.randint(1, 5))) for _ in range(draw.randint(1, 5)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    pytest.importorskip("ziglang", reason="needs the extra web, a compiler")
    folder = tmp_path_factory.mktemp("pages")
    build_modules()
    for name in ("digits", "words", "letters", "loops", "tags", "two-directions"):
        export_web(RunDir(MODELS / name), folder / name)
    return folder


@needs_node
@pytest.mark.parametrize("kernel", MODULES)
@pytest.mark.parametrize("model", ["digits", "words", "letters", "loops", "tags", "two-directions"])
def test_a_page_translates_as_the_command_does_on_every_path(pages, model, kernel):
    lines = [*LINES, *drawn_lines(100), "Haus Hund. Katze Baum", "eins zwei drei", "<2fr> 12", " <2de>34 <2fr>"]
    to = "fr" if model == "two-directions" else None
    found = run_script(pages / model, "translate", {"kernel": kernel, "lines": lines, "languages": {"to": to}})
    if "error" in found and kernel != "wasm-pairs":
        pytest.skip("this node has no such instructions, or computes them otherwise")
    with Translator.load(MODELS / model, engine="native", precision="int8") as translator:
        expected = translator.translate(lines, to=to)
    assert found["kernel"] == kernel
    assert [each["text"] for each in found["translations"]] == [each.text for each in expected]
    assert found["single"] == [each.text for each in expected]
    for name in ("score", "finished", "loop_retried", "sentence_split", "protected_retried"):
        assert [each[name] for each in found["translations"]] == [getattr(each, name) for each in expected], name
    assert [each["flags"] for each in found["translations"]] == [flags_of_a_page(each.flags) for each in expected]


@needs_node
@pytest.mark.parametrize(("model", "most_otherwise"), [("words", 9), ("letters", 6)])
def test_a_page_translates_what_people_type_as_the_command_does(pages, model, most_otherwise):
    """But for texts that it splits otherwise, because sentences are found in a simpler way there; flags are equal."""
    with Translator.load(MODELS / model, engine="native", precision="int8") as translator:
        expected = translator.translate(TEXTS)
    found = run_script(pages / model, "translate", {"kernel": "", "lines": TEXTS, "languages": {}})["translations"]
    differing = [text for text, each, other in zip(TEXTS, found, expected, strict=True) if each["text"] != other.text]
    flagged = [
        (text, each["flags"], flags_of_a_page(other.flags))
        for text, each, other in zip(TEXTS, found, expected, strict=True)
        if each["text"] == other.text and each["flags"] != flags_of_a_page(other.flags)
    ]
    assert flagged == []
    assert len(differing) <= most_otherwise, differing


@needs_node
def test_a_page_flags_unknown_words_doubtful_and_empty_translations(pages, tmp_path):
    run = RunDir(Path(shutil.copytree(MODELS / "words", tmp_path / "run")))
    statistics = json.loads(run.statistics_file.read_text("utf-8"))
    confidence = {"usual_ratio": -0.1, "intercept": 0.0, "probability": 100.0, "short": -20.0, "long": -10.0}
    confidence |= {"repetition": -20.0, "copied": -50.0}
    statistics |= {"words": ["rar", "haus", "eins hund"], "usual_octave": 2.5, "confidence": confidence}
    statistics["once"] = "seldom"
    statistics["left_out"] = {UNSEEN: 0, "small 3 2": 6000}
    run.statistics_file.write_text(json.dumps(statistics), "utf-8")
    export_web(run, tmp_path / "page")
    lines = ["Haus", "Katze", "Haus Katze", "rar " * 8, "haus " * 4 + "eins " * 4, "", "12", "{name} Katze", "Katze ★"]
    lines += ["H\u00adaus Ka\u200btze rar", "Ｈａｕｓ\u3000rar", "\ufeffrar H\u2060aus"]  # flagged as they are read
    lines += ["Haus Qwx", "Haus -qwx", "Haus qwx", "HAUS QWX", "Haus q_w eins", "Haus Seldom"]
    found = run_script(tmp_path / "page", "translate", {"kernel": "", "lines": lines, "languages": {}})
    with Translator.load(run, engine="native", precision="int8") as translator:
        translations = translator.translate(lines)
    expected = [flags_of_a_page(each.flags) for each in translations]
    assert [each["flags"] for each in found["translations"]] == expected
    for each, translation in zip(found["translations"], translations, strict=True):
        assert each.get("expected_chrf") == pytest.approx(translation.expected_chrf, abs=0.01)
    assert ["doubtful" in flags for flags in expected[:2]] == [False, True]
    assert [flags.get("protected_lost", []) for flags in expected[-6:]] == [
        ["Qwx"],
        ["-qwx"],
        [],
        [],
        ["q_w"],
        [],
    ]
    assert ["vocabulary"] in [flags.get("unusual_source") for flags in expected]
    assert "unusual_source" not in expected[0]
    written, blank = run_script(tmp_path / "page", "empty", {"line": "Haus"})
    assert written["empty"] is True
    assert blank == {}


@needs_node
def test_corrected_lines_and_sentences_are_translated_as_a_memory_has_them(pages):
    corrections = [
        ("1 2. 3 4.", "old"),
        ("1 2. 3 4.", "of a line"),
        ("5 6.", "of a {sentence}."),
        ("7 8 ▁", " c "),
        ("12\u00ad 34", "d"),
        ("77", " "),
    ]
    texts = ["1 2. 3 4.", " 1 2. 3 4. \n5 6. 99", "- 5 6.\n[7 8 ▁]", "12 34", "5 6. See {name} 1", "", "77"]
    found = run_script(
        pages / "digits", "translate", {"kernel": "", "lines": texts, "languages": {"corrections": corrections}}
    )["translations"]
    with Translator.load(MODELS / "digits", engine="native", precision="int8") as translator:
        expected = Chain([translator], TranslationMemory(corrections)).translate_block(
            texts, Request(translator.options)
        )
    assert [each["text"] for each in found] == [each.text for each in expected]
    assert [each["flags"] for each in found] == [flags_of_a_page(each.flags) for each in expected]
    assert [each["text"] for each in found[:1] + found[3:4]] == ["of a line", "d"]
    assert found[3]["memory"] == {"source": "12 34", "target": "d", "similarity": 1}
    assert "memory" not in found[4]


@needs_node
def test_a_beam_has_the_hypotheses_and_scores_of_the_command(pages, tmp_path):
    run = RunDir(Path(shutil.copytree(MODELS / "words", tmp_path / "run")))
    config = run.config()
    options = config.decoding.changed(beam_size=4, num_hypotheses=3, length_penalty=0.7)
    run.write_config(config.model_copy(update={"decoding": options}))
    export_web(run, tmp_path / "page")
    lines = ["eins zwei", "Haus", *drawn_lines(20)]
    found = run_script(tmp_path / "page", "translate", {"kernel": "", "lines": lines})["translations"]
    with Translator.load(run, engine="native", precision="int8") as translator:
        for line, each, expected in zip(lines, found, translator.translate(lines), strict=True):
            hypotheses = [(other["text"], other["score"]) for other in (each, *each["alternatives"])]
            assert hypotheses == [(other.text, other.score) for other in (expected, *expected.alternatives)], line


@needs_node
@pytest.mark.parametrize("name", ["weights.bin", "wasm-pairs.wasm", "src.json"])
def test_a_damaged_file_is_refused_with_a_clear_sentence(pages, tmp_path, name):
    page = Path(shutil.copytree(pages / "digits", tmp_path / "page"))
    content = bytearray((page / name).read_bytes())
    content[len(content) // 2] ^= 1
    (page / name).write_bytes(content)
    found = run_script(page, "translate", {"kernel": "wasm-pairs", "lines": ["12"]})
    assert found["error"].startswith(f"The model is damaged ({name}).")


@needs_node
@pytest.mark.parametrize("lacks", ["WebAssembly", "SIMD"])
def test_an_old_browser_is_told_what_it_lacks(pages, lacks):
    found = run_script(pages / "digits", "translate", {"kernel": "", "lines": ["12"], "lacks": lacks})
    assert lacks in found["error"]
    assert found["error"].endswith("so it cannot translate. Use a newer browser.")


@needs_node
@pytest.mark.parametrize(
    "change", [{"format": 2}, {"files": {}}, {"max_src_len": -1}, {"options": None}, {"vocabularies": ["../x"]}]
)
def test_a_manifest_that_is_not_sound_is_refused(pages, tmp_path, change):
    page = Path(shutil.copytree(pages / "digits", tmp_path / "page"))
    manifest = json.loads((page / "manifest.json").read_text("utf-8"))
    (page / "manifest.json").write_text(json.dumps({**manifest, **change}), "utf-8")
    found = run_script(page, "translate", {"kernel": "wasm-pairs", "lines": ["12"]})
    assert found["error"].startswith("The model is damaged (manifest.json)")


@needs_node
def test_weights_that_say_other_sizes_than_they_have_never_crash_the_decoder(pages, tmp_path):
    from hashlib import sha256

    page = Path(shutil.copytree(pages / "digits", tmp_path / "page"))
    manifest, weights = json.loads((page / "manifest.json").read_text("utf-8")), (page / "weights.bin").read_bytes()
    draw = random.Random(4)
    for _ in range(12):
        at, number = 4 * draw.randint(2, 40), draw.choice([-1, 0, 1, 7, 1 << 12, 1 << 20, 1 << 24, (1 << 31) - 1])
        content = weights[:at] + number.to_bytes(4, "little", signed=True) + weights[at + 4 :]
        if content == weights:
            continue
        (page / "weights.bin").write_bytes(content)
        manifest["files"]["weights.bin"] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        (page / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        found = run_script(page, "translate", {"kernel": "wasm-pairs", "lines": ["12"]})
        assert "error" in found or at == 8 + 4 * 8  # another max_tgt_len is a smaller model's


def test_a_page_is_small_whole_and_names_nothing_outside(pages):
    page = pages / "digits"
    manifest = json.loads((page / "manifest.json").read_text("utf-8"))
    assert sum(path.stat().st_size for path in page.iterdir() if path.name != "weights.bin") < 400_000
    assert set(manifest["files"]) == {path.name for path in page.iterdir()} - {"manifest.json", "package.json"}
    for path in page.glob("*.*s"):
        assert "https://" not in path.read_text("utf-8").replace("(?:https?|ftps?|sftp|file)://", ""), path.name
    html = (page / "index.html").read_text("utf-8")
    assert "default-src 'none'" in html
    assert "unsafe-inline" not in html


def test_what_a_page_cannot_do_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    pytest.importorskip("ziglang", reason="needs the extra web, a compiler")
    run = RunDir(Path(shutil.copytree(MODELS / "two-directions", tmp_path / "run")))
    config = run.config()
    run.write_config(config.model_copy(update={"model": config.model.model_copy(update={"language_tags": "both"})}))
    with pytest.raises(RunError, match=r"model\.language_tags: both"):
        export_web(run, tmp_path / "page")
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="already exists"):
        export_web(RunDir(MODELS / "digits"), tmp_path / "other")
    with pytest.raises(RunError, match="not a web page of nmt"):
        export_web(RunDir(MODELS / "digits"), tmp_path / "other", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "other"}


def test_without_the_compiler_one_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ziglang", None)
    with pytest.raises(NmtError, match="this export needs the package ziglang") as caught:
        export_web(RunDir(MODELS / "digits"), tmp_path / "page")
    assert "[web]" in caught.value.hint


def test_a_page_searches_again_with_the_beams_of_the_command():
    script = (Path(retries.__file__).parents[1] / "apps" / "web" / "static" / "engine.js").read_text("utf-8")
    beams = {name: int(size) for name, size in re.findall(r"const (\w+)_BEAM = (\d+);", script)}
    assert beams == {"RETRY": retries.RETRY_BEAM_SIZE, "NUMBERS": retries.NUMBERS_BEAM_SIZE}
