"""Marian models compute in nmt as they do in transformers, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from nmt import Translator
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.interop.hf_folder import HfFolder
from nmt.apps.interop.hf_import import import_hf
from nmt.apps.interop.hf_vocabulary import HfVocabularies, read_vocabularies
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import NativeEngine, is_available
from nmt.decoding.engines.torch_engine import TorchEngine
from tests.apps.interop.hf_folders import make_folder, sentences
from tests.apps.interop.hf_logits import assert_logits_agree
from tests.apps.interop.post_norm_run import make_run

pytest.importorskip("transformers", reason="needs the package transformers")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TAGS = (">>fra<<", ">>cmn_Hans<<")
SHAPES: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "tags, deep decoder": {"tags": TAGS, "decoder_layers": 3},
    "relu, output apart": {"activation_function": "relu", "tie_word_embeddings": False},
    "gelu, two vocabularies": {"activation_function": "gelu", "share_encoder_decoder_embeddings": False},
    "nothing shared or scaled": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "scale_embedding": False,
    },
}
MAX_NEW = 14


class Both(NamedTuple):
    """A model in both forms."""

    folder: Path
    run: RunDir
    vocabularies: HfVocabularies
    model: Any  # MarianMTModel
    tokenizer: Any  # MarianTokenizer


def load_hf(folder: Path) -> tuple[Any, Any]:
    from transformers import MarianMTModel, MarianTokenizer

    return MarianMTModel.from_pretrained(folder).eval(), MarianTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> dict[str, Both]:
    """A model of each shape, and the run that it became."""
    found = {}
    for name, options in SHAPES.items():
        path = tmp_path_factory.mktemp("imported")
        folder = make_folder(path / "hf", **options)
        run = import_hf(folder, path / "run")
        vocabularies = read_vocabularies(HfFolder(folder), HfFolder(folder).config())
        found[name] = Both(folder, run, vocabularies, *load_hf(folder))
    return found


def ids_in_hf(both: Both, texts: list[str]) -> list[list[int]]:
    """The ids that MarianTokenizer gives each text, with eos."""
    return both.tokenizer(texts)["input_ids"]


def generate(model: Any, tokenizer: Any, texts: list[str], **options: Any) -> list[list[int]]:
    """The tokens that transformers generates for each text, without those before and after them."""
    outputs = model.generate(
        **tokenizer(texts, return_tensors="pt", padding=True),
        max_length=MAX_NEW + 1,
        forced_eos_token_id=None,
        **options,
    )
    ends = {model.config.pad_token_id, model.config.eos_token_id}
    return [[number for number in row[1:] if number not in ends] for row in outputs.tolist()]


@pytest.mark.parametrize("name", SHAPES)
def test_texts_get_the_tokens_that_transformers_gives_them(imported, name):
    both = imported[name]
    source, rows = both.vocabularies.tokenizers.src, both.vocabularies.src.rows
    texts = [*sentences(60, 3), "  ßßü  ａ ok ñuxa xa ñuye ", "xaxa yeye ☃", "</", "1x2"]
    assert [[rows[number] for number in [*source.encode(text), EOS_ID]] for text in texts] == ids_in_hf(both, texts)
    assert source.encode_batch(texts) == [source.encode(text) for text in texts]


def test_a_tag_gets_the_token_that_transformers_gives_it(imported):
    both = imported["tags, deep decoder"]
    source, rows = both.vocabularies.tokenizers.src, both.vocabularies.src.rows
    for tag, own in zip(TAGS, ("<2fra>", "<2cmn_Hans>"), strict=True):
        assert [rows[n] for n in [*source.encode(f"{own} bade fi"), EOS_ID]] == ids_in_hf(both, [f"{tag} bade fi"])[0]


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_those_of_transformers(imported, name):
    both = imported[name]
    assert_logits_agree(both.run, both.vocabularies, both.model, both.tokenizer)


def outputs_of(both: Both, texts: list[str], engine: str, **options: Any) -> tuple[list[list[int]], int]:
    """The outputs of nmt as ids of transformers, and how many of them ended."""
    tokenizers = TokenizerPair.load(both.run.tokenizer)
    search = SearchOptions(max_len_factor=0, max_len_offset=MAX_NEW, **options)
    native = engine == "native"
    loaded = (
        NativeEngine.load(both.run, tokenizers, "fp32") if native else TorchEngine.load([both.run], tokenizers, "cpu")
    )
    found = [each[0] for each in loaded.search([tokenizers.src.encode(text) for text in texts], search)]
    return [[both.vocabularies.tgt.rows[n] for n in each.ids] for each in found], sum(each.finished for each in found)


def compare_outputs(both: Both, texts: list[str], engine: str, beam_size: int, early_stopping: Any) -> int:
    """Compare the outputs of both, and return how many of them ended."""
    # nmt never writes <unk>.
    banned = [[both.model.config.pad_token_id], [both.tokenizer.unk_token_id]]
    found, num_finished = outputs_of(both, texts, engine, beam_size=beam_size, exact=early_stopping == "never")
    expected = []
    for start in range(0, len(texts), 100):
        search = {"num_beams": beam_size, "early_stopping": early_stopping, "bad_words_ids": banned}
        expected += generate(both.model, both.tokenizer, texts[start : start + 100], **search)
    different = sum(a != b for a, b in zip(found, expected, strict=True))
    assert different <= len(texts) // 250  # near-ties
    return num_finished


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_outputs_are_those_of_transformers(imported, engine):
    if engine == "native" and not is_available():
        pytest.skip("the native decoder was not built")
    texts = sentences(25, 8)
    compare_outputs(imported["as OPUS-MT"], texts, engine, 1, False)
    assert compare_outputs(imported["gelu, two vocabularies"], texts, engine, 4, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_of_500_sentences_are_those_of_transformers(imported, name):
    texts = sorted(sentences(500, 9), key=len)
    compare_outputs(imported[name], texts, "torch", 1, False)
    compare_outputs(imported[name], texts, "torch", 4, True)
    compare_outputs(imported[name], texts, "torch", 4, "never")


@pytest.mark.parametrize("name", ["as OPUS-MT", "tags, deep decoder", "nothing shared or scaled"])
def test_a_model_that_comes_back_computes_the_same(imported, name, tmp_path):
    both = imported[name]
    export_hf(both.run, tmp_path / "back")
    model, tokenizer = load_hf(tmp_path / "back")
    texts = [*sentences(12, 4), *(f"{TAGS[1]} {text}" for text in sentences(3, 6))][: 15 if "tags" in name else 12]
    theirs = both.tokenizer(texts, return_tensors="pt", padding=True)
    own = tokenizer(texts, return_tensors="pt", padding=True)
    rows = both.vocabularies.tgt.rows
    tgt_in = torch.tensor([[BOS_ID, 5, 9, 14, 6]] * len(texts))
    with torch.inference_mode():
        expected = both.model(**theirs, decoder_input_ids=torch.tensor(rows)[tgt_in]).logits
        logits = model(**own, decoder_input_ids=tgt_in).logits
    kept = [number for number in range(len(rows)) if number not in both.vocabularies.tgt.muted]
    assert (logits[..., kept] - expected[..., torch.tensor(rows)[kept]]).abs().max() < 1e-4


def test_the_pipeline_translates_with_an_export_as_nmt_does(imported, tmp_path):
    from transformers import pipeline

    both = imported["tags, deep decoder"]
    export_hf(both.run, tmp_path / "back")
    theirs = pipeline("translation", model=str(tmp_path / "back"), device="cpu")
    texts = sentences(6, 12)
    search = SearchOptions(beam_size=4, max_len_factor=0, max_len_offset=MAX_NEW, retry_loops=False)
    ours = Translator.load(both.run, device="cpu", precision="fp32").translate(texts, search, to="cmn_Hans")
    found = theirs([f"{TAGS[1]} {text}" for text in texts], max_length=MAX_NEW + 1)
    assert [each["translation_text"] for each in found] == [each.text.strip() for each in ours]


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "two vocabularies"])
def test_a_model_that_nmt_made_computes_the_same_in_transformers(tmp_path, joint):
    run = make_run(tmp_path / "run", joint=joint)
    export_hf(run, tmp_path / "hf")
    model, tokenizer = load_hf(tmp_path / "hf")
    pair = TokenizerPair.load(run.tokenizer)
    texts = [*sentences(10, 2), "  two  spaces", "☃ é"]
    assert tokenizer(texts)["input_ids"] == [[*pair.src.encode(text), EOS_ID] for text in texts]
    search = SearchOptions(beam_size=4, max_len_factor=0, max_len_offset=MAX_NEW)
    ours = TorchEngine.load([run], pair, "cpu").search([pair.src.encode(text) for text in texts], search)
    found = generate(model, tokenizer, texts)  # with the settings of generation_config.json
    assert found == [each[0].ids for each in ours]
    assert json.loads((tmp_path / "hf" / "generation_config.json").read_text())["num_beams"] == 4
