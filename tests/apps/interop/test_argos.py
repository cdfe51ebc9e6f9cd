"""Packages of Argos Translate: their layout, what is refused, and that Argos Translate itself translates with them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import sentencepiece

from nmt import Translator
from nmt.apps.interop import export
from nmt.apps.interop.argos import MAX_TOKENS, export_argos
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from tests.tiny import MODEL, tiny_config, write_digits

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"
TEXTS = ["12", "907", "4455", "98765"]
AS_ARGOS = SearchOptions(beam_size=4, length_penalty=0.2)
FOLDER = "translate-de_en-1_0"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDir:
    """The frozen run as one from German to English."""
    run = RunDir(Path(shutil.copytree(FROZEN, tmp_path_factory.mktemp("argos") / "run")))
    config = run.config()
    run.write_config(config.model_copy(update={"data": config.data.model_copy(update={"src_lang": "de"})}))
    run.card.write_text("---\nlicense: mit\n---\n\n# Digits\n")
    return run


@pytest.fixture(scope="module")
def package(run, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "de_en.argosmodel"
    export_argos(run, path, "none")
    return path


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_the_model_in_a_package_is_the_one_that_was_checked(run, tmp_path, monkeypatch):
    checked = []
    engine = export.CTranslate2Engine

    def load(folder, *others):
        checked.append((folder / "model.bin").read_bytes())
        return engine(folder, *others)

    monkeypatch.setattr(export, "CTranslate2Engine", load)
    export_argos(run, tmp_path / "a.argosmodel", "int8")
    with zipfile.ZipFile(tmp_path / "a.argosmodel") as archive:
        assert checked == [archive.read(f"{FOLDER}/model/model.bin")]


def test_a_package_has_the_layout_of_argos_translate(package, run):
    assert names_in(package) == [
        f"{FOLDER}/{name}"
        for name in (
            "README.md",
            "metadata.json",
            "model/config.json",
            "model/model.bin",
            "model/shared_vocabulary.json",
            "sentencepiece.model",
        )
    ]
    with zipfile.ZipFile(package) as archive:
        metadata = json.loads(archive.read(f"{FOLDER}/metadata.json"))
        assert archive.read(f"{FOLDER}/sentencepiece.model") == (run.tokenizer / "joint.model").read_bytes()
        assert "license: mit" in archive.read(f"{FOLDER}/README.md").decode()
    assert metadata == {
        "type": "translate",
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": "de",
        "from_name": "de",
        "to_code": "en",
        "to_name": "en",
        "links": [],
    }


def ctranslate2_as_argos(package: Path, folder: Path, texts: list[str]) -> list[str]:
    """Translate as argostranslate.translate.apply_packaged_translation does, sentence by sentence."""
    import ctranslate2

    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    (root,) = folder.iterdir()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(root / "sentencepiece.model"))
    found = ctranslate2.Translator(str(root / "model")).translate_batch(
        [processor.encode(text, out_type=str) for text in texts],
        replace_unknowns=True,
        beam_size=4,
        length_penalty=0.2,
    )
    return [processor.decode_pieces(each.hypotheses[0]).replace("▁", " ").replace("_", " ") for each in found]


def test_ctranslate2_finds_the_translations_of_the_run_in_it(package, run, tmp_path):
    expected = [t.text for t in Translator.load(run, precision="fp32").translate(TEXTS, AS_ARGOS)]
    assert ctranslate2_as_argos(package, tmp_path / "x", TEXTS) == expected
    assert expected[0] == "21"


def test_sources_over_the_limit_of_the_model_do_not_end_in_an_error(package, run, tmp_path):
    """Argos Translate gives CTranslate2 whatever a sentence splitter finds."""
    assert run.config().model.max_src_len < MAX_TOKENS
    assert len(ctranslate2_as_argos(package, tmp_path / "x", ["12" * MAX_TOKENS])) == 1


@pytest.mark.slow
def test_separate_tokenizers_work_with_the_one_file_that_a_package_has(tmp_path):
    from nmt.training.run import start_run

    folder = write_digits(tmp_path / "corpus", num_train=200, num_held_out=4)
    for split in ("train", "valid", "test"):
        path = folder / f"{split}.tsv"
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        lines = (f"{source}\t{' '.join(chr(97 + int(digit)) for digit in target)}\n" for source, target in rows)
        path.write_text("".join(lines))
    tokenizer, model = {"joint": False}, {**MODEL, "tied_embeddings": "target"}
    training = {"max_updates": 20, "warmup_updates": 5, "validate_every": 20, "lr": 1e-2}
    config = tiny_config(folder, data={"src_lang": "de"}, tokenizer=tokenizer, model=model, training=training)
    start_run(config, tmp_path / "run")
    export_argos(RunDir(tmp_path / "run"), tmp_path / "x.argosmodel", quantization="none")
    assert set(ctranslate2_as_argos(tmp_path / "x.argosmodel", tmp_path / "x", ["12"])[0]) <= set("abcdefghij ")
    (model_file,) = (tmp_path / "x").rglob("sentencepiece.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model_file))
    tgt = TokenizerPair.load(tmp_path / "run" / "tokenizer").tgt
    for text in ("a b c", "j", "héé ß 1"):  # letters that the source does not have; bytes
        assert processor.decode_pieces(tgt.tokens(tgt.encode(text))).replace("▁", " ").strip() == text


def test_a_model_of_several_directions_is_refused(run, tmp_path):
    other = RunDir(Path(shutil.copytree(run.path, tmp_path / "run")))
    config = other.config()
    one = config.data.train
    corpora = (one, one.model_copy(update={"tgt_lang": "fr"}))
    other.write_config(config.model_copy(update={"data": config.data.model_copy(update={"train": corpora})}))
    with pytest.raises(RunError, match="a package of Argos Translate has one direction, not de-en, de-fr"):
        export_argos(other, tmp_path / "x.argosmodel")
    assert not (tmp_path / "x.argosmodel").exists()


REAL = """
import json, sys
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
(translation,) = [t for language in translate.get_installed_languages() for t in language.translations_from
                  if t.to_lang.code != language.code]
class Whole:
    "MiniSBD would download its model: each text here is one sentence."
    def split_sentences(self, text):
        return [text]
while not hasattr(translation, "sentencizer"):
    translation = translation.underlying
translation.sentencizer = Whole()
print(json.dumps([str(translation.from_lang), *(translation.translate(text) for text in json.loads(sys.argv[2]))]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("argostranslate"), reason="needs argostranslate")
def test_argos_translate_installs_a_package_and_translates_as_the_run(package, run, tmp_path):
    home = {"HOME": str(tmp_path), "ARGOS_PACKAGES_DIR": str(tmp_path / "packages"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", REAL, str(package), json.dumps(TEXTS)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(command, capture_output=True, text=True, env={**kept, **home})
    assert done.returncode == 0, done.stderr
    expected = [t.text for t in Translator.load(run, precision="fp32").translate(TEXTS, AS_ARGOS)]
    assert json.loads(done.stdout.splitlines()[-1]) == ["de", *expected]
