"""Translate with a glossary of 100 terms that the model was not trained to obey, and with a plain beam of that size.

    python benchmarks/terms.py RUN test2016.de test2016.en

Prints, for each, the share of the terms that are in the translations, BLEU, and the median time of three rounds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

from sacrebleu import corpus_bleu
from tags import LEXICON

from nmt import Translator
from nmt.data.text.glossary import missed_terms
from nmt.translation import Glossary

ROUNDS = 3
COLORS = {"roten": "red", "blauen": "blue", "grünen": "green", "gelben": "yellow", "weißen": "white"}
COLORS |= {"schwarzen": "black", "braunen": "brown", "grauen": "gray", "rosa": "pink"}


def main(run: str, src: str, ref: str) -> None:
    """Translate in turns, and print a line for each way."""
    sources, references = (Path(name).read_text(encoding="utf-8").splitlines() for name in (src, ref))
    nouns = {german: english[0] for german, english in LEXICON.items() if german[0].isupper()}
    glossary = Glossary({**nouns, **COLORS})
    terms = [[match.term for match in glossary.find(source)] for source in sources]
    total = sum(map(len, terms))
    with Translator.load(run) as translator:
        options = translator.options.changed(beam_size=5)
        translator.translate(sources[:20], options, glossary=glossary)
        times: dict[str, list[float]] = {"plain": [], "terms": []}
        for _ in range(ROUNDS):
            for name, seconds in times.items():
                start = time.perf_counter()
                found = translator.translate(sources, options, glossary=glossary if name == "terms" else None)
                seconds.append(time.perf_counter() - start)
                texts = [each.text for each in found]
                missed = sum(len(missed_terms(*pair)) for pair in zip(terms, texts, strict=True))
                if len(seconds) == ROUNDS:
                    bleu = corpus_bleu(texts, [references]).score
                    share = f"{total - missed} of {total} terms ({1 - missed / total:.1%})"
                    sys.stdout.write(f"{name}: {share}, {bleu:.2f} BLEU, {median(seconds):.2f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
