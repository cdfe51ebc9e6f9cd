"""The stored models say the same on every processor: no decision of theirs is a close one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from nmt import Translator
from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.special_tokens import BOS_ID
from nmt.config import SearchOptions
from nmt.data.store.batching import collate_sources, pad_rows
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine
from nmt.translation import Translation
from tests.quick import quick_and_slow
from tests.stored import MODELS, RECIPES, copy_run

# In nats; the smallest is 2.0 (tags; 3.4 without these). The rounding of another processor differs by some 1e-6 of a
# value, and by 1e-4 at most after all layers: it moves log-probabilities by thousandths.
MIN_MARGIN = 1.5
GREEDY = SearchOptions(retry_loops=False)
TEXTS = {  # that tests compare with translations they know, besides the validation and test sets of the runs
    "digits": ["12", "33", "123", "345", "9876"],
    "two-directions": ["<2de> 12", "<2fr> 12", "<2de> 345"],
    "letters": ["7", "12", "12.", "12 34", "34 56. 78."],
    "words": [],
    "loops": ["12345", "7654321"],
    "tags": [f"{tag} {text}" for tag in ("<spell>", "<copy>") for text in ("123.", "45.")],
}


def known_texts(run: RunDir, translator: Translator) -> list[str]:
    sets = [each for split in ("valid", "test") for each in run.read_sets(split, run.config().data.directions[0])]
    tags = [translator.languages.direct("", each.direction.tgt).tag for each in sets]
    return [*(tag + text for tag, each in zip(tags, sets, strict=True) for text in each.sources), *TEXTS[run.path.name]]


@torch.inference_mode()
def smallest_margin(run: RunDir, texts: list[str], translations: list[Translation]) -> tuple[float, str]:
    """The smallest difference between the log-probabilities of the first and the second token in fp32, and its text."""
    model, found = load_model(run, TokenizerPair.load(run.tokenizer), torch.device("cpu")), []
    for text, translation in zip(texts, translations, strict=True):
        src = collate_sources([each.src_ids for each in translation.segments], run.config().model.max_src_len)
        tgt_in = pad_rows([[BOS_ID, *each.tgt_ids] for each in translation.segments])
        first, second = model(src, tgt_in).log_softmax(-1).topk(2).values.unbind(-1)
        steps = pad_rows([[1] * (len(each.tgt_ids) + 1) for each in translation.segments]) > 0
        found.append((float((first - second)[steps].min()), text))
    return min(found)


@pytest.fixture(scope="module")
def translated() -> Callable[[str], tuple[list[str], list[Translation]]]:
    """The known texts of a model by its name, and what PyTorch makes of them."""

    @functools.cache
    def translate(name: str) -> tuple[list[str], list[Translation]]:
        run = RunDir(MODELS / name)
        with Translator.load(run, engine="torch", device="cpu") as translator:
            texts = known_texts(run, translator)
            return texts, translator.translate(texts, GREEDY)

    return translate


# The models are files, which change only if they are made anew; by day, the largest and the one that reverses digits.
@pytest.mark.parametrize("name", quick_and_slow([*RECIPES], lambda _, name: name in ("digits", "two-directions")))
def test_the_first_token_is_much_more_probable_than_the_second(name, translated):
    margin, text = smallest_margin(RunDir(MODELS / name), *translated(name))
    assert margin > MIN_MARGIN, text


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")
def test_the_native_engine_says_the_same_in_int8_and_no_token_is_in_doubt(name, translated):
    texts, expected = translated(name)
    with Translator.load(RunDir(MODELS / name), engine="native", device="cpu", precision="int8") as translator:
        found = translator.translate(texts, GREEDY)
    assert [translation.text for translation in found] == [translation.text for translation in expected]
    assert min(min(translation.token_scores) for translation in found) > -0.5  # 0.61: no other token has over 0.39


@pytest.mark.parametrize("name", ["digits", "two-directions", "letters"])
def test_weights_that_differ_by_the_rounding_of_another_processor_say_the_same_with_any_beam(name, tmp_path):
    """A beam also depends on the order of improbable tokens, whose margins are small."""
    disturbed = copy_run(name, tmp_path / "run", tmp_path / "corpus", disturbance=1e-4)
    texts = TEXTS[name]
    with Translator.load(RunDir(MODELS / name), device="cpu", precision="fp32") as translator:
        expected = [[t.text for t in translator.translate(texts, SearchOptions(beam_size=n))] for n in (1, 2, 3, 4, 5)]
    with Translator.load(RunDir(disturbed), device="cpu", precision="fp32") as translator:
        found = [[t.text for t in translator.translate(texts, SearchOptions(beam_size=n))] for n in (1, 2, 3, 4, 5)]
    assert found == expected


def test_stored_files_name_no_place_on_the_machine_that_made_them():
    for path in MODELS.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".yaml", ".md"}:
            assert " /" not in path.read_text(encoding="utf-8").replace(" / ", "")
