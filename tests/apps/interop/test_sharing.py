"""What is shared of a run: all that translating needs, and nothing that its owner keeps."""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from nmt import Translator
from nmt.apps.interop.argos import export_argos
from nmt.apps.interop.describe import describe_model
from nmt.apps.interop.export import export_ctranslate2
from nmt.apps.interop.sharing import pack, without_folders, write_shareable
from nmt.apps.web.export import export_web
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.data.lexicon.term_lexicon import TermLexicon
from nmt.data.tokens.tokenizer import TokenizerPair
from tests.full_disk import no_room_for
from tests.tiny import tiny_config

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"
TEXTS = ["12", "907", "4455", "", "1 2 3", "98765"]
SCORES = {"BLEU": {"value": 12.5, "signature": "nrefs:1|v"}, "chrF2": {"value": 99.0, "signature": "nrefs:1|w"}}


@pytest.fixture
def run(tmp_path) -> RunDir:
    """A copy of the frozen run."""
    return RunDir(Path(shutil.copytree(FROZEN, tmp_path / "run")))


def evaluate(run: RunDir, checkpoint: str) -> None:
    """As `nmt eval` saves scores."""
    run.evaluations.mkdir()
    record = {"set": "test", "sentences": 20, "checkpoints": [checkpoint], "scores": SCORES, "hypotheses": "/home/me/x"}
    run.write_json(run.evaluations / "test.json", record)


def card_of(run: RunDir, folder: Path) -> tuple[dict[str, object], str]:
    """Front matter and text of the shared card."""
    write_shareable(run, folder, ("digits", "digits.zip"))
    front, _, text = (folder / "README.md").read_text().removeprefix("---\n").partition("---\n")
    return yaml.safe_load(front), text


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam_size=3, num_hypotheses=2)])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_a_packed_model_translates_bit_for_bit_as_its_run(run, tmp_path, options, precision):
    pack(run, tmp_path / "m.zip")
    both = [Translator.load(model, precision=precision) for model in (run, tmp_path / "m.zip")]
    found = [[(t.text, t.score, t.token_scores) for t in translator.translate(TEXTS, options)] for translator in both]
    assert found[0] == found[1]
    assert found[0][0][0] == "21"


def test_a_disk_too_full_for_the_weights_is_named_and_nothing_is_left(run, tmp_path):
    with no_room_for(20_000), pytest.raises(OSError, match="too large") as caught:
        pack(run, tmp_path / "model.zip")
    assert not caught.value.filename.startswith(str(run.path))
    assert Path(caught.value.filename).name == run.usable_checkpoint().name
    assert not list(tmp_path.glob("*.zip*"))


def test_state_and_corpus_stay_behind(run, tmp_path):
    (run.path / "state").mkdir()
    (run.path / "state" / "training.safetensors").write_bytes(b"state")
    (run.path / "notes.txt").write_text("mine")
    pack(run, tmp_path / "m.zip")
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        assert archive.namelist() == [
            "README.md",
            "checkpoints/index.json",
            f"checkpoints/{run.best_checkpoint().name}",
            "config.yaml",
            "packed.json",
            "statistics.json",
            "tokenizer/joint.model",
        ]


def test_no_folder_of_its_owner_is_shared(tmp_path):
    folder = tmp_path / "customer" / "corpus"
    config = without_folders(
        tiny_config(folder, training={"init_from": "/home/me/base"}, data={"store_dir": "C:\\me\\s"})
    )
    assert config.data.train == tiny_config(Path(), data={}).data.train
    assert (config.training.init_from, config.data.store_dir) == ("base", "s")


@pytest.mark.parametrize(
    "folder", ["runs/m", "my secret/runs/a model", "it's secret/a model", 'of "secret"', "-secret"]
)
def test_the_commands_of_a_card_name_the_shared_model_whatever_the_folder_was_called(run, tmp_path, folder):
    command = f"nmt translate --model {shlex.quote(folder)}"
    run.card.write_text(f'# Digits\n\n    {command} --to de "a"\n\n`{command}` translates.\n')
    write_shareable(run, tmp_path, ("digits", "my model.zip"))
    text = (tmp_path / "README.md").read_text().partition("# Digits\n")[2]
    expected = "nmt translate --model 'my model.zip'"
    assert text.startswith(f'\n    {expected} --to de "a"\n\n`{expected}` translates.\n')


def test_the_card_keeps_its_text_and_license_and_gains_languages_and_scores(run, tmp_path):
    evaluate(run, run.best_checkpoint().stem)
    config = run.config()
    corpus = config.data.train.model_copy(update={"tsv": "/home/me/customer/train.tsv"})
    run.write_config(config.model_copy(update={"data": config.data.model_copy(update={"train": corpus})}))
    run.card.write_text(
        "---\nlicense: mit\ntags: [own]\n---\n\n# Digits\n\nTrained on /home/me/customer/train.tsv.\n\n"
        '    nmt translate --model /home/me/runs/x "text"\n'
    )
    (tmp_path / "out").mkdir()
    front, text = card_of(run, tmp_path / "out")
    assert front["license"] == "mit"
    assert front["tags"] == ["own"]
    assert front["language"] == ["en"]
    metrics = front["model-index"][0]["results"][0]["metrics"]
    assert metrics == [
        {"type": "bleu", "value": 12.5, "name": "BLEU (nrefs:1|v)"},
        {"type": "chrf", "value": 99.0, "name": "chrF2 (nrefs:1|w)"},
    ]
    assert "Trained on train.tsv." in text
    assert "nmt translate --model digits.zip" in text
    assert "- BLEU 12.50 (`nrefs:1|v`)" in text
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"/home" in path.read_bytes()]


