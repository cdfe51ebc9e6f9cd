"""Marian, M2M-100 and NLLB models compute in nmt as in transformers; models of nmt compute there as they do here."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from nmt import Translator
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.interop.hf_folder import HfFolder, M2M100Config
from nmt.apps.interop.hf_import import Languages, import_hf
from nmt.apps.interop.hf_vocabulary import HfVocabularies, read_vocabularies
from nmt.apps.interop.m2m100_vocabulary import read_m2m100_vocabularies
from nmt.artifacts.checkpoint import load_model, read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.base.languages import language_tag
from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.config import SearchOptions
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import NativeEngine, is_available
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.model.positions import sinusoidal_positions
from nmt.translation.segments import SearchInput, translate_segments
from tests.apps.interop.hf_folders import make_folder, sentences, train_spm
from tests.apps.interop.hf_hostile import change
from tests.apps.interop.m2m100_folders import make_m2m100_folder, transformers_version
from tests.apps.interop.post_norm_run import make_run
from tests.quick import quick_and_slow

pytestmark = [
    pytest.mark.skipif(find_spec("transformers") is None, reason="needs the package transformers"),
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

TAGS = (">>fra<<", ">>cmn_Hans<<")
ADDED = ("ꞌ", "qx", "<term>")
MARIAN: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "tags, deep decoder": {"tags": TAGS, "decoder_layers": 3},
    "relu, output apart": {"activation_function": "relu", "tie_word_embeddings": False},
    "gelu, two vocabularies": {"activation_function": "gelu", "share_encoder_decoder_embeddings": False},
    "nothing shared or scaled": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "scale_embedding": False,
    },
    "added tokens, padded rows": {"added": ADDED, "padding": 5},
}
M2M100: dict[str, dict[str, Any]] = {
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
    "added tokens of M2M-100": {"added": ADDED},
    "added tokens of NLLB": {"kind": "nllb", "added": ADDED, "code": "tyv", "padding": 7},
}
if find_spec("transformers") is not None and transformers_version() > 4:
    del MARIAN["relu, output apart"]  # version 5 shares no embeddings without the output, whatever its config.json says
SHAPES = [*MARIAN, *M2M100]
MAX_NEW = 14


class Both(NamedTuple):
    """A model in both forms."""

    run: RunDir
    vocabularies: HfVocabularies
    model: Any  # MarianMTModel or M2M100ForConditionalGeneration
    tokenizer: Any
    languages: Languages  # of an M2M-100 model


def load_hf(folder: Path) -> tuple[Any, Any]:
    import transformers

    if not isinstance(HfFolder(folder).config(), M2M100Config):
        model, tokenizer = transformers.AutoModelForSeq2SeqLM, transformers.AutoTokenizer
    else:
        model = transformers.M2M100ForConditionalGeneration
        has_vocabulary = (folder / "vocab.json").exists()
        tokenizer = transformers.M2M100Tokenizer if has_vocabulary else transformers.NllbTokenizerFast
    return model.from_pretrained(folder).eval(), tokenizer.from_pretrained(folder)


# The others differ from one of these in a single setting, which a quick one has, too.
SLOW = ("relu, output apart", "nllb, gelu, not scaled", "added tokens of M2M-100")
each_shape = pytest.mark.parametrize("name", quick_and_slow(SHAPES, lambda _, name: name not in SLOW))


class Imported(dict[str, Both]):
    """A model of each shape that was asked for, and the run that it became."""

    def __init__(self, make_folder_for):
        super().__init__()
        self._make_folder_for = make_folder_for

    def __missing__(self, name: str) -> Both:
        options, path = {**MARIAN, **M2M100}[name], self._make_folder_for("imported")
        folder = (make_folder if name in MARIAN else make_m2m100_folder)(path / "hf", **options)
        languages, config = Languages(), HfFolder(folder).config()
        if name in M2M100:
            languages = Languages(*((("eng_Latn",), ("fra_Latn",)) if "kind" in options else (("en",), ("fr",))))
        read: Any = read_vocabularies if name in MARIAN else read_m2m100_vocabularies
        run = import_hf(folder, path / "run", languages)
        model, tokenizer = load_hf(folder)
        if languages.src:
            tokenizer.src_lang = languages.src[0]
        self[name] = Both(run, read(HfFolder(folder), config), model, tokenizer, languages)
        return self[name]


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Imported:
    return Imported(tmp_path_factory.mktemp)


def src_ids(both: Both, texts: list[str]) -> list[list[int]]:
    """The tokens of nmt for each text, with the tag of its language if the model is of M2M-100."""
    tag = "".join(language_tag(code) + " " for code in both.languages.src)
    return both.vocabularies.tokenizers.src.encode_batch(tag + text for text in texts)


@each_shape
def test_texts_get_the_tokens_that_transformers_gives_them(imported, name):
    both = imported[name]
    texts = [*sentences(60, 3), "  ßßü  ａ ok ñuxa xa ñuye ", "xaxa yeye ☃", "</", "1x2"]
    texts += ["madeup", "<2xx> a"] if name in M2M100 else []
    if "added tokens" in name:
        texts += ["kapu qx lemi.", "ꞌ kaku ꞌgora", "kaꞌku", "ka ꞌ ku ꞌꞌ ꞌ", "aqxb<term>c"]
    rows = both.vocabularies.src.rows
    # The tokenizer of NLLB in version 5 keeps a space at the end of a text as a token; that of version 4 drops it.
    theirs = [text.rstrip() for text in texts] if "nllb" in name.lower() and transformers_version() > 4 else texts
    assert [[rows[n] for n in [*ids, EOS_ID]] for ids in src_ids(both, texts)] == both.tokenizer(theirs)["input_ids"]
    source = both.vocabularies.tokenizers.src
    assert source.encode_batch(texts) == [source.encode(text) for text in texts]


SCRIPTS = (
    "Alle Menschen sind frei und gleich an Würde geboren. Tất cả mọi người sinh ra đều được tự do.",
    "Все люди рождаются свободными и равными в своём достоинстве. Όλοι οι άνθρωποι γεννιούνται ελεύθεροι.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. כל בני אדם נולדו בני חורין ושווים בערכם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে।",
    "人人生而自由,在尊严上一律平等。 すべての人間は、生まれながらにして自由であり。 모든 인간은 자유롭다.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ လူတိုင်းသည် တူညီ လွတ်လပ်သော የሰው ልጅ ሁሉ ሲወለድ ነጻና እኩል ነው። Բոլոր մարդիկ ծնվում են ազատ",
)


def test_a_tokenizer_json_alone_gives_texts_of_many_scripts_the_tokens_that_transformers_gives_them(tmp_path):
    """Also with tokens that were added although the vocabulary has them, which transformers does not forbid."""
    from transformers import M2M100Config as HfM2M100Config
    from transformers import NllbTokenizerFast

    spm = tmp_path / "sentencepiece.bpe.model"
    train_spm([word for text in SCRIPTS for word in text.split()] * 3, spm, 400, "bpe")
    languages = "extra_special_tokens" if transformers_version() > 4 else "additional_special_tokens"
    tokenizer = NllbTokenizerFast.from_pretrained(tmp_path, **{languages: ["eng_Latn", "fra_Latn", "tyv"]})
    tokenizer.add_tokens(["ꞌ", "я", "ей", "<term>"])
    tokenizer.save_pretrained(tmp_path)
    spm.unlink()
    HfM2M100Config(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    folder = HfFolder(tmp_path)
    found = read_m2m100_vocabularies(folder, folder.config())
    draw = random.Random(1)
    words = " ".join(SCRIPTS).split()
    parts = [*words, "ꞌ", "x😀y", "<term>", "1，5", "ﬁ"]
    texts = [" ".join(draw.choices(parts, k=draw.randint(1, 9))) for _ in range(300)]
    texts += ["".join(draw.choices(words, k=2)) + "ꞌ" + draw.choice(words) for _ in range(100)]
    texts += [f"  {text.upper()}\u00a0 a\u3000\u200bb" for text in SCRIPTS]
    tokenizer = NllbTokenizerFast.from_pretrained(tmp_path, src_lang="eng_Latn")
    rows = found.src.rows
    ids = found.tokenizers.src.encode_batch(f"{language_tag('eng_Latn')} {text}" for text in texts)
    assert [[rows[number] for number in [*row, EOS_ID]] for row in ids] == tokenizer(texts)["input_ids"]
    assert found.tokenizers.src.encode("ꞌ a ") == found.tokenizers.src.encode("ꞌ a")
    assert "tyv" in found.languages


@pytest.mark.parametrize("make", [make_folder, make_m2m100_folder])
def test_an_added_token_that_the_vocabulary_has_is_refused_where_spaces_around_it_are_dropped(tmp_path, make):
    folder = make(tmp_path / "hf", added=["ka"])
    with pytest.raises(RunError, match="the added token 'ka' is in the vocabulary, too, so texts are cut around it"):
        import_hf(folder, tmp_path / "run", Languages(("en",), ("fr",)))


def test_embeddings_that_version_5_keeps_apart_are_not_taken_for_shared_ones(tmp_path):
    """It saves and uses one for each side if the output has its own, whatever config.json says."""
    apart = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    folder = make_folder(tmp_path / "hf", **apart)
    change(folder / "config.json", share_encoder_decoder_embeddings=True, transformers_version="5.24.0")
    with pytest.raises(RunError, match=r"config\.json: .*share_encoder_decoder_embeddings must be false"):
        import_hf(folder, tmp_path / "run")
    change(folder / "config.json", **apart)
    import_hf(folder, tmp_path / "run")


def test_a_tag_gets_the_token_that_transformers_gives_it(imported):
    both = imported["tags, deep decoder"]
    source, rows = both.vocabularies.tokenizers.src, both.vocabularies.src.rows
    for tag, own in zip(TAGS, ("<2fra>", "<2cmn_Hans>"), strict=True):
        expected = both.tokenizer([f"{tag} bade fi"])["input_ids"][0]
        assert [rows[n] for n in [*source.encode(f"{own} bade fi"), EOS_ID]] == expected


def test_positions_are_those_of_transformers_and_not_those_of_nmt(imported):
    both = imported["as M2M-100"]
    model = load_model(both.run, both.vocabularies.tokenizers, torch.device("cpu"))
    expected = both.model.model.encoder.embed_positions(torch.full((1, 64), 5))[0]
    for side in (model.src_embedding, model.tgt_embedding):
        assert (side.learned.weight - expected).abs().max() < 1e-6
    assert (expected - sinusoidal_positions(64, 24)).abs().max() > 0.5


@each_shape
def test_logits_are_those_of_transformers(imported, name):
    """For 30 sentences of several lengths."""
    run, vocabularies, their_model, their_tokenizer, _ = imported[name]
    model = load_model(run, vocabularies.tokenizers, torch.device("cpu"))
    src, tgt = vocabularies.src, vocabularies.tgt
    kept = [number for number in range(len(tgt.rows)) if number not in tgt.muted]
    assert sorted(tgt.rows[number] for number in kept) == list(range(their_model.config.vocab_size))  # all of them
    texts = sentences(30, 5)
    theirs = their_tokenizer(texts, return_tensors="pt", padding=True)
    own_of = {row: number for number, row in reversed([*enumerate(src.rows)])}
    own_of[their_model.config.eos_token_id] = EOS_ID  # M2M-100's row of bos holds it, too
    own_src = torch.tensor([[own_of[number] for number in row] for row in theirs["input_ids"].tolist()])
    draw = random.Random(1)
    usual = [number for number in range(EOS_ID + 1, len(tgt.rows)) if number not in tgt.muted]
    tgt_in = torch.tensor([[BOS_ID, *draw.choices(usual, k=11)] for _ in texts])
    rows = torch.tensor(tgt.rows)
    with torch.inference_mode():
        expected = their_model(**theirs, decoder_input_ids=rows[tgt_in]).logits
        logits = model(own_src, tgt_in)
    assert (logits[..., kept] - expected[..., rows[kept]]).abs().max() < 1e-4
    assert expected.abs().max() > 2  # not all equal
    # Muted ids have no share of the probability.
    assert (logits.logsumexp(-1) - expected.logsumexp(-1)).abs().max() < 1e-4


def compare_outputs(both: Both, texts: list[str], engine: str, beam_size: int) -> int:
    """Compare the outputs of both and, of a beam, their scores; return how many of them ended."""
    tokenizers, rows = TokenizerPair.load(both.run.tokenizer), both.vocabularies.tgt.rows
    options = SearchOptions(max_len_factor=0, max_len_offset=MAX_NEW, beam_size=beam_size)
    native = engine == "native"
    ours = (
        NativeEngine.load(both.run, tokenizers, "fp32") if native else TorchEngine.load([both.run], tokenizers, "cpu")
    )
    tags = output_tags(tokenizers.tgt, both.run.config().model.language_tags)
    tag = tags.ids[both.languages.tgt[0]] if both.languages.tgt else ()
    segments = [SearchInput(ids, tgt_tag=tag) for ids in src_ids(both, texts)]
    found = [each[0] for each in translate_segments(ours, tokenizers, segments, options)]
    scores = [options.normalized(each.score, len(each.tgt_ids) + len(tag) + each.finished) for each in found]
    # What nmt never writes; its begin token has the row of another.
    banned = [[rows[n]] for n in (*tokenizers.tgt.never_generated, *tags.never_generated) if n != BOS_ID]
    start = [rows[number] for number in tag]
    ends = {both.model.config.pad_token_id, both.model.config.eos_token_id}
    different = 0
    for first in range(0, len(texts), 100):
        result = both.model.generate(
            **both.tokenizer(texts[first : first + 100], return_tensors="pt", padding=True),
            forced_bos_token_id=start[0] if start else None,
            forced_eos_token_id=None,
            max_length=MAX_NEW + 1 + len(tag),
            num_beams=beam_size,
            early_stopping="never",
            bad_words_ids=banned,
            return_dict_in_generate=True,
            output_scores=True,
        )
        for i, row in enumerate(result.sequences.tolist(), first):
            assert row[1 : 1 + len(tag)] == start
            expected = [number for number in row[1 + len(tag) :] if number not in ends]
            score = float(result.sequences_scores[i - first]) if beam_size > 1 else scores[i]
            if [rows[number] for number in found[i].tgt_ids] == expected:
                assert abs(scores[i] - score) < 1e-4
            # Our beam search may find a better one, and prefers one that has ended.
            elif scores[i] <= score and found[i].finished == (len(expected) < MAX_NEW):
                different += 1
    assert different <= len(texts) // 250  # near-ties
    return sum(each.finished for each in found)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_outputs_are_those_of_transformers(imported, engine):
    if engine == "native" and not is_available():
        pytest.skip("the native decoder was not built")
    texts = sentences(25, 8)
    for name in ("as OPUS-MT", "as M2M-100", "as NLLB"):
        compare_outputs(imported[name], texts, engine, 1)
    assert compare_outputs(imported["gelu, two vocabularies"], texts, engine, 4)
    compare_outputs(imported["as NLLB"], texts, engine, 4)  # none ends before the maximum length
    assert compare_outputs(imported["deep decoder, one head, unigram"], texts, engine, 5)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_of_500_sentences_are_those_of_transformers(imported, name, engine):
    texts = sorted(sentences(500, 9), key=len)
    compare_outputs(imported[name], texts, engine, 1)
    compare_outputs(imported[name], texts, engine, 4)
    compare_outputs(imported[name], texts, engine, 5)


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

    if transformers_version() > 4:
        pytest.skip("version 5 has no pipeline that translates")
    both = imported["tags, deep decoder"]
    export_hf(both.run, tmp_path / "back")
    theirs = pipeline("translation", model=str(tmp_path / "back"), device="cpu")
    texts = sentences(6, 12)
    search = SearchOptions(beam_size=4, max_len_factor=0, max_len_offset=MAX_NEW, retry_loops=False)
    ours = Translator.load(both.run, device="cpu", precision="fp32").translate(texts, search, to="cmn_Hans")
    found = theirs([f"{TAGS[1]} {text}" for text in texts], max_length=MAX_NEW + 1)
    assert [each["translation_text"] for each in found] == [each.text.strip() for each in ours]


SHAPES_OF_NMT: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "post-norm, two vocabularies": {"joint": False},
    "pre-norm": {"norm_position": "pre"},
    "pre-norm, as nmt config new": {"norm_position": "pre", "activation": "relu", "output_bias": False},
}


@pytest.mark.parametrize("options", SHAPES_OF_NMT.values(), ids=SHAPES_OF_NMT.keys())
def test_a_model_that_nmt_made_computes_the_same_in_transformers(tmp_path, options):
    run = make_run(tmp_path / "run", **options)
    export_hf(run, tmp_path / "hf")
    model, tokenizer = load_hf(tmp_path / "hf")
    assert type(model).from_pretrained(tmp_path / "hf", output_loading_info=True)[1]["missing_keys"] in ([], set())
    pair = TokenizerPair.load(run.tokenizer)
    texts = [*sentences(10, 2), "  two  spaces", "☃ é"]
    assert tokenizer(texts)["input_ids"] == [[*pair.src.encode(text), EOS_ID] for text in texts]
    search = SearchOptions(beam_size=4, max_len_factor=0, max_len_offset=MAX_NEW)
    ours = TorchEngine.load([run], pair, "cpu").search([pair.src.encode(text) for text in texts], search)
    # with the settings of generation_config.json
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    found = model.generate(**batch, max_length=MAX_NEW + 1)
    ends = {model.config.pad_token_id, model.config.eos_token_id}
    assert [[n for n in row[1:] if n not in ends] for row in found.tolist()] == [each[0].ids for each in ours]
    assert json.loads((tmp_path / "hf" / "generation_config.json").read_text())["num_beams"] == 4
    if is_available():
        greedy = model.generate(**batch, max_length=MAX_NEW + 1, num_beams=1, early_stopping=False)
        engine = NativeEngine.load(run, pair, "fp32")
        ours = engine.search([pair.src.encode(text) for text in texts], search.greedy())
        assert [[n for n in row[1:] if n not in ends] for row in greedy.tolist()] == [each[0].ids for each in ours]


def test_what_transformers_saves_of_an_export_comes_back_unless_its_positions_changed(tmp_path):
    run = make_run(tmp_path / "run", norm_position="pre")
    export_hf(run, tmp_path / "hf")
    for each in load_hf(tmp_path / "hf"):
        each.save_pretrained(tmp_path / "saved")
    back = import_hf(tmp_path / "saved", tmp_path / "back")
    assert back.config().model == run.config().model
    before, after = (read_weights(each.best_checkpoint()) for each in (run, back))
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    model, _ = load_hf(tmp_path / "saved")
    model.model.decoder.embed_positions.weight.data[3] += 0.1
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(RunError, match=r"decoder\.embed_positions\.weight does not contain the sinusoids of Pegasus"):
        import_hf(tmp_path / "saved", tmp_path / "other")
