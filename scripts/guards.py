"""Remove one safeguard at a time, in a copy of the source, and check that a given test fails.

    python scripts/guards.py            # prints the table of docs/reliability.md
    python scripts/guards.py --write    # and writes it there
    python scripts/guards.py corrections export.py  # only the guards with one of these in their names or files

Each guard consists of a piece of source code and its replacement. Exit code 1 if a test fails with all guards in place,
or passes without its guard. build/guards.json keeps the names of the guards whose tests have failed without them, so
the next run goes on where one was stopped, unless a file of nmt/, tests/ or scripts/ has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "guards.json"
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
        "        self.batches.seek(counters.position)\n",
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
        "        yield from zip(batch, results",
        "        yield from zip(sorted(batch), results",
        "tests/translation/test_translator.py::test_the_order_of_the_input_is_kept",
    ),
    Guard(
        "a synthetic corpus is resumed with the lines that it was begun with",
        "nmt/base/partial_file.py",
        "self._num_sources == num_checked and self._checksum() != self.sources",
        "False",
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
        '            "forms": {name: list(map(_form_of, corpora)) for name, corpora in self._sets.items()},\n',
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
        '                raise RunError("a link that points outside the run", path=path, hint=hint)\n',
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
        "nmt/training/state.py",
        "if saved.shape != tensor.shape or saved.dtype != tensor.dtype:",
        "if False:",
        f"{HOSTILE}[training state: weights of another type]",
    ),
    Guard(
        "a resumed run is checked before its later results are removed",
        "nmt/training/run.py",
        "            _refuse_changes_of_begun_stages(old, training)\n",
        "            training.tidy_up()\n            _refuse_changes_of_begun_stages(old, training)\n",
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
    Guard(
        "only a pair of the memory with the same source stands for a translation",
        "nmt/translation/through_models.py",
        "match.similarity == 1 and ",
        "",
        "tests/translation/test_memory.py::test_a_known_text_is_not_translated_and_the_others_are_as_without_a_memory",
    ),
    Guard(
        "a pair of the memory stands for a translation only with the prefix that is asked for",
        "nmt/translation/through_models.py",
        " and match.target.startswith(prefix)",
        "",
        "tests/translation/test_chain.py::test_a_known_translation_without_the_prefix_is_only_a_draft",
    ),
    Guard(
        "of pairs with one source in a memory, the last counts",
        "nmt/translation/memory.py",
        "        for source, target in pairs:\n            self.add(",
        "        for source, target in reversed([*pairs]):\n            self.add(",
        "tests/translation/test_memory.py::test_the_same_source_is_found_with_its_last_target",
    ),
    Guard(
        "a source that differs too much is no match",
        "nmt/translation/memory.py",
        ", score_cutoff=MIN_SIMILARITY",
        "",
        "tests/translation/test_memory.py::test_the_most_similar_source_is_found_and_none_that_differs_too_much",
    ),
    Guard(
        "of a memory, the pairs in the languages of the model are read",
        "nmt/translation/memory.py",
        ".model_copy(update=languages)",
        "",
        "tests/translation/test_memory.py::test_the_command_reads_the_units_with_its_languages",
    ),
    Guard(
        "a file of corrections by another program is left as it is",
        "nmt/apps/server/corrections.py",
        '        if edited or not _HEAD.startswith(head) or content.rstrip().endswith(b"</tmx>"):\n',
        "        if False:\n",
        "tests/apps/server/test_corrections.py::"
        "test_a_file_of_another_program_is_left_as_it_is_and_a_full_one_takes_no_more",
    ),
    Guard(
        "the corrections before one that was cut off are kept",
        "nmt/apps/server/corrections.py",
        "max(content.rfind(_END_OF_UNIT) + len(_END_OF_UNIT), len(_HEAD))",
        "len(_HEAD)",
        "tests/apps/server/test_corrections.py::test_a_correction_that_was_cut_off_is_removed_wherever_the_cut_was",
    ),
    Guard(
        "the corrections of a file that an editor has saved are kept",
        "nmt/apps/server/corrections.py",
        "        if edited and _OWN in content[:_MAX_HEAD]:\n",
        "        if False:\n",
        "tests/apps/server/test_corrections.py::test_a_file_that_an_editor_has_saved_keeps_its_corrections",
    ),
    Guard(
        "two servers do not write one file of corrections at once",
        "nmt/apps/server/corrections.py",
        "            if try_lock(file.fileno()):\n",
        "            if True:\n",
        "tests/apps/server/test_corrections.py::test_two_servers_may_have_one_file_and_take_turns",
    ),
    Guard(
        "a file of corrections has a largest size",
        "nmt/apps/server/corrections.py",
        "        if end + len(units) > MAX_BYTES:\n",
        "        if False:\n",
        "tests/apps/server/test_corrections.py::"
        "test_a_file_of_another_program_is_left_as_it_is_and_a_full_one_takes_no_more",
    ),
    Guard(
        "a correction that the disk does not take leaves those before it",
        "nmt/apps/server/corrections.py",
        "                _write_end(file, end, _TAIL)  # into the place where it was\n",
        "                pass\n",
        "tests/apps/server/test_corrections.py::"
        "test_a_correction_that_the_disk_does_not_take_is_refused_and_those_before_it_stay",
    ),
    Guard(
        "requests that wait to be read are answered before a stop",
        "nmt/apps/server/run.py",
        "        for _ in range(_TURNS):\n",
        "        for _ in range(0):\n",
        "tests/apps/server/test_run.py::test_requests_that_were_sent_before_the_server_stops_are_answered",
    ),
    Guard(
        "characters that XML cannot hold are left out of corrections",
        "nmt/apps/server/corrections.py",
        "_NOT_IN_XML.sub('', text)",
        "text",
        "tests/apps/server/test_corrections.py::test_corrections_are_kept_from_one_start_to_the_next",
    ),
    Guard(
        "a term has one translation",
        "nmt/data/text/glossary.py",
        "        if (known := self._targets.setdefault(source, target)) != target:\n",
        "        if (known := self._targets.setdefault(source, target)) is None:\n",
        "tests/data/text/test_glossary.py::test_a_fault_is_told_with_its_line",
    ),
    Guard(
        "no term is found in a protected span",
        "nmt/translation/texts.py",
        "sorted([*spans, *symbols])",
        "sorted(symbols)",
        "tests/translation/test_glossary.py::test_protected_spans_and_tags_are_no_terms",
    ),
    Guard(
        "no term is found inside a word",
        "nmt/data/text/glossary.py",
        "found[1] is not None and may_begin(text, start)",
        "found[1] is not None",
        "tests/data/text/test_glossary.py::test_a_term_is_found_at_the_boundaries_of_words_and_in_fitting_case",
    ),
    Guard(
        "a translation must have each term as often as its source",
        "nmt/data/text/glossary.py",
        "            found[term.target] -= 1\n",
        "            pass\n",
        "tests/data/text/test_glossary.py::test_a_term_is_missed_if_its_translation_does_not_occur_as_often",
    ),
    Guard(
        "a term that the translation lacks is said",
        "nmt/translation/translation.py",
        "missed_terms(terms, output) if terms else []",
        "[]",
        "tests/translation/test_glossary.py::test_terms_that_the_model_does_not_use_are_flagged",
    ),
    Guard(
        "an output that lacks a term is searched again",
        "nmt/translation/verdicts.py",
        "missed_terms(segment.terms, text) if segment.terms else []",
        "[]",
        "tests/translation/test_glossary.py::test_a_better_hypothesis_is_sought_where_a_term_is_missed",
    ),
    Guard(
        "a long text is split outside of its terms",
        "nmt/translation/texts.py",
        "sorted([*terms, *(span",
        "sorted([*(span",
        "tests/translation/test_glossary.py::test_a_long_text_is_split_outside_of_its_terms",
    ),
    Guard(
        "a term that the first of two models missed is said after the second",
        "nmt/translation/through_models.py",
        "union(missed_terms(into.terms_missed, out.text), missed)",
        "missed",
        "tests/translation/test_chain.py::test_a_term_that_the_first_model_misses_is_missed_unless_the_second_writes_it",
    ),
    Guard(
        "an export that translates otherwise than its run does not appear",
        "nmt/apps/interop/export.py",
        '    require_agreement(found, reduced=quantization != "none")\n',
        "",
        "tests/apps/interop/test_export.py::test_an_export_that_does_not_agree_leaves_nothing",
    ),
    Guard(
        "a difference that is no number does not agree",
        "nmt/apps/interop/agreement.py",
        "    if not found.largest_score_difference <= TOLERANCE:\n",
        "    if found.largest_score_difference > TOLERANCE:\n",
        "tests/apps/interop/test_agreement.py::test_what_is_asked_for",
    ),
    Guard(
        "an export replaces nothing but an export",
        "nmt/apps/interop/export_folder.py",
        "    if not is_kind(path):\n",
        "    if False:\n",
        "tests/apps/interop/test_export_folder.py::test_what_is_there_is_replaced_only_if_asked_and_only_an_export",
    ),
    Guard(
        "an export replaces only if it is asked to",
        "nmt/apps/interop/export_folder.py",
        "    if not overwrite:\n",
        "    if False:\n",
        "tests/apps/interop/test_export_folder.py::test_what_is_there_is_replaced_only_if_asked_and_only_an_export",
    ),
    Guard(
        "a model that CTranslate2 cannot run is not exported",
        "nmt/apps/interop/export.py",
        '    refuse_unsupported(config.model, run.config_file, "CTranslate2")\n',
        "",
        "tests/apps/interop/test_export.py::"
        "test_a_model_that_ctranslate2_cannot_run_is_refused_before_anything_is_written",
    ),
    Guard(
        "an export generates no token that its run never generates",
        "nmt/apps/interop/ctranslate2_engine.py",
        "[[self._tgt_tokens[i]] for i in self.never_generated]",
        "[]",
        "tests/apps/interop/test_ctranslate2.py::test_tokens_that_are_never_generated_are_not",
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


def checksum(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files of the package, its tests and scripts in `folder`."""
    digest = hashlib.sha256()
    files = (path for part in ("nmt", "tests", "scripts") for path in (folder / part).rglob("*") if path.is_file())
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def missed_before(source: str) -> list[str]:
    """Return the names of the guards that tests have missed in the source with that checksum."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return list(kept["missed"]) if kept.get("source") == source else []


def main(words: list[str], write: bool) -> int:
    """Try every guard, or those with one of `words` in name or file; print the table; return the exit code.

    The table is written into the page if `write`.
    """
    chosen = [guard for guard in GUARDS if not words or any(word in guard.name + guard.file for word in words)]
    with tempfile.TemporaryDirectory(prefix="guards-") as name:
        folder = Path(name)
        for part in ("nmt", "tests", "docs", "scripts", "configs"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        source = checksum(folder)
        missed = missed_before(source)
        left = [guard for guard in chosen if guard.name not in missed]
        if left and failed(folder, sorted({guard.test for guard in left})):
            raise SystemExit("a test fails with all guards in place")
        for guard in left:
            is_missed = without(folder, guard)
            sys.stderr.write(f"{guard.name}: {'missed' if is_missed else 'NOT MISSED'}\n")
            if is_missed:
                missed.append(guard.name)
                RESULTS.parent.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps({"source": source, "missed": missed}, indent=1) + "\n", encoding="utf-8")
    useless = [guard for guard in chosen if guard.name not in missed]
    good = [guard for guard in chosen if guard.name in missed]
    rows = [f"| {guard.name} | `{guard.file}` | `{guard.test.split('::')[1]}` |" for guard in good]
    table = "\n".join(["| guard removed | in | test that fails then |", "|---|---|---|", *rows])
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
    parser.add_argument("words", nargs="*", help="try only guards with one of these words in their names or files")
    given = parser.parse_args()
    if given.words and given.write:
        parser.error("--write needs all guards")
    sys.exit(main(given.words, given.write))
