"""`nmt --help` must answer at once: what is slow to import waits until it is needed."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.apps.cli import COMMANDS
from nmt.artifacts.rundir import RunDir

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "matplotlib", "sacrebleu", "sentencepiece")


def test_the_command_line_starts_without_what_is_slow_to_import():
    check = f"import nmt.apps.cli, sys; sys.exit(' '.join(name for name in {HEAVY} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


RUN_EACH = """
import os, sys
from nmt.apps.cli import app
for arguments, words in (["--help"], ""), ([], "nmt tr"), (["train", "--help"], ""):
    if words:
        os.environ |= {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    try:
        app(arguments, prog_name="nmt")
    except SystemExit:
        pass
    os.environ.pop("_NMT_COMPLETE", None)
    names = sorted(name for name in sys.modules if name.startswith("nmt.apps.commands."))
    print("imported:", *(name.rpartition(".")[2] for name in names))
"""


def test_help_and_completion_import_no_command_and_a_command_only_its_own():
    done = subprocess.run([sys.executable, "-c", RUN_EACH], capture_output=True, text=True, check=True)
    assert "\nimported: streams\ntrain\ntranslate\nimported: streams\n" in done.stdout
    assert done.stdout.endswith("\nimported: corpus_options options streams train\n")


def test_the_table_of_commands_has_every_module_of_a_command_and_its_help():
    for name, (module, text) in COMMANDS.items():
        found = importlib.import_module(f"nmt.apps.commands.{module}")
        is_group = hasattr(found, "app")
        function = getattr(found, "evaluate" if name == "eval" else name, None)
        help_text = found.app.info.help if is_group else function.__doc__
        assert help_text.strip().partition("\n")[0] == text, name


TRANSLATE = """
import sys
from pathlib import Path
import nmt
from nmt.apps.cli import app
from nmt.translation.translator import Translator
app(["translate", "--model", sys.argv[1], "123"], prog_name="nmt", standalone_mode=False)
nmt.translate("123", sys.argv[1])
Translator.load(Path(sys.argv[1]))
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def imported(digits_run) -> set[str]:
    """What is imported by a command, a function and a class that translate a text with a model of common languages."""
    done = subprocess.run([sys.executable, "-c", TRANSLATE, str(digits_run)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    translation, modules = done.stdout.splitlines()
    assert translation == "321"
    return {*modules.split()}


def test_a_model_is_loaded_without_torchs_compiler(imported):
    """Which torch imports, in two seconds, wherever values are computed on the meta device."""
    assert "torch._dynamo" not in imported


def test_a_model_of_common_languages_translates_without_the_package_of_all_others(imported):
    assert not {"langcodes", "language_data", "openai"} & imported


def test_a_plain_text_is_translated_without_the_readers_of_documents_and_corpora(imported):
    names = {"nmt.apps.documents.blocks", "nmt.apps.documents.review", "nmt.data.read.pairs", "torch", "xml.etree"}
    assert not names & imported


def test_a_text_is_translated_without_reading_the_configuration_of_its_training(imported):
    assert not {"yaml", "nmt.config.load", "nmt.config.sections", "nmt.config.training"} & imported


UNTIL_NUMPY = """
import gc, sys
avoided, sys.argv[1:] = sys.argv[1].split(), sys.argv[2:]
found = []

def look(event, details):
    if event == "import" and details[0] == "numpy":  # after the search
        sys.exit(" ".join([*found, *{*avoided} & {*sys.modules}]) or 0)

def note(phase, _):
    if phase == "start" and gc.get_threshold()[0] > 2000:  # that of nmt
        found.append("garbage was collected")

sys.addaudithook(look)
gc.callbacks.append(note)
from nmt.__main__ import main
main()
"""


def test_a_test_set_is_scored_without_what_reads_tables_packs_and_configurations(digits_run, tmp_path):
    run = RunDir(shutil.copytree(digits_run, tmp_path / "run"))
    run.write_config(run.config())
    (tmp_path / "a.src").write_text("123\n")
    avoided = "yaml sacrebleu nmt.artifacts.hub nmt.artifacts.packed nmt.config.corpora nmt.config.load"
    files = ["--src", str(tmp_path / "a.src"), "--ref", str(tmp_path / "a.src")]
    arguments = [avoided, "eval", "--model", str(run.path), *files]
    done = subprocess.run([sys.executable, "-c", UNTIL_NUMPY, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_of_pairs_is_checked_without_runs_and_configurations(tmp_path):
    (tmp_path / "a.tsv").write_text("ein Haus\ta house\n")
    command = ["data", "check", "--corpus", str(tmp_path / "a.tsv"), "--src-lang", "de", "--tgt-lang", "en"]
    run = f"from nmt.apps.cli import app; app({command}, prog_name='nmt', standalone_mode=False)"
    names = ["yaml", "nmt.config.load", "nmt.artifacts.rundir", "torch"]
    check = f"import sys; {run}; sys.exit(' '.join({{*{names}}} & {{*sys.modules}}) or 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


POSIX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios")
IMPORT_ALL = f"""
import importlib, pkgutil, sys
import matplotlib.figure, numpy, portalocker, sacrebleu, safetensors.torch, torch.distributed, torch.optim, typer
try:
    import ctranslate2
except ImportError:
    pass
for name in {POSIX_ONLY}:
    sys.modules[name] = None
import nmt
for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
    needs_triton = module.name.startswith("nmt.model.kernels.gpu.")
    if module.name != "nmt.__main__" and not needs_triton:
        importlib.import_module(module.name)
"""


@pytest.mark.slow
def test_every_module_can_be_imported_without_what_windows_lacks():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("text", ["/proc/self/fd", "os.kill(pid, 0)", "import fcntl", "os.waitid"])
def test_nothing_is_asked_of_a_system_that_macos_or_windows_lacks(text):
    """But in a test or in a branch of its own."""
    assert [str(path) for path in (ROOT / "nmt").rglob("*.py") if text in path.read_text(encoding="utf-8")] == []
