"""Remove one safeguard at a time, in a copy of the source, and check that a given test fails.

    python scripts/guards.py            # prints the table of docs/reliability.md
    python scripts/guards.py --write    # and writes it there

Each guard consists of a piece of source code and its replacement. Exit code 1 if a test fails with all guards in place,
or passes without its guard.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- guards: made by scripts/guards.py -->\n\n", "\n\n<!-- end of guards -->"


class Guard(NamedTuple):
    """A guard, its file and source code, the replacement without it, and the test that must then fail."""

    name: str
    file: str
    source: str
    without: str
    test: str


RESUMED = "tests/training/test_resume.py::test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit[fp32]"
HOSTILE = "tests/reliability/test_hostile_folders.py::test_a_hostile_folder_ends_in_one_message"
GUARDS = [
    Guard(
        "a file is flushed before it is renamed",
        "nmt/base/files.py",
        "        flush(partial)\n",
        "",
        "tests/base/test_files.py::test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_after",
    ),
    Guard(
        "its folder is flushed after that",
        "nmt/base/files.py",
        "    flush(path.parent)\n",
        "",
        "tests/base/test_files.py::test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_after",
    ),
    Guard(
        "a file is written under a temporary name",
        "nmt/base/files.py",
        "        partial = folder / path.name\n",
        "        partial = path\n",
        "tests/base/test_files.py::test_a_fault_while_writing_leaves_the_old_file_and_nothing_else",
    ),
    Guard(
        "the checksum of weights and state is compared",
        "nmt/base/checksum.py",
        "_digest(file, offset) == digest",
        "True",
        "tests/base/test_checksum.py::test_a_flipped_bit_anywhere_is_found",
    ),
    Guard(
        "the state before the last is kept",
        "nmt/training/parts.py",
        ", previous=self.run.previous_state",
        "",
        "tests/training/test_resume.py::test_a_damaged_state_is_named_and_the_one_before_it_is_used",
    ),
    Guard(
        "weights that the state before lists are kept",
        "nmt/training/checkpoints.py",
        " and path.stem not in self.listed_before",
        "",
        "tests/training/test_checkpoints.py::test_only_the_newest_and_the_best_checkpoints_are_kept",
    ),
    Guard(
        "the place in the data is restored",
        "nmt/training/parts.py",
        "        self.batches.sampler.seek(counters.position)\n",
        "",
        RESUMED,
    ),
    Guard(
        "the random state is restored",
        "nmt/training/state.py",
        '    torch.set_rng_state(states["cpu"])\n',
        "",
        RESUMED,
    ),
    Guard(
        "what was logged after the state is dropped",
        "nmt/training/parts.py",
        "            self.monitor.forget_after(self.update)\n",
        "",
        "tests/training/test_resume.py::test_a_damaged_state_is_named_and_the_one_before_it_is_used",
    ),
    Guard(
        "a run in training is locked",
        "nmt/artifacts/rundir.py",
        "            if not is_free:\n",
        "            if False:\n",
        "tests/training/test_run.py::test_two_processes_do_not_train_one_run",
    ),
    Guard(
        "an update that is not finite is skipped",
        "nmt/training/update/adamw.py",
        "found_inf=(~is_finite).float() if self.fused else None",
        "found_inf=None",
        "tests/training/test_monitor.py::test_an_update_that_is_not_finite_is_skipped_and_counted[fp32]",
    ),
    Guard(
        "translations come in the order of their sources",
        "nmt/translation/segments.py",
        "        for i, hypotheses in zip(batch, ",
        "        for i, hypotheses in zip(sorted(batch), ",
        "tests/translation/test_translator.py::test_the_order_of_the_input_is_kept",
    ),
    Guard(
        "a synthetic corpus is resumed with the lines that it was begun with",
        "nmt/apps/recipes/synthesis.py",
        "            if line != candidates.text:\n",
        "            if False:\n",
        "tests/apps/commands/test_synthesize.py::test_an_output_is_not_resumed_with_other_options_input_or_weights",
    ),
    Guard(
        "no token that holds a line end is generated",
        "nmt/data/tokens/tokenizer.py",
        "{UNK_ID, *without_text, *line_ends, *line_end_bytes}",
        "{UNK_ID, *without_text}",
        "tests/data/tokens/test_tokenizer.py::test_specials_line_ends_and_nul_are_never_generated",
    ),
    Guard(
        "a row with a tab too many is refused",
        "nmt/data/read/formats/tables.py",
        "            elif len(cells) > max(width, needed):\n",
        "            elif False:\n",
        "tests/data/read/test_pairs.py::test_a_row_with_more_columns_than_the_first_is_named",
    ),
    Guard(
        "rows that a spreadsheet could not compute are left out",
        "nmt/data/read/formats/tables.py",
        "            if fault:\n",
        "            if False:\n",
        "tests/data/read/formats/test_tables.py::test_rows_with_faulty_cells_are_left_out_counted_and_said",
    ),
    Guard(
        "a store is of one choice of corpora and keys",
        "nmt/training/corpus/corpus.py",
        "            **self._forms(),\n",
        "",
        "tests/training/corpus/test_prepare.py::test_the_fingerprint_covers_every_file_and_key_of_every_corpus",
    ),
    Guard(
        "a checkpoint's name does not lead out of the run",
        "nmt/artifacts/rundir.py",
        "        if not isinstance(name, str) or not _NAME.fullmatch(name):\n",
        "        if False:\n",
        "tests/artifacts/test_rundir.py::test_a_pointer_out_of_the_run_is_not_followed[../../etc/passwd]",
    ),
    Guard(
        "links out of the run are refused",
        "nmt/base/files.py",
        '                raise RunError(f"a link that points outside the {kind}", path=path, hint=hint)\n',
        "                pass\n",
        f"{HOSTILE}[the tokenizer is a link out of the run]",
    ),
    Guard(
        "the model's size is compared with the file before it is allocated",
        "nmt/artifacts/checkpoint.py",
        "    check_size(config, tokenizers, path)\n",
        "",
        f"{HOSTILE}[config.yaml: d_model 16384, torch]",
    ),
    Guard(
        "no more is read of a file than it may have",
        "nmt/base/files.py",
        "while len(content) <= limit and (block := file.read(min(_BLOCK_BYTES, limit + 1 - len(content)))):",
        "while block := file.read(_BLOCK_BYTES):",
        f"{HOSTILE}[run.json of 10 GB]",
    ),
    Guard(
        "shapes and types in the training state are checked",
        "nmt/training/parts.py",
        "        state.check_fits(self.optimizer)\n",
        "",
        f"{HOSTILE}[training state: weights of another type]",
    ),
    Guard(
        "a resumed run is checked before its later results are removed",
        "nmt/training/run.py",
        "            _refuse_changes_of_the_past(old, training)\n",
        "            training.tidy_up()\n            _refuse_changes_of_the_past(old, training)\n",
        "tests/training/test_resume.py::test_a_refused_resume_of_a_finished_run_keeps_its_final_weights_and_scores",
    ),
    Guard(
        "an output does not replace an input",
        "nmt/artifacts/replacing.py",
        "        if _identity(real) in read:\n",
        "        if False:\n",
        "tests/apps/commands/test_translate_text.py::test_an_output_never_replaces_its_input",
    ),
    Guard(
        "a translation is resumed only after its own source lines",
        "nmt/base/partial_file.py",
        "self._checksum() != self.sources",
        "False",
        "tests/apps/commands/test_translate_text.py::test_an_output_is_not_continued_with_weights_that_were_trained_anew",
    ),
]


def failed(folder: Path, tests: list[str]) -> bool:
    """Return whether any of `tests`, run on the source in `folder`, fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: tests failed; more: pytest itself did
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def without(folder: Path, guard: Guard) -> bool:
    """Return whether the guard's test fails without the guard."""
    path = folder / guard.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(guard.source) != 1:
        raise SystemExit(f"{guard.file} holds {whole.count(guard.source)} times, not once:\n{guard.source}")
    path.write_text(whole.replace(guard.source, guard.without), encoding="utf-8")
    try:
        return failed(folder, [guard.test])
    finally:
        path.write_text(whole, encoding="utf-8")


def main(write: bool) -> int:
    """Try every guard, print the table, write it into the page if `write`, and return the exit code."""
    rows = ["| guard removed | in | test that fails then |", "|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="guards-") as name:
        folder = Path(name)
        for part in ("nmt", "tests", "docs", "scripts", "configs"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if failed(folder, sorted({guard.test for guard in GUARDS})):
            raise SystemExit("a test fails with all guards in place")
        useless = []
        for guard in GUARDS:
            if without(folder, guard):
                rows.append(f"| {guard.name} | `{guard.file}` | `{guard.test.split('::')[1]}` |")
            else:
                useless.append(guard)
    table = "\n".join(rows)
    sys.stdout.write(table + "\n")
    for guard in useless:
        sys.stdout.write(f"NOT MISSED: {guard.name}: {guard.test} passes without it\n")
    if write:
        page = ROOT / "docs" / "reliability.md"
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        page.write_text(before + BEGIN + table + END + rest.split(END)[1], encoding="utf-8")
    return 1 if useless else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Remove one safeguard at a time and check that a given test fails.")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reliability.md")
    sys.exit(main(parser.parse_args().write))
