"""A run becomes a folder that translates alike; if it does not, or is interrupted, nothing is left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nmt import Translator
from nmt.apps.interop import agreement
from nmt.apps.interop.export import export_ctranslate2
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")


def read_info(export: Path) -> dict[str, Any]:
    return json.loads((export / "export.json").read_text(encoding="utf-8"))


def test_the_export_says_what_it_is(digits_run, digits_export):
    info = read_info(digits_export)
    facts = {"quantization": "none", "directions": ["en-en"], "max_src_len": 32, "max_tgt_len": 32}
    assert facts.items() <= info.items()
    assert info["origin"]["run"] == "digits"
    assert info["agreement"]["sentences"] == 80  # test and valid have 40 each
    assert info["agreement"]["equal"] + info["agreement"]["near_ties"] == 80
    assert info["agreement"]["bleu"]["difference"] == 0
    names = ["README.md", "config.json", "export.json", "model.bin", "shared_vocabulary.json", "tokenizer"]
    assert sorted(path.name for path in digits_export.iterdir()) == names


def test_plain_ctranslate2_translates_the_tokens_of_a_text_as_the_run_does(digits_run, digits_export):
    """With nothing but what the folder has: the end of the source is added by CTranslate2."""
    import ctranslate2
    import sentencepiece

    texts = ["1 2 3", "9 0 1 5 5", "4"]
    model = digits_export / "tokenizer" / "joint.model"
    spm = sentencepiece.SentencePieceProcessor(model_file=str(model))
    made = ctranslate2.Translator(str(digits_export), "cpu")
    results = made.translate_batch([spm.encode(text, out_type=str) for text in texts], beam_size=1)
    with Translator.load(digits_run, precision="fp32") as translator:
        expected = [each.text for each in translator.translate(texts, {"beam_size": 1})]
    assert [spm.decode(result.hypotheses[0]) for result in results] == expected


def test_a_reduced_precision_records_what_it_costs(digits_run, tmp_path, messages):
    export_ctranslate2(RunDir(digits_run), tmp_path / "out", quantization="int8")
    bleu = read_info(tmp_path / "out")["agreement"]["bleu"]
    assert bleu["sentences"] == 40
    assert bleu["difference"] == pytest.approx(bleu["export"] - bleu["run"], abs=0.011)
    assert any(f"BLEU on the test set: {bleu['run']:.2f} in the run" in line for line in messages)
    weights = RunDir(digits_run).best_checkpoint()
    assert (tmp_path / "out" / "model.bin").stat().st_size < 0.5 * weights.stat().st_size


def test_a_precision_that_this_processor_lacks_is_told_and_the_one_used_is_recorded(digits_run, tmp_path, messages):
    import ctranslate2

    supported = ctranslate2.get_supported_compute_types("cpu")
    export_ctranslate2(RunDir(digits_run), tmp_path / "out", quantization="int16")
    computed = read_info(tmp_path / "out")["agreement"]["compute_type"]
    assert (computed == "int16") is ("int16" in supported)
    assert f"CTranslate2 computes int16 weights in {computed} on this processor" in messages


def test_an_export_that_does_not_agree_leaves_nothing(digits_run, tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "TOLERANCE", 0.0)  # no two runtimes agree to the last bit
    with pytest.raises(RunError, match="the export does not agree with the run"):
        export_ctranslate2(RunDir(digits_run), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_one_before(digits_run, digits_export, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(digits_export, out)
    monkeypatch.setattr(agreement, "TOLERANCE", 0.0)
    with pytest.raises(RunError, match="does not agree"):
        export_ctranslate2(RunDir(digits_run), out, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert read_info(out) == read_info(digits_export)


def test_an_interrupted_export_leaves_nothing(digits_run, tmp_path, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nmt.apps.interop.export.compare", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_ctranslate2(RunDir(digits_run), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def changed_run(run: Path, copy: Path, old: str, new: str) -> RunDir:
    """A copy of a run with one line of its configuration changed."""
    shutil.copytree(run, copy)
    text = (copy / "config.yaml").read_text(encoding="utf-8")
    assert old in text
    (copy / "config.yaml").write_text(text.replace(old, new), encoding="utf-8")
    return RunDir(copy)


def test_a_model_that_ctranslate2_cannot_run_is_refused_before_anything_is_written(digits_run, tmp_path):
    run = changed_run(digits_run, tmp_path / "run", "attention: scaled_dot_product", "attention: gaussian")
    with pytest.raises(RunError, match=r"CTranslate2 cannot run a model with model\.attention: gaussian"):
        export_ctranslate2(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_of_the_run_that_ctranslate2_lacks_are_off_in_the_proof(digits_run, tmp_path):
    run = changed_run(digits_run, tmp_path / "run", "shortlist: false", "shortlist: true")
    export_ctranslate2(run, tmp_path / "out")
    assert read_info(tmp_path / "out")["agreement"]["bleu"]["difference"] == 0


def test_a_run_without_sentences_is_refused(digits_run, tmp_path):
    shutil.copytree(digits_run, tmp_path / "run")
    for name in ("test.src", "test.tgt", "valid.src", "valid.tgt"):
        (tmp_path / "run" / "data" / name).write_text("\n \n")
    with pytest.raises(RunError, match="no test or validation sentences to check the export with"):
        export_ctranslate2(RunDir(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
