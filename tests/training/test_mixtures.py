"""Trainings on several corpora: shares, tags, directions, hold-outs; and models of two directions in use."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from nmt import Translator
from nmt.artifacts.rundir import DirectedPairs, RunDir
from nmt.base.errors import ConfigError, NmtError, RunError
from nmt.config import Config, SearchOptions
from nmt.data.text.tags import user_symbols
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation.plots import read_metrics
from nmt.training.corpus.prepare import prepare
from nmt.training.run import resume_run, start_run
from tests.reports import report_of
from tests.tiny import small_config
from tests.two_directions import two_directions, two_values, write_two_directions

ALPHABETS = {"de": set("0123456789 "), "fr": set("abcdefghij ")}


def test_each_direction_comes_out_in_its_own_language(two_run):
    translator = Translator.load(two_run, device="cpu")
    sets = RunDir(two_run).read_sets("test", ("en", "de"))
    assert [each.direction for each in sets] == [("en", "de"), ("en", "fr")]
    long = " ".join(sets[0].sources)  # translated in segments, each with the tag
    for each in sets:
        translations = translator.translate([*each.sources, long], to=each.direction.tgt)
        assert translations[-1].num_segments > 1
        assert all(t.text and set(t.text) <= ALPHABETS[each.direction.tgt] for t in translations)


def test_a_text_may_name_its_language_by_a_tag_of_its_own(two_run):
    translator = Translator.load(two_run, device="cpu")
    tagged = translator.translate(["<2fr> 1234", " <2de> 1234", " "])
    plain = [translator.translate(["1234"], to="fr")[0], translator.translate([" 1234"], to="de")[0]]
    assert [t.text for t in tagged] == [*(t.text for t in plain), ""]
    assert tagged[0].src_ids == plain[0].src_ids
    assert translator.translate(["<2fr> 1234"], to="de") == tagged[:1]


def test_one_text_alone_is_translated_as_among_others_in_both_directions(two_run):
    translator = Translator.load(two_run, device="cpu")
    sources = RunDir(two_run).read_pairs("test")[0]
    for to in ("de", "fr"):
        options = SearchOptions(beam_size=3)
        together = translator.translate(sources, options, to=to)
        assert [translator.translate([text], options, to=to)[0].text for text in sources] == [t.text for t in together]


def test_a_model_of_several_targets_must_be_told_which(two_run):
    translator = Translator.load(two_run, device="cpu")
    with pytest.raises(NmtError, match=r"translates into de and fr; choose one of them\n  set the target language"):
        translator.translate(["1234"])
    with pytest.raises(NmtError, match="translates into de and fr, not into it"):
        translator.translate(["1234"], to="it")
    with pytest.raises(NmtError, match="this model knows en, de and fr, not zh"):
        translator.translate(["1234"], to="de", from_="zh")
    with pytest.raises(NmtError, match="choose one of them"):
        translator.score(["1234"], ["4321"])
    assert (
        translator.score(["1234"], ["4321"], to="de")[0].score > translator.score(["1234"], ["4321"], to="fr")[0].score
    )


def test_a_model_of_one_target_takes_its_own_language_and_no_other(digits_run):
    translator = Translator.load(digits_run, device="cpu")
    assert translator.translate(["123"], to="en") == translator.translate(["123"])
    with pytest.raises(NmtError, match="translates into en, not into fr"):
        translator.translate(["123"], to="fr")


def test_scores_are_kept_for_each_direction_and_their_mean_is_the_score(two_run):
    run = RunDir(two_run)
    index = run.index()
    scores = index.checkpoints[index.best]
    for metric in ("bleu", "chrf"):
        mean = (scores[f"{metric}.en-de"] + scores[f"{metric}.en-fr"]) / 2
        assert scores[metric] == pytest.approx(mean)
    assert index.signatures["chrf"].startswith("mean of 2 directions: ")
    records = [record for record in map(json.loads, run.metrics.read_text().splitlines()) if record["kind"] == "valid"]
    assert records[0]["directions"].keys() == {"en-de", "en-fr"}
    assert read_metrics(run.metrics)
    card = run.card.read_text()
    assert "# two-directions" in card or "en to de, en to fr" in card
    assert "- en-fr: BLEU" in card
    assert "--to de" in card


def test_a_tag_is_one_token_and_stands_before_every_source_that_is_trained_on(two_corpora, tmp_path):
    config = two_directions(two_corpora, train=({"tag": "<web>"}, {}))
    prepared = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    tokenizer = prepared.tokenizers.src
    assert prepared.tokenizers.know(user_symbols(config))
    assert user_symbols(config) == ("<2de>", "<2fr>", "<web>")
    first, last = (tokenizer.decode(prepared.store.src[index].tolist()) for index in (0, len(prepared.store) - 1))
    assert first.startswith("<2de> <web> ")
    assert last.startswith("<2fr> ")
    assert tokenizer.tokens(prepared.store.src[0][:4].tolist()) == ["▁", "<2de>", "▁", "<web>"]
    parts = report_of(tmp_path / "run").corpora
    assert [(part.direction, part.tag, part.pairs) for part in parts] == [
        ("en-de", "<web>", 240),
        ("en-fr", None, 240),
    ]


def test_weights_share_an_epoch_and_are_no_part_of_the_stored_corpus(two_corpora, tmp_path, messages):
    plain = prepare(two_directions(two_corpora), RunDir(tmp_path / "plain"), tmp_path / "store")
    config = two_directions(two_corpora, train=({"weight": 3.0}, {"weight": 1.0}))
    weighted = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store")
    assert weighted.fingerprint == plain.fingerprint
    assert [part.pairs_per_epoch for part in report_of(tmp_path / "run").corpora] == [360, 120]
    assert f"  {two_corpora / 'train-fr.tsv'} (en-fr): 240 pairs, 120 per epoch" in messages
    with pytest.raises(ConfigError, match=r"corpus 2 of data.train gets none of the 480 pairs"):
        prepare(
            two_directions(two_corpora, train=({"weight": 1e9}, {"weight": 1.0})),
            RunDir(tmp_path / "x"),
            tmp_path / "store",
        )


def test_sentences_held_out_of_one_direction_are_trained_on_in_none(tmp_path):
    folder = write_two_directions(tmp_path / "corpus")
    rows = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()]
    (folder / "back.tsv").write_text("".join(f"{tgt}\t{src}\n" for src, tgt in rows))
    train = [{"tsv": str(folder / "train.tsv")}, {"tsv": str(folder / "back.tsv"), "src_lang": "de", "tgt_lang": "en"}]
    data = {"src_lang": "en", "tgt_lang": "de", "train": train, "valid": None, "test": None, "holdout_size": 30}
    for _ in range(2):  # the second time as saved beside the store
        run = RunDir(tmp_path / "run")
        prepared = prepare(small_config(folder, data=data), run, tmp_path / "store")
    held_out = [each for split in ("valid", "test") for each in run.read_sets(split, ("en", "de"))]
    assert [each.direction for each in held_out] == [("en", "de"), ("de", "en")] * 2
    assert all(len(set(each.sources)) == 30 for each in held_out)
    texts = {text for each in held_out for text in (*each.sources, *each.references)}
    store, tokenizers = prepared.store, prepared.tokenizers
    assert 0 < len(store) < 1200
    for index in range(len(store)):
        src, tgt = tokenizers.src.decode(store.src[index].tolist()), tokenizers.tgt.decode(store.tgt[index].tolist())
        assert not {src.split()[-1], tgt} & texts


@pytest.mark.slow
def test_a_resumed_mixture_ends_as_an_uninterrupted_one(two_corpora, tmp_path):
    train = ({"weight": 1.0, "tag": "<web>"}, {"weight": 2.5})
    training = {"max_updates": 6, "warmup_updates": 2, "validate_every": 3, "average_checkpoints": 0}
    whole, parts = two_directions(two_corpora, train=train, training=training), RunDir(tmp_path / "parts")
    start_run(whole, tmp_path / "whole")
    start_run(two_directions(two_corpora, train=train, training={**training, "max_updates": 4}), parts.path)
    resume_run(whole, parts.path)
    names = [f"step-{update:08d}" for update in (3, 6)]
    assert [RunDir(tmp_path / "whole").checkpoint(name).read_bytes() for name in names] == [
        parts.checkpoint(name).read_bytes() for name in names
    ]
    other = two_directions(two_corpora, train=({"weight": 1.0, "tag": "<web>"}, {"weight": 2.0}))
    with pytest.raises(RunError, match=r"weights of data.train was \[1.0, 2.5\] when the run was started"):
        resume_run(other, parts.path)


def test_damage_to_the_list_of_directions_is_noticed(two_run, tmp_path):
    run = RunDir(Path(shutil.copytree(two_run, tmp_path / "run")))
    path = run.data / "test.json"
    good = json.loads(path.read_text())
    assert good == {"directions": [{"src": "en", "tgt": to, "pairs": 10} for to in ("de", "fr")]}
    path.write_text(json.dumps({"directions": good["directions"][:1]}))
    with pytest.raises(RunError, match=r"10 pairs in all, but test.src has 20 lines"):
        run.read_sets("test", ("en", "de"))
    path.write_text("[]")
    with pytest.raises(RunError, match="not a JSON object"):
        run.read_sets("test", ("en", "de"))


def test_a_set_of_one_direction_has_no_list_of_directions(digits_run):
    run = RunDir(digits_run)
    assert not (run.data / "test.json").exists()
    assert run.read_sets("test", ("x", "y")) == [DirectedPairs(("x", "y"), *run.read_pairs("test"))]


def test_the_share_of_the_batches_follows_the_weights(two_corpora, tmp_path):
    from nmt.training.batches import UpdateBatches
    from nmt.training.update.distributed import ProcessGroup

    config = two_directions(two_corpora, train=({"weight": 9.0}, {"weight": 1.0}), training={"tokens_per_update": 1000})
    store = prepare(config, RunDir(tmp_path / "run"), tmp_path / "store").store
    batches, counts = UpdateBatches(store, config, ProcessGroup()), Counter()
    while batches.position.epoch == 0:
        for rows in batches.next_update().indices:
            counts.update((rows.indices >= 240).tolist())
    assert counts[False] / counts[True] == pytest.approx(9, rel=0.3)


@pytest.fixture(scope="module")
def grown_run(two_corpora, two_run, tmp_path_factory):
    """A run that begins with the weights of `two_run`, and has a third target language and a tag; after one update."""
    (two_corpora / "train-it.tsv").write_text((two_corpora / "train.tsv").read_text())
    model = RunDir(two_run).config().model.model_dump()
    values = two_values(two_corpora, train=({"tag": "<web>"}, {}), model=model)
    values["data"]["train"].append({"tsv": str(two_corpora / "train-it.tsv"), "tgt_lang": "it"})
    values["training"] |= {"init_from": str(two_run), "max_updates": 1, "warmup_updates": 0, "lr": 1e-12}
    path = tmp_path_factory.mktemp("grown") / "run"
    start_run(Config.model_validate(values), path)
    return path


def test_a_run_that_continues_with_a_new_language_translates_the_old_ones_as_before(two_run, grown_run):
    old, new = (Translator.load(run, device="cpu", engine="torch") for run in (two_run, grown_run))
    assert new.languages.targets == ["de", "fr", "it"]
    assert new.tokenizers.src.vocab_size == old.tokenizers.src.vocab_size + 2
    sources = RunDir(two_run).read_pairs("test")[0]
    for to in ("de", "fr"):
        before, after = ([t.text for t in each.translate(sources, to=to)] for each in (old, new))
        assert before == after
    assert new.translate(["<2it> 123", "<web> 123"], to="de")[0].src_ids[1] == old.tokenizers.src.vocab_size


def test_the_rows_of_old_tokens_keep_their_bits_and_new_tokens_get_rows_of_their_own(two_run):
    from safetensors.torch import load_file

    from nmt.artifacts.checkpoint import with_rows_for_new_tokens
    from nmt.model.transformer import Transformer

    run = RunDir(two_run)
    config, weights = run.config().model, load_file(run.best_checkpoint())
    (name,) = (
        name for name, tensor in weights.items() if len(tensor) == Translator.load(run).tokenizers.src.vocab_size
    )
    size = len(weights[name])
    model = Transformer(config, size + 3, size + 3)
    grown = with_rows_for_new_tokens(
        model, weights, Translator.load(run).tokenizers.with_symbols(["<a>", "<b>", "<c>"])
    )
    assert {key: tuple(t.shape) for key, t in grown.items()} == {
        key: tuple(t.shape) for key, t in model.named_parameters()
    }
    assert grown[name][:size].equal(weights[name])
    assert grown[name][size:].abs().sum(1).min() > 0
    assert all(grown[key].equal(weights[key]) for key in weights if key != name)


def test_a_named_tokenizer_without_the_tags_gets_them(two_corpora, digits_run, tmp_path):
    values = two_values(two_corpora)
    values["tokenizer"] |= {"path": str(digits_run / "tokenizer")}
    tokenizers = prepare(Config.model_validate(values), RunDir(tmp_path / "run"), tmp_path / "store").tokenizers
    assert tokenizers.know(["<2de>"])
    assert not TokenizerPair.load(digits_run / "tokenizer").know(["<2de>"])
