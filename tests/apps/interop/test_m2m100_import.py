"""An M2M-100 or NLLB folder becomes a run like any other; a hostile or damaged one becomes one error alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt import Translator
from nmt.apps.interop.ctranslate2_engine import CTranslate2Engine
from nmt.apps.interop.describe import describe_model
from nmt.apps.interop.export import export_ctranslate2
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.interop.hf_import import Languages, import_hf
from nmt.apps.interop.sharing import pack
from nmt.artifacts.checkpoint import load_model, read_weights
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.languages import Direction
from nmt.config import Config, SearchOptions
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair
from nmt.training.run import start_run
from nmt.translation import LanguagePair
from tests.apps.interop.hf_folders import sentences, train_spm
from tests.apps.interop.hf_hostile import HOSTILE_WEIGHTS, change, config_of, link_to, spoil_weights, to_pickle
from tests.apps.interop.m2m100_folders import make_m2m100_folder
from tests.quick import examples, quick_and_slow
from tests.tiny import TRAINING

pytestmark = pytest.mark.skipif(find_spec("transformers") is None, reason="needs the package transformers")

PAIR = Languages(("en",), ("fr",))
NLLB = Languages(("eng_Latn",), ("fra_Latn", "deu_Latn"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("made")
    return {kind: make_m2m100_folder(path / kind, kind) for kind in ("m2m100", "nllb")}


@pytest.fixture(scope="module")
def runs(folders, tmp_path_factory) -> dict[str, RunDir]:
    path = tmp_path_factory.mktemp("runs")
    named = {"m2m100": PAIR, "nllb": NLLB}
    return {kind: import_hf(folder, path / kind, named[kind]) for kind, folder in folders.items()}


@pytest.fixture
def folder(folders, tmp_path) -> Path:
    """A copy of the M2M-100 folder."""
    return Path(shutil.copytree(folders["m2m100"], tmp_path / "hf"))


@pytest.fixture
def nllb(folders, tmp_path) -> Path:
    return Path(shutil.copytree(folders["nllb"], tmp_path / "nllb"))


def texts_of(translator: Translator, texts: list[str], **named: Any) -> list[str]:
    return [done.text for done in translator.translate(texts, **named)]


def test_a_run_translates_between_the_languages_that_were_chosen(runs):
    run = runs["nllb"]
    assert run.config().data.directions == (Direction("eng_Latn", "fra_Latn"), Direction("eng_Latn", "deu_Latn"))
    with Translator.load(run, device="cpu") as translator:
        texts = sentences(4, 3)
        french, german = (texts_of(translator, texts, to=to) for to in ("fra_Latn", "deu_Latn"))
        assert french != german
        assert not any("<2" in text for text in french + german)
        with pytest.raises(NmtError, match=r"fra_Latn and deu_Latn; choose one of them\n  set .* --to fra_Latn"):
            translator.translate(texts)
        with pytest.raises(NmtError, match=r"this model translates into fra_Latn and deu_Latn, not into spa_Latn"):
            translator.translate(texts, to="spa_Latn")
    with Translator.load(runs["m2m100"], device="cpu") as translator:
        assert texts_of(translator, texts) == texts_of(translator, texts, from_="en", to="fr")


def test_a_run_of_several_source_languages_must_be_told_which(folders, tmp_path):
    run = import_hf(folders["m2m100"], tmp_path / "run", Languages(("en", "de"), ("fr", "de")))
    assert [str(each) for each in run.config().data.directions] == ["en-fr", "en-de", "de-fr"]
    assert 'nmt translate --model run --from en --to fr "text"' in run.card.read_text(encoding="utf-8")
    with Translator.load(run, device="cpu") as translator:
        with pytest.raises(NmtError, match=r"translates from en and de; choose one of them\n  .* --from en"):
            translator.translate(["bade fi"], to="fr")
        english, german = (texts_of(translator, sentences(4, 3), to="fr", from_=code) for code in ("en", "de"))
        assert english != german
        assert texts_of(translator, sentences(4, 3), to="de") == texts_of(
            translator, sentences(4, 3), to="de", from_="en"
        )


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_the_tag_of_an_output_has_no_score_and_no_place_in_it(runs, engine):
    options = SearchOptions(max_len_offset=12, max_len_factor=0, retry_loops=False)
    with Translator.load(runs["m2m100"], device="cpu", engine=engine, precision="fp32") as translator:
        texts = sentences(6, 3)
        for search in (options, options.changed(beam_size=3), options.changed(no_repeat_ngram=2)):
            for text, found in zip(texts, translator.translate(texts, search), strict=True):
                (forced,) = translator.score([text], [found.text])
                (segment,) = found.segments
                if forced.tgt_ids == segment.tgt_ids and segment.finished:
                    assert found.score == pytest.approx(forced.score, abs=1e-3)
                assert len(segment.token_scores) == len(segment.tgt_ids) + segment.finished
                assert len(segment.tgt_ids) + segment.finished <= 12
                rows = translator.cross_attention(segment)
                assert len(rows) == len(segment.token_scores)
                assert {len(row) for row in rows} == {len(segment.src_ids) + 1}
        shortest = translator.translate(texts, options.changed(min_len=9))
        assert min(len(each.tgt_ids) for each in shortest) >= 9


@pytest.mark.parametrize(
    "options",
    quick_and_slow([{}, {"beam_size": 3}, {"sample": True, "num_hypotheses": 2}], lambda number, _: number == 1),
    ids=str,
)
def test_both_engines_and_batches_of_any_size_find_the_same(runs, options):
    search = SearchOptions(max_len_offset=12, max_len_factor=0, **options)
    half = examples(4, 10)
    texts, prefixes = sentences(2 * half, 3), ["ba "] * half + [""] * half
    found = []
    for engine in ("native", "torch"):
        with Translator.load(runs["nllb"], device="cpu", engine=engine, precision="fp32") as translator:
            together = texts_of(translator, texts, options=search, prefixes=prefixes, to="fra_Latn")
            alone = [
                texts_of(translator, [text], options=search, prefixes=[prefix], to="fra_Latn")[0]
                for text, prefix in zip(texts, prefixes, strict=True)
            ]
            assert alone == together
            found.append(together)
    assert all(text.startswith("ba") for text in found[0][:half])
    assert found[0] == found[1]


def test_a_run_is_exported_to_ctranslate2_and_packed(runs, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    run, texts = runs["nllb"], sentences(12, 3)
    export_ctranslate2(run, tmp_path / "out")
    pack(run, tmp_path / "run.nmt")
    # Greedily: CTranslate2 renormalizes without the tags, which have a share of the probability in a random model.
    options = SearchOptions(max_len_offset=12, max_len_factor=0)
    with Translator.load(run, device="cpu", precision="fp32") as translator:
        expected = translator.translate(texts, options, to="deu_Latn")
    with Translator.load(str(tmp_path / "run.nmt"), device="cpu", precision="fp32") as translator:
        assert texts_of(translator, texts, options=options, to="deu_Latn") == [each.text for each in expected]
    tokenizers = TokenizerPair.load(run.tokenizer)
    engine = CTranslate2Engine(tmp_path / "out", load_model(run, tokenizers, torch.device("cpu")), tokenizers)
    theirs = Translator(tokenizers, engine, LanguagePair.from_config(run.config()))
    assert texts_of(theirs, texts, options=options, to="deu_Latn") == [each.text for each in expected]
    prefixed = theirs.translate(texts, options, ["ba"] * len(texts), to="deu_Latn")
    assert all(each.text.startswith("ba") for each in prefixed)


def test_a_run_is_fine_tuned_in_a_language_that_was_not_chosen(runs, tmp_path, messages):
    run = runs["m2m100"]
    corpus = tmp_path / "c.tsv"
    corpus.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences(60, 1), sentences(60, 2), strict=True)))
    data = {"src_lang": "en", "tgt_lang": "fr", "train": {"tsv": str(corpus)}, "holdout_size": 4}
    data["train"] = [{"tsv": str(corpus)}, {"tsv": str(corpus), "src_lang": "it", "tgt_lang": "sv"}]
    data["augment"] = {"typos": 0.3, "noise": 0.3}
    training = {**TRAINING, "max_updates": 4, "init_from": str(run.path), "lr": 1e-4}
    values = {"data": data, "model": run.config().model, "training": training}
    start_run(Config.model_validate(values), tmp_path / "tuned")
    tuned = RunDir(tmp_path / "tuned")
    before, after = (read_weights(each.best_checkpoint()) for each in (run, tuned))
    assert {name: tensor.shape for name, tensor in before.items()} == {n: tensor.shape for n, tensor in after.items()}
    with Translator.load(tuned, device="cpu", precision="fp32") as translator:
        assert len(texts_of(translator, ["bade fi"], to="sv", from_="it")) == 1
        ids = [translator.segmenter.tgt_tag(Direction("it", "sv")), translator.tokenizers.tgt.encode("<2sv>")]
        assert ids[0] == ids[1]
    with pytest.raises(
        NmtError, match=r"transformers has no pre-norm translation model with model\.positions: learned"
    ):
        export_hf(tuned, tmp_path / "marian")


def test_info_describes_a_folder(folders):
    found = [describe_model(str(folders[kind])) for kind in ("m2m100", "nllb")]
    assert {each.kind for each in found} == {"Hugging Face folder (M2M-100)"}
    assert [len(each.languages) for each in found] == [100, 202]
    assert "fra_Latn" in found[1].languages


def keep_only_tokenizer_json(nllb: Path) -> None:
    """Leave of the tokenizer what version 5 of transformers saves; version 4 saves the same in tokenizer.json."""
    from transformers import NllbTokenizerFast

    NllbTokenizerFast.from_pretrained(nllb).save_pretrained(nllb)
    for name in ("sentencepiece.bpe.model", "added_tokens.json", "special_tokens_map.json"):
        (nllb / name).unlink(missing_ok=True)
    change(nllb / "tokenizer_config.json", added_tokens_decoder=None, tokenizer_class="NllbTokenizer")


def test_nllb_with_nothing_but_tokenizer_json_has_the_tokens_of_its_sentencepiece_model(runs, nllb, tmp_path):
    keep_only_tokenizer_json(nllb)
    run = import_hf(nllb, tmp_path / "run", NLLB)
    found, expected = (TokenizerPair.load(each.tokenizer).src for each in (run, runs["nllb"]))
    assert found.vocabulary == expected.vocabulary
    texts = [*sentences(examples(100, 1000), 11), "  ßßü  ａ ok ñuxa xa ñuye ", "☃", "</", "<2fra_Latn> bade"]
    assert found.encode_batch(texts) == expected.encode_batch(texts)
    assert len(describe_model(str(nllb)).languages) == 202


TOKENIZER_JSON: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "unigram": (lambda tokenizer: tokenizer["model"].update(type="Unigram"), r"model\.type: Input should be 'BPE'"),
    "bytes": (
        lambda tokenizer: tokenizer["model"].update(byte_fallback=True),
        r"model\.byte_fallback: Input should be",
    ),
    "a merge too few": (
        lambda tokenizer: tokenizer["model"]["merges"].pop(5),
        "tokens and merges are not those of a Sentence",
    ),
    "a gap": (
        lambda tokenizer: tokenizer["model"]["vocab"].update(new=9000),
        "tokens and merges are not those of a Sentence",
    ),
    "small letters": (
        lambda tokenizer: tokenizer["normalizer"]["normalizers"].append({"type": "Lowercase"}),
        r"normalizers\.\d\.type: Input should be",
    ),
    "small letters, deeper": (
        lambda tokenizer: tokenizer["normalizer"]["normalizers"].append(
            {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}
        ),
        r"normalizers\.\d\.type: Input should be",
    ),
    "words of their own": (
        lambda tokenizer: tokenizer.update(pre_tokenizer={"type": "ByteLevel"}),
        r"pre_tokenizer\.type: Input should be 'Metaspace'",
    ),
    "no model": (lambda tokenizer: tokenizer.pop("model"), "model: Field required"),
}


@pytest.mark.parametrize("name", TOKENIZER_JSON)
def test_a_tokenizer_json_that_is_not_of_a_sentencepiece_model_is_refused(nllb, tmp_path, name):
    keep_only_tokenizer_json(nllb)
    path = nllb / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    spoil, message = TOKENIZER_JSON[name]
    spoil(tokenizer)
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(
        NmtError, match=rf"tokenizer\.json: .*{message}.*\n  copy sentencepiece\.bpe\.model from the folder"
    ):
        import_hf(nllb, tmp_path / "run", NLLB)


def test_half_precision_is_read_from_a_pickle(folders, folder, runs, tmp_path):
    to_pickle(folder, lambda tensors: {name: tensor.half() for name, tensor in tensors.items()})
    found, expected = read_weights(import_hf(folder, tmp_path / "run", PAIR).best_checkpoint()), runs["m2m100"]
    before = read_weights(expected.best_checkpoint())
    assert all(torch.allclose(found[name], before[name], atol=4e-3) for name in before)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_weights_in_several_files_are_read_as_one(folders, runs, tmp_path, kind):
    """As `save_pretrained` writes what is larger than a shard."""
    folder = Path(shutil.copytree(folders["nllb"], tmp_path / "hf"))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    name = "model" if kind == "safetensors" else "pytorch_model"
    shards = {tensor: f"{name}-0000{number % 3 + 1}-of-00003.{kind}" for number, tensor in enumerate(tensors)}
    for shard in set(shards.values()):
        part = {tensor: tensors[tensor] for tensor in shards if shards[tensor] == shard}
        save_file(part, folder / shard) if kind == "safetensors" else torch.save(part, folder / shard)
    (folder / f"{name}.{kind}.index.json").write_text(json.dumps({"weight_map": shards}))
    assert describe_model(str(folder)).parameters == describe_model(str(folders["nllb"])).parameters
    found = read_weights(import_hf(folder, tmp_path / "run", NLLB).best_checkpoint())
    expected = read_weights(runs["nllb"].best_checkpoint())
    assert all(found[each].equal(expected[each]) for each in expected)
    (folder / min(shards.values())).unlink()
    with pytest.raises(NmtError, match=rf"it has no \w+-00001-of-00003\.{kind}"):
        import_hf(folder, tmp_path / "other", NLLB)


def test_a_shard_outside_of_the_folder_is_not_read(nllb, tmp_path):
    (nllb / "model.safetensors").rename(tmp_path / "elsewhere")
    index = nllb / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "../elsewhere"}}))
    with pytest.raises(NmtError, match="weight_map names files that are not in this folder"):
        import_hf(nllb, tmp_path / "run", NLLB)


def test_added_tokens_reach_the_output(tmp_path):
    folder = make_m2m100_folder(tmp_path / "hf", "nllb", added=("ꞌ", "qx"), code="gsw_Latn_BE", padding=3)
    assert "gsw_Latn_BE" in describe_model(str(folder)).languages
    run = import_hf(folder, tmp_path / "run", Languages(("eng_Latn",), ("gsw_Latn_BE",)))
    tokenizer = TokenizerPair.load(run.tokenizer).tgt
    ids = tokenizer.encode("kaꞌku qx lemi ꞌ")
    assert [tokenizer.decode([each]) for each in ids if tokenizer.vocabulary[each] in "ꞌqx"] == ["ꞌ", "qx", "ꞌ"]
    assert tokenizer.decode(ids) == "kaꞌ ku qx lemi ꞌ"  # as transformers, which segments "ku" as a text of its own
    assert 0 not in ids
    with Translator.load(run, device="cpu", precision="fp32") as translator:
        (forced,) = translator.score(["kapu"], ["kaꞌku"])
        assert tokenizer.id_of("ꞌ") in forced.tgt_ids
    # Tokens that somebody trained further keep their segmentation.
    assert Tokenizer(tokenizer.model_bytes).with_symbols(["<x>"]).encode("kaꞌku qx lemi ꞌ") == ids


def test_codes_of_added_languages_are_read_as_people_write_them(tmp_path):
    folder = make_m2m100_folder(tmp_path / "hf", "nllb", code="gcf-Latn-x")
    before = {path: path.read_text(encoding="utf-8") for path in folder.glob("tokenizer*.json")}
    for token, code in (("gcf-Latn-x", "gcf-Latn-x"), ("<2tyv>", "tyv"), (">>kca<<", "kca"), ("__shp__", "shp")):
        for path, content in before.items():
            path.write_text(content.replace("gcf-Latn-x", token), encoding="utf-8")
        (folder / "added_tokens.json").unlink(missing_ok=True)
        assert code in describe_model(str(folder)).languages


def test_the_languages_that_added_tokens_of_m2m100_replace_are_not_there(tmp_path):
    """transformers gives them the ids of the languages, from Afrikaans on."""
    folder = make_m2m100_folder(tmp_path / "hf", added=("ꞌ",))
    with pytest.raises(NmtError, match="this model has no language af"):
        import_hf(folder, tmp_path / "run", Languages(("af",), ("en",)))
    assert len(describe_model(str(folder)).languages) == 99


NO_SPM = r"no sentencepiece\.bpe\.model\n  copy sentencepiece\.bpe\.model from the folder of the model"
ELSEWHERE: dict[str, tuple[dict[str, str], str]] = {
    "no tokenizer": ({"config.json": '{"model_type": "m2m_100"}', "vocab.json": "{}"}, NO_SPM),
    "a trainer's folder": (
        {"checkpoint-10/config.json": "{}", "checkpoint-9/x": ""},
        r"did you mean .*checkpoint-10\?",
    ),
    "the hub's cache": ({"snapshots/abc/config.json": "{}", "refs/main": "abc"}, r"did you mean .*snapshots.abc\?"),
    "an adapter": ({"adapter_config.json": "{}"}, r"an adapter \(LoRA\): merge it"),
    "a run": ({"run.json": ""}, "it is a run of nmt"),
    "a configuration of Joey NMT": ({"config.yaml": "joeynmt_version: 2.3"}, "folders with a config.json whose"),
    "a CTranslate2 model": ({"config.json": "{}", "export.json": "{}"}, "the model_type is None"),
    "TensorFlow": ({"tf_model.h5": ""}, "for TensorFlow"),
    "a tokenizer": ({"tokenizer.json": "{}"}, "folders with a config.json whose model_type"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_folder_without_a_model_says_what_it_is(tmp_path, name):
    files, message = ELSEWHERE[name]
    for each, content in files.items():
        (tmp_path / "hf" / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hf" / each).write_text(content)
    with pytest.raises(NmtError, match=message):
        import_hf(tmp_path / "hf", tmp_path / "run", NLLB)


HUB_NAMES = (
    "facebook/nllb-200-distilled-600M",
    "hf:facebook/m2m100_418M",
    "https://hub.example/facebook/m2m100_418M",
    "https://hub.example/facebook/m2m100_418M/tree/main",
)


@pytest.mark.parametrize("name", HUB_NAMES)
def test_a_name_of_the_hub_is_no_folder_but_says_how_to_get_one(tmp_path, name):
    with pytest.raises(
        NmtError, match=r"no such folder\n  if this is a model on the hub, copy it: hf download facebook/"
    ):
        import_hf(Path(name), tmp_path / "run", NLLB)


def test_the_file_of_a_configuration_is_refused_with_its_folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NmtError, match="a file; give the folder that it lies in"):
        import_hf(tmp_path / "config.json", tmp_path / "run", NLLB)


def other_model(folder: Path) -> None:
    train_spm(sentences(300, 7), folder / "sentencepiece.bpe.model", 60)


def vocabulary_of(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "vocab.json", **values)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    **HOSTILE_WEIGHTS,
    "weights that are not numbers": (
        spoil_weights(lambda tensors: tensors["model.decoder.layer_norm.bias"].fill_(float("nan"))),
        r"layer_norm\.bias contains numbers that are not finite",
    ),
    "no final norm": (
        spoil_weights(lambda tensors: tensors.pop("model.encoder.layer_norm.weight")),
        r"these weights have no model\.encoder\.layer_norm\.weight",
    ),
    "a link": (link_to("sentencepiece.bpe.model"), r"sentencepiece\.bpe\.model: a link, or not a regular file"),
    "no tokenizer": (
        lambda folder: (folder / "sentencepiece.bpe.model").unlink(),
        r"model of M2M-100: it has no sentencepiece\.bpe\.model",
    ),
    "another width": (config_of(d_model=48), r"has shape \(237, 24\), but should have \(237, 48\)"),
    "more rows than weights": (config_of(vocab_size=9_000), r"but should have \(9000, 24\)"),
    "fewer rows than tokens": (config_of(vocab_size=90), r"tokens, but config\.json has a vocab_size of 90"),
    "fewer rows than languages": (config_of(vocab_size=170), r"the token of \w+ has the id 170"),
    "heads that differ": (config_of(decoder_attention_heads=2), "decoder_attention_heads is 2; nmt imports models"),
    "another start": (config_of(decoder_start_token_id=0), "the special tokens have other ids than M2M-100"),
    "an output of its own": (config_of(tie_word_embeddings=False), "tie_word_embeddings: Input should be True"),
    "ids that are no numbers": (vocabulary_of(x="y"), "an id is not a whole number"),
    "ids with a gap": (vocabulary_of(x=4000), r"ids are not 0 to"),
    "a damaged tokenizer": (
        lambda folder: (folder / "sentencepiece.bpe.model").write_bytes(b"\x0a\xff\xff\xff\x7fx"),
        r"bpe\.model: this is not a SentencePiece model, or it is damaged",
    ),
    "NLLB's tokenizer, another model": (
        lambda folder: ((folder / "vocab.json").unlink(), config_of(vocab_size=90)(folder)),
        r"tokens, but config\.json has a vocab_size of 90",
    ),
    "NLLB without its languages": (
        lambda folder: ((folder / "vocab.json").unlink(), change(folder / "tokenizer_config.json")),
        "no file of this folder lists the language tokens",
    ),
    "an added token with rules": (
        lambda folder: change(
            folder / "tokenizer_config.json", added_tokens_decoder={"230": {"content": "qx", "single_word": True}}
        ),
        r"the added token 'qx' is segmented by rules that nmt does not have",
    ),
    "an added token of old transformers without a row": (
        lambda folder: (folder / "added_tokens.json").write_text('{"qx": 900}'),
        r"the added token 'qx' has the id 900, but no row of the weights\n  call model\.resize_token_embeddings",
    ),
    "added tokens that are no numbers": (
        lambda folder: (folder / "added_tokens.json").write_text('{"qx": "many"}'),
        r"added_tokens\.json: qx",
    ),
    "an index that is none": (
        lambda folder: (
            (folder / "model.safetensors").unlink(),
            (folder / "model.safetensors.index.json").write_text('{"weight_map": [1]}'),
        ),
        r"index\.json: weight_map",
    ),
    "a language outside": (
        lambda folder: (
            (folder / "vocab.json").unlink(),
            change(
                folder / "tokenizer_config.json",
                added_tokens_decoder={
                    str(n): {"content": f"ab{c}_Latn"} for c, n in zip("cdefgh", range(9**9, 9**9 + 6), strict=True)
                },
            ),
        ),
        r"the token of abc_Latn has the id 387420489",
    ),
    "the language behind": (
        lambda folder: change(folder / "tokenizer_config.json", legacy_behaviour=True),
        "legacy_behaviour is true",
    ),
    "another tokenizer": (
        lambda folder: change(folder / "tokenizer_config.json", tokenizer_class="SMALL100Tokenizer"),
        "the tokenizer_class is SMALL100Tokenizer",
    ),
    "languages that are not known": (
        lambda folder: change(folder / "tokenizer_config.json", language_codes="x"),
        "no file of this folder lists the language tokens",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_one_error_and_nothing_is_left(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    spoil, message = HOSTILE[name]
    spoil(folder)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NmtError, match=message):
        import_hf(folder, tmp_path / "run", PAIR)
    assert sorted(tmp_path.iterdir()) == before  # neither a run, nor what a pickle makes


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (
            Languages(),
            r"between 100 languages; choose those for the run\n  choose .* --from .* `nmt info`",
        ),
        (Languages(("en",)), "choose those for the run"),
        (Languages(("eng_Latn",), ("fr",)), r"this model has no language eng_Latn\n"),
        (Languages(("en",), ("en",)), "the languages of both sides are the same"),
    ],
)
def test_languages_must_be_named_as_the_model_has_them(folders, tmp_path, languages, message):
    with pytest.raises(NmtError, match=message):
        import_hf(folders["m2m100"], tmp_path / "run", languages)
    assert not (tmp_path / "run").exists()


def test_the_nearest_language_is_named(folders, tmp_path):
    with pytest.raises(NmtError, match=r"no language en\n  (it has|did you mean) .*eng_Latn"):
        import_hf(folders["nllb"], tmp_path / "run", Languages(("en",), ("fra_Latn",)))
