"""Count how many inline tags land on the right words.

    python benchmarks/tags.py RUN test2016.de

Tags are planted on German nouns and colors whose English translation is known. A tag is right if it encloses that
translation and nothing else. Sentences whose translation does not contain it once are left out.
"""

from __future__ import annotations

import re
import sys
from itertools import count
from pathlib import Path

from nmt import Translator
from nmt.apps.documents.markup import HtmlText
from nmt.apps.documents.translation import translate_blocks
from nmt.translation.chain import Chain
from nmt.translation.request import Request

NUM_SENTENCES = 200
WORDS = """
Mann man/guy, Frau woman/lady, Junge boy, Mädchen girl, Hund dog, Hunde dogs, Männer men, Frauen women/ladies,
Kind child/kid, Kinder children/kids, Leute people, Personen people, Menschen people, Person person, Baby baby,
Dame lady/woman, Arbeiter worker/workers, Spieler player/players, Teenager teenager/teenagers, Familie family,
Gruppe group, Radfahrer cyclist/biker/bicyclist, Polizist policeman/officer, Straße street/road, Gehsteig sidewalk,
Gehweg sidewalk, Gebäude building/buildings, Haus house, Stadt city/town, Park park, Strand beach, Wald woods/forest,
Wasser water, Gras grass, Schnee snow, Sand sand, Feld field, Berg mountain, Baum tree, Boden ground/floor, Luft air,
Hintergrund background, Himmel sky, Fluss river, See lake, Ozean ocean, Zaun fence, Wand wall, Küche kitchen,
Tisch table, Bank bench, Stuhl chair, Bett bed, Fenster window, Fahrrad bike/bicycle, Motorrad motorcycle, Auto car,
Boot boat, Bus bus, Pferd horse, Katze cat, Ball ball, Fußball soccer/football, Gitarre guitar, Kamera camera,
Buch book, Handy cellphone/phone, Hemd shirt, Shirt shirt/t-shirt, Jacke jacket, Mantel coat,
Kleid dress, Hose pants, Hosen pants, Hut hat, Mütze hat/cap, Brille glasses, Anzug suit,
Trikot jersey/uniform, Schürze apron, Gesicht face, Kopf head, Hand hand, Mund mouth, Nase nose, Haaren hair,
Bart beard, Essen food, Bier beer, Bühne stage, Seil rope,
rot red, blau blue, grün green, gelb yellow, weiß white, schwarz black, braun brown, grau gray/grey, rosa pink
"""
LEXICON = {german: english.split("/") for german, english in map(str.split, WORDS.split(","))}
COLOR = re.compile(r"(rot|blau|grün|gelb|weiß|schwarz|braun|grau)(e[nmrs]?)?")


def translations_of(word: str) -> list[str]:
    """Return the known translations of `word`; colors are inflected."""
    color = COLOR.fullmatch(word)
    return LEXICON.get(color[1] if color else word, [])


def plant(sentence: str) -> tuple[str, dict[int, list[str]]]:
    """Return `sentence` as HTML with a numbered tag around each known word, and the translations of these."""
    numbers, expected = count(), dict[int, list[str]]()

    def tag(match: re.Match[str]) -> str:
        if not (translations := translations_of(match[0])):
            return match[0]
        expected[number := next(numbers)] = translations
        return f'<b id="{number}">{match[0]}</b>'

    return re.sub(r"\w+", tag, sentence), expected


def main(run: str, src: str) -> None:
    """Print the share of right tags, with the alignment of the run and with attention alone."""
    sentences = Path(src).read_text(encoding="utf-8").splitlines()
    planted = [each for each in map(plant, sentences) if each[1]][:NUM_SENTENCES]
    blocks = HtmlText("".join(f"<p>{text}</p>" for text, _ in planted)).blocks
    with Translator.load(run) as translator:
        for name in ("lexicon", "attention"):
            right = total = 0
            translated = translate_blocks(Chain([translator]), blocks, Request(translator.options))
            for (_, expected), block in zip(planted, translated, strict=True):
                words = [word.lower() for word in re.findall(r"[\w-]+", block.text)]
                tagged = dict(re.findall(r'<b id="(\d+)">(.*?)</b>', block.written[0]))
                for number, translations in expected.items():
                    if sum(map(words.count, translations)) == 1:
                        total += 1
                        right += tagged.get(str(number), "").lower() in translations
            share = f"{right} of {total} tags right ({right / total:.1%})"
            sys.stdout.write(f"{name}: {share}, {len(planted)} sentences\n")
            translator.lexicon = None


if __name__ == "__main__":
    main(*sys.argv[1:])
