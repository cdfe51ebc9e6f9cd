"""Join the sentences of a run's test set by twos and threes, and measure how much of them is translated.

    python scripts/joined_sentences.py runs/multi30k-de-en runs/tatoeba-en-zh

Each text is translated with --split long (whole) and --split auto. A text is kept if its translation has as many
sentences as the source, as nmt counts them. BLEU is sacreBLEU's, greedy, in the run's own precision. MODEL=RUN takes
the test set of RUN for a model without one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nmt.artifacts.rundir import RunDir
from nmt.base.languages import spaces_between_sentences
from nmt.evaluation import score
from nmt.translation import Translator
from nmt.translation.split import count_sentences


def joined(texts: Sequence[str], size: int, language: str) -> list[str]:
    """Return `texts` joined in groups of `size`, without a shorter group at the end."""
    space = " " if spaces_between_sentences(language) else ""
    stripped = [text.strip() for text in texts]
    return [space.join(stripped[start : start + size]) for start in range(0, len(texts) - size + 1, size)]


def measure(path: Path, test: Path) -> None:
    """Print one row per number of sentences and way of splitting for the run at `path`, on the test set of `test`."""
    run = RunDir(path)
    statistics = run.statistics()
    known = "unknown" if statistics is None else str(statistics.max_sentences)
    with Translator.load(run, scores=False) as translator:
        src, tgt = translator.languages.src, translator.languages.tgt
        pairs = [
            pair for pair in zip(*RunDir(test).read_pairs("test"), strict=True) if count_sentences(pair[0], src) == 1
        ]
        for size in (1, 2, 3):
            sources, references = (
                joined([pair[side] for pair in pairs], size, language) for side, language in enumerate((src, tgt))
            )
            for split in ("long", "auto"):
                outputs = [t.text for t in translator.translate(sources, translator.options.changed(split=split))]
                kept = sum(count_sentences(output, tgt) >= size for output in outputs)
                bleu = score(outputs, references, tgt, ["bleu"])[0].value
                sys.stdout.write(
                    f"| {path.name} | {known} | {size} | {split} | {kept} of {len(outputs)} | {bleu:.2f} |\n"
                )
                sys.stdout.flush()


def main() -> None:
    """Measure the runs named on the command line."""
    sys.stdout.write("| run | sentences known | joined | split | kept | BLEU |\n|---|---|---|---|---|---|\n")
    for name in sys.argv[1:]:
        model, _, test = name.partition("=")
        measure(Path(model), Path(test or model))


if __name__ == "__main__":
    main()
