"""M2M-100 and NLLB models compute in nmt as they do in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from nmt.apps.interop.hf_folder import HfFolder
from nmt.apps.interop.hf_import import Languages, import_hf
from nmt.apps.interop.hf_vocabulary import HfVocabularies
from nmt.apps.interop.m2m100_vocabulary import read_m2m100_vocabularies
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.languages import language_tag
from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.config import SearchOptions
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import NativeEngine, is_available
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.model.positions import sinusoidal_positions
from nmt.translation.segments import Segment, translate_segments
from tests.apps.interop.hf_folders import sentences
from tests.apps.interop.hf_logits import assert_logits_agree
from tests.apps.interop.m2m100_folders import make_m2m100_folder

pytest.importorskip("transformers", reason="needs the package transformers")

SHAPES: dict[str, dict[str, Any]] = {
    "as M2M-100": {},
    "as NLLB": {"kind": "nllb"},
    "deep decoder, one head, unigram": {
        "decoder_layers": 3,
        "encoder_layers": 1,
        "encoder_attention_heads": 1,
        "decoder_attention_heads": 1,
        "model_type": "unigram",
        "eos": 9.0,
    },
    "nllb, gelu, not scaled": {
        "kind": "nllb",
        "activation_function": "gelu",
        "scale_embedding": False,
        "model_type": "unigram",
    },
}
MAX_NEW = 14


class Both(NamedTuple):
    """A model in both forms."""

    run: RunDir
    vocabularies: HfVocabularies
    model: Any  # M2M100ForConditionalGeneration
    tokenizer: Any  # M2M100Tokenizer or NllbTokenizer
    src: str
    tgt: str


def load_hf(folder: Path) -> tuple[Any, Any]:
    from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer

    kind = M2M100Tokenizer if (folder / "vocab.json").exists() else NllbTokenizer
    return M2M100ForConditionalGeneration.from_pretrained(folder).eval(), kind.from_pretrained(folder)


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> dict[str, Both]:
    """A model of each shape, and the run that it became."""
    found = {}
    for name, options in SHAPES.items():
        path = tmp_path_factory.mktemp("imported")
        folder = make_m2m100_folder(path / "hf", **options)
        src, tgt = ("eng_Latn", "fra_Latn") if options.get("kind") == "nllb" else ("en", "fr")
        run = import_hf(folder, path / "run", Languages((src,), (tgt,)))
        vocabularies = read_m2m100_vocabularies(HfFolder(folder), HfFolder(folder).config())
        model, tokenizer = load_hf(folder)
        tokenizer.src_lang = src
        found[name] = Both(run, vocabularies, model, tokenizer, src, tgt)
    return found


def src_ids(both: Both, texts: list[str]) -> list[list[int]]:
    """The tokens of nmt for each text, with the tag of its language."""
    return both.vocabularies.tokenizers.src.encode_batch(f"{language_tag(both.src)} {text}" for text in texts)


@pytest.mark.parametrize("name", SHAPES)
def test_texts_get_the_tokens_that_transformers_gives_them(imported, name):
    both = imported[name]
    texts = [*sentences(60, 3), "  ßßü  ａ ok ñuxa xa ñuye ", "xaxa yeye ☃", "</", "1x2", "madeup", "<2xx> a"]
    rows = both.vocabularies.src.rows
    assert [[rows[n] for n in [*ids, EOS_ID]] for ids in src_ids(both, texts)] == both.tokenizer(texts)["input_ids"]


def test_positions_are_those_of_transformers_and_not_those_of_nmt(imported):
    both = imported["as M2M-100"]
    model = load_model(both.run, both.vocabularies.tokenizers, torch.device("cpu"))
    expected = both.model.model.encoder.embed_positions(torch.full((1, 64), 5))[0]
    for side in (model.src_embedding, model.tgt_embedding):
        assert (side.learned.weight - expected).abs().max() < 1e-6
    assert (expected - sinusoidal_positions(64, 24)).abs().max() > 0.5


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_those_of_transformers(imported, name):
    both = imported[name]
    tgt = both.vocabularies.tgt
    used = sorted(row for number, row in enumerate(tgt.rows) if number not in tgt.muted)
    assert used == list(range(both.model.config.vocab_size))  # all of them
    assert_logits_agree(both.run, both.vocabularies, both.model, both.tokenizer)


def outputs_of(both: Both, texts: list[str], engine: str, **options: Any) -> tuple[list[list[int]], list[float], int]:
    """The outputs of nmt as ids of transformers, their scores, and how many of them ended."""
    tokenizers = TokenizerPair.load(both.run.tokenizer)
    search = SearchOptions(max_len_factor=0, max_len_offset=MAX_NEW, **options)
    loaded = (
        NativeEngine.load(both.run, tokenizers, "fp32")
        if engine == "native"
        else TorchEngine.load([both.run], tokenizers, "cpu")
    )
    tag = output_tags(tokenizers.tgt, "both").ids[both.tgt]
    segments = [Segment(ids, tgt_tag=tag) for ids in src_ids(both, texts)]
    found = [each[0] for each in translate_segments(loaded, tokenizers, segments, search)]
    rows = both.vocabularies.tgt.rows
    scores = [search.normalized(each.score, len(each.tgt_ids) + 1 + each.finished) for each in found]
    return [[rows[n] for n in each.tgt_ids] for each in found], scores, sum(each.finished for each in found)


def compare_outputs(both: Both, texts: list[str], engine: str, beam_size: int, early_stopping: Any = False) -> int:
    """Compare the outputs of both, and return how many of them ended."""
    tokenizers, rows = both.vocabularies.tokenizers, both.vocabularies.tgt.rows
    tags = output_tags(tokenizers.tgt, "both").never_generated
    # What nmt never writes; </s> stands in the row of bos, too.
    banned = [[rows[number]] for number in (*tokenizers.tgt.never_generated, *tags) if number != BOS_ID]
    found, scores, num_finished = outputs_of(
        both, texts, engine, beam_size=beam_size, exact=early_stopping == "never", length_penalty=1.0
    )
    forced = both.tokenizer.convert_tokens_to_ids(both.tgt if "_" in both.tgt else f"__{both.tgt}__")
    expected: list[list[int]] = []
    their_scores: list[float] = []
    for start in range(0, len(texts), 100):
        result = both.model.generate(
            **both.tokenizer(texts[start : start + 100], return_tensors="pt", padding=True),
            forced_bos_token_id=forced,
            max_length=MAX_NEW + 2,
            num_beams=beam_size,
            early_stopping=early_stopping,
            bad_words_ids=banned,
            return_dict_in_generate=True,
            output_scores=True,
        )
        assert (result.sequences[:, 1] == forced).all()
        expected += [[n for n in row[2:] if n not in (1, 2)] for row in result.sequences.tolist()]
        their_scores += result.sequences_scores.tolist() if beam_size > 1 else []
    different = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]
    assert len(different) <= len(texts) // 250  # near-ties
    for i in range(len(their_scores)):
        assert i in different or abs(scores[i] - their_scores[i]) < 1e-4
    return num_finished


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_outputs_are_those_of_transformers(imported, engine):
    if engine == "native" and not is_available():
        pytest.skip("the native decoder was not built")
    texts = sentences(25, 8)
    compare_outputs(imported["as M2M-100"], texts, engine, 1)
    compare_outputs(imported["as NLLB"], texts, engine, 1)
    assert compare_outputs(imported["as NLLB"], texts, engine, 4, True)
    assert compare_outputs(imported["deep decoder, one head, unigram"], texts, engine, 5, "never")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_of_500_sentences_are_those_of_transformers(imported, name, engine):
    texts = sorted(sentences(500, 9), key=len)
    compare_outputs(imported[name], texts, engine, 1)
    compare_outputs(imported[name], texts, engine, 4, True)
    compare_outputs(imported[name], texts, engine, 4, "never")
