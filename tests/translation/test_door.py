"""One door: the command, the Python interface, validation and the check of an export translate alike."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.apps.interop.export import export_ctranslate2
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.decoding.engines import native_engine
from nmt.training.run import start_run
from nmt.translation import LanguagePair
from tests.letters import write_letters
from tests.quick import quick_and_slow
from tests.tiny import tiny_config

LONG = "12345. 6789! 24680? 13579. 86420! 97531."
FEW = ["123", LONG, "9876543"]
TEXTS = ["123", LONG, "", "  45 \n 67\n", "1234567 " * 9, "12 {x}", "\u3000", "9876543"]


@pytest.fixture(scope="module")
def translator(digits_run):
    return Translator.load(digits_run, device="cpu")


def texts_of(translator: Translator, texts: list[str], options: SearchOptions | None = None) -> list[str]:
    return [translation.text for translation in translator.translate(texts, options)]


def nmt(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--set", "decoding.split=never"),
        ("--beam", "3"),
        ("--set", "decoding.protect=false", "--set", "decoding.retry_loops=false"),
    ],
)
def test_the_command_and_the_python_interface_give_the_same_texts(letters_run, flags, tmp_path):
    translator = Translator.load(letters_run, device="cpu")
    off = {"protect": False, "retry_loops": False}
    changes = {2: {"beam_size": 3} if "--beam" in flags else {"split": "never"}, 4: off}
    options = translator.options.changed(**changes.get(len(flags), {}))
    lines = [*RunDir(letters_run).read_pairs("test")[0], "12 {name}. " * 12, "34 http://a.org/x 56.", "", "7" * 90]
    (tmp_path / "lines").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    written = nmt("translate", "-m", letters_run, *flags, "--device", "cpu", "-i", tmp_path / "lines")
    assert written == "".join(text + "\n" for text in texts_of(translator, lines, options))


def early_config(folder: Path):
    """A training on numbers in letters that sees no placeholders, so that the model loses them; some lines are long."""
    corpus = write_letters(folder, num_train=300)
    for split in ("valid", "test"):
        rows = (corpus / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        long = ["\t".join(" ".join([side] * 9) for side in row.split("\t")) for row in rows[:9]]
        spans = ["\t".join(side + " {name}" for side in row.split("\t")) for row in rows[9:18]]
        (corpus / f"{split}.tsv").write_text("\n".join([*long, *spans, *rows[18:30]]) + "\n", encoding="utf-8")
    training = {"max_updates": 10, "warmup_updates": 5, "validate_every": 10, "log_every": 10}
    return tiny_config(corpus, training=training)


@pytest.fixture(scope="module")
def early_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("early")
    assert start_run(early_config(folder), folder / "run")
    return folder / "run"


def test_evaluation_of_the_validation_set_prints_the_score_that_training_found(early_run):
    run = RunDir(early_run)
    translations = Translator.load(run, engine="torch", device="cpu").translate(run.read_pairs("valid")[0])
    assert any(translation.num_segments > 1 for translation in translations)
    assert any(translation.protected_retried for translation in translations)
    index = json.loads((early_run / "checkpoints" / "index.json").read_text(encoding="utf-8"))
    printed = json.loads(nmt("eval", "-m", early_run, "--split", "valid", "--engine", "torch", "--format", "json"))
    best = index["checkpoints"][index["best"]]
    found = [printed["scores"][name]["value"] for name in ("BLEU", "chrF2")]
    assert found == [round(best["bleu"], 2), round(best["chrf"], 2)]


def test_the_check_of_an_export_and_evaluation_print_the_same_score(early_run, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    export_ctranslate2(RunDir(early_run), tmp_path / "out", quantization="int8")
    checked = json.loads((tmp_path / "out" / "export.json").read_text(encoding="utf-8"))["agreement"]["bleu"]
    printed = json.loads(nmt("eval", "-m", early_run, "--engine", "torch", "--format", "json"))["scores"]["BLEU"]
    signature = printed["signature"].replace(
        "bs:1000|seed:12345|", ""
    )  # of the interval, which the check does not need
    assert (checked["run"], checked["signature"]) == (printed["value"], signature)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("I am from China", "texts must be a list of str, not a single str\n  put it into a list"),
        (b"12", "texts must be a list of str, not a single bytes"),
        (["12", 3], "texts must be a list of str; number 2 is of type int"),
        ([None], "texts must be a list of str; number 1 is of type NoneType"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(translator, texts, message):
    with pytest.raises(NmtError, match=message):
        translator.translate(texts)


def test_any_iterable_of_texts_is_translated(translator):
    assert texts_of(translator, (text for text in ("12", "34"))) == ["21", "43"]


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ("77", "prefixes must be a list of str, not a single str"),
        (["7"], "2 texts but 1 prefixes"),
        (["7", "7\n8"], "a prefix must not contain line breaks"),
        (["7", "7\r"], "a prefix must not contain line breaks"),
    ],
)
def test_prefixes_that_are_none_are_refused(translator, prefixes, message):
    with pytest.raises(NmtError, match=message):
        translator.translate(["12", "34"], prefixes=prefixes)


def test_the_prefix_of_a_long_text_begins_its_first_segment(translator):
    (translation,) = translator.translate([LONG], prefixes=["77"])
    assert translation.num_segments == 6
    assert translation.text.startswith("77")
    assert translation.text.count("77") == 1


def test_alternatives_are_the_other_hypotheses_best_first(translator):
    options = SearchOptions(beam_size=4, num_hypotheses=3)
    short, long = translator.translate(["123", LONG], options)
    scores = [options.normalized(t.score, len(t.token_scores)) for t in (short, *short.alternatives)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert len({t.text for t in (short, *short.alternatives)}) == 3
    assert [t.num_segments for t in long.alternatives] == [6, 6]
    assert not any(t.alternatives for t in short.alternatives)


def test_symbols_at_the_beginning_of_a_text_stand_before_each_of_its_segments(stored_run):
    """The tag says what to do: <spell> digits as letters, or <copy> them."""
    translator = Translator.load(stored_run("tags"), device="cpu")
    parts = ["123.", "4567.", "890.", "2468.", "13579.", "864.", "975."]
    for tag in ("<spell>", "<copy>"):
        expected = texts_of(translator, [f"{tag} {part}" for part in parts])
        assert texts_of(translator, [f"{tag} {' '.join(parts)}"]) == [" ".join(expected)]
        assert texts_of(translator, [f"{tag} " + "\n".join(parts)]) == ["\n".join(expected)]
    (spelled, copied) = texts_of(translator, ["<spell> 123.", "<copy> 45."])
    assert texts_of(translator, ["<spell> 123.\n<copy> 45."]) == [f"{spelled}\n{copied}"]  # a line's own tag counts
    assert (spelled, copied) == ("bcd.", "45.")


def test_a_segment_with_its_symbols_is_within_the_limit(digits_run):
    model = Translator.load(digits_run, device="cpu")
    tagged = Translator(model.tokenizers, model.engine, LanguagePair("en", "en", ["<2de>"]), None, model.statistics)
    (translation,) = tagged.translate(["<2de> " + "1234567. " * 20])
    assert translation.num_segments > 2
    assert not translation.truncated


@pytest.mark.parametrize(
    "options", [SearchOptions(), pytest.param(SearchOptions(beam_size=2, num_hypotheses=2), marks=pytest.mark.slow)]
)
def test_eight_threads_may_use_one_translator_at_once(digits_run, options):
    many = [*RunDir(digits_run).read_pairs("test")[0], *TEXTS]
    translator = with_threads(digits_run, 2)
    expected = translator.translate(many, options)
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: translator.translate(many, options), range(8)))
    assert all(each == expected for each in found)


def with_threads(run: Path, number: int) -> Translator:
    from nmt.decoding.engines.torch_engine import TorchEngine

    loaded = Translator.load(run, engine="torch", device="cpu")
    engine = TorchEngine(loaded.engine.models, loaded.tokenizers, number)
    return Translator(loaded.tokenizers, engine, loaded.languages, loaded.options, loaded.statistics)


def search_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("nmt-search")}


def test_the_threads_of_a_translator_stay_and_end_with_it(digits_run):
    before = search_threads()  # of translators of other tests, which may end at any time
    with with_threads(digits_run, 3) as translator:
        for options in (SearchOptions(), SearchOptions(beam_size=2), SearchOptions(min_len=2)):
            translator.translate(FEW, options)
            translator.score(["12"], ["21"])
        assert len(search_threads() - before) == 3
    assert search_threads() <= before
    assert texts_of(translator, ["12"]) == ["21"]  # new threads
    del translator
    import gc

    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("nmt-search"):
            thread.join(10)
    assert search_threads() <= before


@pytest.mark.usefixtures("two_threads")
def test_each_thread_of_an_engine_computes_with_one_thread_whatever_the_program_sets(digits_run):
    engine = with_threads(digits_run, 3).engine
    for number in (2, 3):
        torch.set_num_threads(number)
        assert engine.map(lambda _: torch.get_num_threads(), range(9)) == [1] * 9


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_loading_and_translating_change_neither_the_environment_nor_the_threads_of_the_program(digits_run):
    environment = dict(os.environ)
    of_another_thread: list[int] = []

    def note() -> None:
        of_another_thread.append(torch.get_num_threads())

    for number in (1, 3):
        with_threads(digits_run, number).translate(FEW)
        worker = threading.Thread(target=note)
        worker.start()
        worker.join()
    assert dict(os.environ) == environment
    assert torch.get_num_threads() == 2
    assert of_another_thread == [2, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_scores_and_attention_work_in_a_forked_process(digits_run):
    translator = with_threads(digits_run, 2)
    (translation,) = translator.translate(["123"])
    expected = translator.score(["123"], ["321"]), translator.cross_attention(translation.segments[0])

    def compare() -> None:
        found = translator.score(["123"], ["321"]), translator.cross_attention(translation.segments[0])
        sys.exit(found != expected)

    child = multiprocessing.get_context("fork").Process(target=compare)
    child.start()
    child.join(60)
    assert child.exitcode == 0


def without_torch(*arguments: str, numpy: bool = True) -> subprocess.CompletedProcess[str]:
    """`nmt` where torch, and without `numpy` that as well, cannot be imported."""
    missing = "sys.modules['torch'] = None" if numpy else "sys.modules['torch'] = sys.modules['numpy'] = None"
    start = f"import sys; {missing}; from nmt.apps.cli import main; sys.argv[0] = 'nmt'; main()"
    command = [sys.executable, "-c", start, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])


@pytest.mark.skipif(not native_engine.is_available(), reason="the native decoder was not built")
@pytest.mark.parametrize(
    "command",
    quick_and_slow(
        [(["translate"],), (["translate", "--beam", "3"],), (["translate", "--format", "jsonl"],)],
        lambda number, _: number == 2,
    ),
)
def test_a_run_translates_without_torch_and_numpy(digits_run, command):
    """Importing numpy would take a fifth of the whole command."""
    done = without_torch(*command, "-m", str(digits_run), "123", numpy=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "321" in done.stdout


def test_weights_that_are_not_finite_are_one_error_whatever_is_asked_for(digits_run):
    translator = Translator.load(digits_run, engine="torch", device="cpu")
    with torch.no_grad():
        translator.engine.models[0].output_proj.weight[0] = float("nan")
    asked = [
        lambda: translator.translate(["12", "345"]),
        lambda: translator.translate(["12", "345"], SearchOptions(beam_size=3)),
        lambda: translator.translate(["12"], SearchOptions(sample=True)),
        lambda: translator.score(["12"], ["21"]),
    ]
    for ask in asked:
        with pytest.raises(NmtError, match="the model's output is not finite"):
            ask()