def test_hugging_face_reads_the_metadata_of_the_card(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra hub")
    evaluate(run, run.best_checkpoint().stem)
    (tmp_path / "out").mkdir()
    write_shareable(run, tmp_path / "out", ("digits", "digits.zip"))
    data = hub.ModelCard.load(tmp_path / "out" / "README.md").data
    assert data.pipeline_tag == "translation"
    assert [(each.metric_type, each.metric_value) for each in data.eval_results] == [("bleu", 12.5), ("chrf", 99.0)]


def test_scores_of_another_checkpoint_are_left_out(run, tmp_path):
    evaluate(run, "average")
    (tmp_path / "out").mkdir()
    write_shareable(run, tmp_path / "out", ("digits", "digits.zip"))
    assert "model-index" not in (tmp_path / "out" / "README.md").read_text()
    assert not (tmp_path / "out" / "eval").exists()


def test_info_describes_a_packed_model_with_its_test_scores(run, tmp_path):
    evaluate(run, run.best_checkpoint().stem)
    pack(run, tmp_path / "m.zip")
    found, expected = describe_model(str(tmp_path / "m.zip")), describe_model(str(run.path))
    assert (found.kind, found.path) == ("packed model", str(tmp_path / "m.zip"))
    assert (found.scores, found.parameters, found.vocabulary) == (
        expected.scores,
        expected.parameters,
        expected.vocabulary,
    )
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        assert "hypotheses" not in json.loads(archive.read("eval/test.json"))


def test_the_weights_that_were_named_are_packed(run, tmp_path):
    run.use_checkpoint("average")
    pack(run, tmp_path / "m.zip")
    packed = find_run(str(tmp_path / "m.zip"))
    assert packed.best_checkpoint().read_bytes() == run.checkpoint("average").read_bytes()
    assert packed.index().checkpoints == {"average": run.index().checkpoints["average"]}


def test_a_packed_model_has_the_lexicon_of_its_run(run, tmp_path):
    copy = RunDir(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)
    lexicon = TermLexicon(np.arange(3), np.ones(3, np.float32), 1)
    lexicon.save(copy.lexicon, TokenizerPair.load(copy.tokenizer))
    pack(copy, tmp_path / "m.zip")
    assert find_run(str(tmp_path / "m.zip")).lexicon.read_bytes() == copy.lexicon.read_bytes()


def test_a_packed_model_has_no_test_set_and_no_training_data(run, tmp_path):
    from nmt.apps.recipes.shortlist import make_shortlist

    pack(run, tmp_path / "m.zip")
    packed = find_run(str(tmp_path / "m.zip"))
    with pytest.raises(RunError, match="imported or packed, so it has no test set"):
        packed.read_sets("test", packed.config().data.directions[0])
    with pytest.raises(RunError, match="imported or packed, so it has no training data"):
        make_shortlist(packed, 50, 100)


def leave_as_pack(run: RunDir, out: Path) -> None:
    pack(run, out)


def leave_for_ctranslate2(run: RunDir, out: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    export_ctranslate2(run, out)


def leave_for_argos(run: RunDir, out: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    export_argos(run, out, "none")


def leave_for_the_web(run: RunDir, out: Path) -> None:
    pytest.importorskip("ziglang", reason="needs the extra web, a compiler")
    export_web(run, out)


LEAVING = {
    "a.zip": leave_as_pack, "ct2": leave_for_ctranslate2, "a.argosmodel": leave_for_argos, "page": leave_for_the_web,
}  # fmt: skip


@pytest.mark.parametrize("name", LEAVING)
def test_no_folder_of_the_owner_leaves_with_a_model(run, tmp_path, name):
    config, owner = run.config(), "secret-customer"
    corpus = config.data.train.model_copy(update={"tsv": f"/srv/{owner}/train.tsv"})
    data = config.data.model_copy(update={"train": corpus, "src_lang": "de", "tgt_lang": "en"})
    training = config.training.model_copy(update={"init_from": f"../{owner}/base"})
    run.write_config(config.model_copy(update={"data": data, "training": training}))
    run.card.write_text(
        f"# Digits\n\nTrained on /srv/{owner}/train.tsv; continued from ../{owner}/base; adapted on ~/{owner}/new.tmx, "
        f"C:\\Users\\{owner}\\b.tsv and (/mnt/{owner}/c.tsv). See https://example.org/secret/page and his/her text.\n"
    )
    LEAVING[name](run, tmp_path / name)
    left = [path for path in (tmp_path / name).rglob("*") if path.is_file()] or [tmp_path / name]
    contents = [path.read_bytes() for path in left]
    for path in left:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents += map(archive.read, archive.namelist())
    assert not [content for content in contents if owner.encode() in content]
    card = min((content for content in contents if b"Trained on" in content), key=len).decode()
    assert "Trained on train.tsv; continued from base; adapted on new.tmx, b.tsv and (c.tsv)." in card
    assert "See https://example.org/secret/page and his/her text." in card
