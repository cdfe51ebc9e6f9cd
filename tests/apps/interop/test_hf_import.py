"""A Marian folder becomes a run like any other; a hostile or damaged one becomes one error, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt import Translator
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.interop.hf_import import Languages, import_hf
from nmt.artifacts.checkpoint import read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.config import Config
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.run import start_run
from tests.apps.interop.hf_folders import sentences
from tests.apps.interop.hf_hostile import HOSTILE_WEIGHTS, change, config_of, link_to, spoil_weights, to_pickle
from tests.apps.interop.post_norm_run import make_run
from tests.tiny import TRAINING


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[RunDir, Path]:
    """A run, and the Marian folder that it was exported to."""
    path = tmp_path_factory.mktemp("made")
    run = make_run(path / "run")
    export_hf(run, path / "hf")
    return run, path / "hf"


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(made[1], tmp_path / "hf"))


def weights_of(run: RunDir) -> dict[str, torch.Tensor]:
    return read_weights(run.best_checkpoint())


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_what_nmt_exported_comes_back_as_it_was(tmp_path, norm_position):
    run = make_run(tmp_path / "run", norm_position=norm_position)
    export_hf(run, tmp_path / "hf")
    back = import_hf(tmp_path / "hf", tmp_path / "back")
    before, after = weights_of(run), weights_of(back)
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    assert back.config().model == run.config().model
    own, other = (TokenizerPair.load(each.tokenizer) for each in (run, back))
    texts = [*sentences(20, 5), "☃  é"]
    assert other.src is other.tgt
    assert other.src.encode_batch(texts) == own.src.encode_batch(texts)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "before torch 1.6"])
def test_a_pickle_of_tensors_gives_the_weights_of_the_safetensors(made, folder, tmp_path, options):
    to_pickle(folder, **options)
    expected, found = weights_of(made[0]), weights_of(import_hf(folder, tmp_path / "run"))
    assert all(found[name].equal(expected[name]) for name in expected)


def test_half_precision_and_tied_tensors_under_any_of_their_names_are_read(made, folder, tmp_path):
    def rename(tensors: dict[str, Any]) -> dict[str, Any]:
        table = tensors.pop("model.shared.weight")
        tensors |= {f"model.{side}.embed_tokens.weight": table for side in ("encoder", "decoder")}
        return {name: tensor.half() for name, tensor in tensors.items()} | {"lm_head.weight": table}

    to_pickle(folder, rename)
    expected, found = weights_of(made[0]), weights_of(import_hf(folder, tmp_path / "run"))
    assert all(torch.allclose(found[name], expected[name], atol=2e-3) for name in expected)


def test_an_imported_run_translates_and_is_fine_tuned_and_exported_as_any_other(made, folder, tmp_path, messages):
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\nlanguage: en\n---\n# x\n")
    run = import_hf(folder, tmp_path / "my run")
    texts = sentences(4, 3)
    ours = [done.text for done in Translator.load(made[0], precision="fp32", device="cpu").translate(texts)]
    assert [done.text for done in Translator.load(run, precision="fp32", device="cpu").translate(texts)] == ours
    card = run.card.read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\n---\n\n# my run: en to de\n")
    assert "nmt translate --model 'my run' \"text\"" in card
    corpus = tmp_path / "c.tsv"
    corpus.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences(60, 1), sentences(60, 2), strict=True)))
    data = {"src_lang": "en", "tgt_lang": "de", "train": {"tsv": str(corpus)}, "holdout_size": 4}
    training = {**TRAINING, "max_updates": 4, "init_from": str(run.path), "lr": 1e-4}
    model = run.config().model
    start_run(Config.model_validate({"data": data, "model": model, "training": training}), tmp_path / "tuned")
    tuned = RunDir(tmp_path / "tuned")
    assert not weights_of(tuned)["output_proj.bias"].equal(weights_of(run)["output_proj.bias"])
    export_hf(tuned, tmp_path / "back")
    assert weights_of(import_hf(tmp_path / "back", tmp_path / "again")).keys() == weights_of(tuned).keys()


def test_an_imported_run_has_no_test_set(made, tmp_path):
    run = import_hf(made[1], tmp_path / "run")
    with pytest.raises(RunError, match="this model was imported or packed, so it has no test set"):
        run.read_sets("test", run.config().data.directions[0])


def test_languages_are_those_of_the_folder_or_those_that_are_named(folder, tmp_path):
    change(folder / "tokenizer_config.json", source_lang=None)
    with pytest.raises(RunError, match=r"tokenizer_config\.json does not name the languages\n  set them with --from"):
        import_hf(folder, tmp_path / "run")
    run = import_hf(folder, tmp_path / "run", Languages(src=("fr",)))
    assert (run.config().data.src_lang, run.config().data.tgt_lang) == ("fr", "de")
    with pytest.raises(RunError, match="languages are codes such as en, deu or pt_BR"):
        import_hf(folder, tmp_path / "other", Languages(src=("not a code",)))


not_finite = spoil_weights(lambda tensors: tensors["model.encoder.layers.0.fc1.bias"].fill_(float("nan")))


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    **HOSTILE_WEIGHTS,
    "weights cut short": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:9000]),
        r"model\.safetensors: cannot read these weights",
    ),
    "weights that are not numbers": (
        not_finite,
        r"fc1\.bias contains numbers that are not finite",
    ),
    "a link": (link_to("source.spm"), r"source\.spm: a link, or not a regular file"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"it has no model\.safetensors"),
    "no vocabulary": (lambda folder: (folder / "vocab.json").unlink(), r"it has no vocab\.json"),
    "another architecture": (config_of(model_type="bart"), r"config\.json: the model_type is 'bart'"),
    "a language with a long name": (
        lambda folder: change(folder / "tokenizer_config.json", source_lang="a" * 100_000),
        r"tokenizer_config\.json: source_lang: String should have at most 100 characters\n",
    ),
    "a list of architectures": (config_of(model_type=["marian"]), r"config\.json: the model_type is \['marian'\]"),
    "an object as architecture": (config_of(model_type={"marian": 1}), r"config\.json: the model_type is \{'marian'"),
    "pre-norm": (config_of(normalize_before=True), "normalize_before: Input should be False"),
    "more layers than weights": (config_of(encoder_layers=900), r"these weights have no model\.encoder\.layers\.2\."),
    "a model of 1,000 billion": (
        config_of(
            d_model=16_384,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=262_144,
            decoder_ffn_dim=262_144,
            encoder_layers=999,
        ),
        "billion parameters",
    ),
    "another width": (config_of(d_model=48), r"has shape \(\d+, 24\), but should have \(\d+, 48\)"),
    "ids outside": (config_of(pad_token_id=99_999), "is not in the vocabulary"),
    "another vocabulary size": (
        config_of(vocab_size=99, decoder_vocab_size=99),
        r"there are more tokens than config\.json has in its vocabulary",
    ),
    "a damaged tokenizer": (
        lambda folder: (folder / "target.spm").write_bytes(b"\x0a\xff\xff\xff\x7fx"),
        r"target\.spm: this is not a SentencePiece model, or it is damaged",
    ),
    "JSON nested too deeply": (lambda f: (f / "config.json").write_text("[" * 100_000), "nested too deeply"),
    "ids that are no numbers": (lambda f: change(f / "vocab.json", x="y"), "an id is not a whole number"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_one_error_and_nothing_is_left(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    spoil, message = HOSTILE[name]
    spoil(folder)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NmtError, match=message):
        import_hf(folder, tmp_path / "run")
    assert sorted(tmp_path.iterdir()) == before  # neither a run, nor what a pickle makes


def test_a_run_that_is_there_is_kept_unless_it_may_be_replaced(made, folder, tmp_path):
    run = import_hf(made[1], tmp_path / "run")
    before = run.best_checkpoint().read_bytes()
    with pytest.raises(RunError, match="this run already exists"):
        import_hf(folder, run.path)
    not_finite(folder)
    with pytest.raises(RunError, match="not finite"):
        import_hf(folder, run.path, overwrite=True)
    assert run.best_checkpoint().read_bytes() == before
