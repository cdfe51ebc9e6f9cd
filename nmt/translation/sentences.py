"""Find the sentences of a text: sentencex proposes where they begin, and rules mend its proposals.

sentencex (Wikimedia, MIT) knows the punctuation and abbreviations of about 300 languages. The rules hold in many
languages; docs/explanation/text.md lists them. They were found on 32 treebanks, where they miss 140 ends of 25,747, and
sentencex alone 590 (docs/log/quality.md, 2026-11-28). Every pattern reads a bounded part of the text, so that finding
takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.base.patterns import lazy_pattern
from nmt.data.read.lines import without_surrogates

# All the marks after which sentencex may end a sentence, but for the full stop, and some others.
_END_MARKS = (
    r"!?:;…\u037e\u055c\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837-\u083e\u0964\u0965\u104a-\u104f\u1362-\u1368\u166e"
    r"\u1735\u1736\u1803-\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a-\u1b7e\u1c3b-\u1c7f\u2024\u203c\u203d\u2047-\u2049"
    r"\u2e2e-\u2e54\u3002\u17d4\ua4ff-\uabeb\ufe52-\ufe57\uff01\uff0e\uff1f\uff61\U00010a56-\U0001da88"
)
# A mark that may end a sentence: "." is none inside a number or before a small letter, ")" only behind a single letter.
_MARK = lazy_pattern(rf"[.)•{_END_MARKS}](?:(?<![.)])|(?<=\.)(?![a-z\d])|(?<=[\s(]\w\))|(?<=[\s(][ivx][ivx]\)))")
_TRAILING = ".!?…。！？।؟۔ \t\r\n\"'”’“»)）」』"  # the most usual characters after the last letter
_FULL_STOPS = "。！？｡।॥۔։።။។"  # end a sentence without white space after them, too
_DASHES = "—–-"
_WORD = re.compile(r"[^\W_]")

# What is looked at around a place where a sentence may begin. Such limits, chosen by hand, keep the time linear.
_CONTEXT = 50  # characters: the word and the marks before it, and the word after it
_OPENING_CHARACTERS = 12  # the quotation marks and brackets before it
_PARENTHESIS_CHARACTERS = 200  # the parenthesis before it
_FINAL_CHARACTERS = 16  # the abbreviation before it, up to a number and its unit
_WINDOW_CHARACTERS = 4_000  # passed to sentencex at once, because it takes quadratic time on some texts

# ---- What sentencex reads: the text with the same length, without what keeps it from finding sentences.

# White space, which it counts as one byte each, and quotation marks and brackets, within which it ends no sentence.
_HIDDEN = lazy_pattern(r"[\s“”„‟‘‚‛\"«»‹›「」『』《》（）()\[\]<>{}`]")
# The mark of a footnote: [1], [citation needed], ¹, *. More than 20 characters are a text in brackets.
_NOTE = r"\[[^\[\]]{1,20}\]|[¹²³⁰-⁹*†‡]"  # the mark of a footnote: [1], [citation needed], ¹, *
# Such a mark after a sentence, and quotation marks of two characters or before a word.
_ASIDE = lazy_pattern(
    r"[',\[¹²³⁰-⁹*†‡](?:(?<=')(?:(?<!\S')|(?=')|(?<=''))|(?<=,,)|(?<=,)(?=,)"
    r"|(?<=[.!?…。！？।”\"»\]\[¹²³⁰-⁹*†‡].)(?:(?<=\[)[^\[\]]{1,20}\]|(?<=[¹²³⁰-⁹*†‡])))"
)
# Marks after which it ends no sentence: … before a space, and ។; after several in a row, not all ("What?! I know.").
_MARKS_IN_A_ROW = lazy_pattern(r"[.!?…។](?:(?<=[.!?])[.!?]+|(?<=…)(?<!……)(?=\s)|(?<=។))")
# It ends no sentence before digits, nor before small letters of the Latin script.
_NUMBER_START = lazy_pattern(rf"[.!?…] +\d|[{_FULL_STOPS}] *[\da-z]")
_SMALL_START = lazy_pattern(r"(?<=[.!?]\s)\w")

# ---- What begins a sentence that sentencex does not propose.

# A capital letter after a full stop, which sentencex may take for that of an abbreviation; not that of an initial.
_CAPITAL = lazy_pattern(r"\.[^\w.]+(?!Chr\b|UU\b)([^\W\d_])(?!\.|G\b)")
# The mark of an item of a list on one line: "1.", "a)", "•". Three are needed of those that may be of prose (group 2):
# numbers before a small letter or a month ("1. Mai"), initials ("A. Smith"), the numbers of kings ("Otto I.").
_ITEM_MARK = lazy_pattern(
    r"\s(?=[(\d•]|\w{1,4}[.)])(?<![,;]\s)\(?("
    r"(?:\d{1,2}(?=\.?\)|\.\s+(?![a-zß-ÿа-я]|Jan|Feb|Mär|Apr|Mai|Ju[nl]|Aug|Sep|Okt|Nov|Dez))|(?:[A-Za-zА-Яа-я]|[ivx]+)(?=\))|•)"
    r"|(\d{1,2}|[A-Za-z]|[ivx]+|[IVX]+)(?=\.\s))\.?\)?\s+(?=\S)(?!\w\.\s)"
)
# That of a first item is at the start of a sentence, or after a colon.
_FIRST_ITEM = lazy_pattern(r"(?:\A\(?\d{1,2}|(?<![^:.!?\s]\s)\(?[1aiAIаА•])[.)\s]")
# A mark that follows another of the same list: neighbors here.
_ITEM_ORDER = (
    " • • 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 a b c d e f g h i j k A B C D E F G H I J K"
    " i ii iii iv v vi vii viii ix x I II III IV V VI VII VIII IX X а б в г д е ж з и к А Б В Г Д Е Ж З И К "
)
# A text up to the place that is nothing but the mark of an item: its sentence has not begun.
_ITEM = lazy_pattern(r"\W*(?:\d{1,2}|[ivx]+|[IVX]+|[^\W\d_])(?:[.)]|\.\))\s*")

# ---- What is around the place where a sentence may begin.

# Before it: the last word (group 1), the marks that end it (2), and what closes behind them (3).
_SENTENCE_END = lazy_pattern(
    rf"([^\s.{_END_MARKS}“„\"«»(\['’—–-]*)([.{_END_MARKS}]+)((?:\s?[”“\"’'»«›‹)\]」』》）]|{_NOTE})*)\s*\Z"
)
# Before it: what opens a quotation or a parenthesis, which then belongs to the sentence that begins.
_OPENING = lazy_pattern(r"(?:[“\"«»„‟‹›「『《（(\[‘‚‛¿¡`]|,,|(?<=\s)[”’']|(?<!\S)(?:[«`]|,,)\s)+\Z")
# After it: symbols, such as emoji, which belong to the sentence before.
_SYMBOLS = lazy_pattern(
    r"(?:(?:[\u2190-\u245f\u249c-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]+|[:;]-?[()DP](?!\w)|\[[\d\s,–-]+\]\s*\Z)\s*)+"
)
_ELLIPSIS = lazy_pattern(r"\.{2,}|…+")
# After a mark without a space behind it: a word, as in "Hello.How are you?", not a name, as in "ASP.NET".
_GLUED_WORD = lazy_pattern(r"[A-Z][a-z]*(?:['’][a-z]+)?(?:[\s,!?]|\Z)")
# In scripts without capitals, what closes ends no sentence if it is a parenthesis within one, or speech.
_PARENTHESIS = lazy_pattern(r"[^\s.!?…。！？]\s*[(（][^(（]*[)）]\s*\Z")  # within a sentence
_ATTRIBUTION = lazy_pattern(
    r"と|って|[라하]고|[^，。！？\s]{1,6}[说說问問喊]"
)  # 「はい」と言った; “好。”他说; "네."라고

# ---- Whether the word before a full stop is an abbreviation.

_NUMBER_ALONE = lazy_pattern(r"\d+\.\s+[A-ZÀ-ÖØ-ÞĀČĎĐĒĘĚĞĪİŁŃŇŌŐŒŘŚŞŠŤŪŮŰŹŻŽΆ-ΫЀ-Я]")
_ORDINAL = lazy_pattern(r"(?<![.:,])(?<!\.\s)(?:\d{1,2}|[IVX]+)\.")
_ORDINAL_LANGUAGES = ("de", "hu", "lb", "tr")  # where a capital letter may follow an ordinal number
# Of scripts with capitals, or a letter that is no ideograph, or a title that sentencex does not know.
_SHORT = lazy_pattern(r"[A-Za-z\u00c0-\u024f\u0370-\u052f]{1,4}|approx|\w*str|[^\W\d_\u2e80-\U0010ffff]|Profa|डॉ|श्री|पृ")
# A word with a vowel, or one of chat or computers; not a part of an abbreviation ("f.eks"), nor at the start of a
# parenthesis: "(ed. Smith)".
_LIKE_WORD = lazy_pattern(
    r"(?i)(?<![.(（])(?=[^\W\d_]{2})(?!\w*str\b)(?:(?:hm+|mhm|ps+t|[bg]r{2,}|pc|[cd]v?d|pdf|sms|wc|gps|html|xml|vpn|tv)\b"
    r"|[^\W\d_]*?"
    "[aeiouyàáâäåãæèéêëìíîïòóôöõøœùúûüýąęĩıőũűůě\u1ea0-\u1ef9ăаеиоуыэюяіїєёαεηιουωάέήίόύώ])"
)
# A word of consonants alone before a capital letter is an abbreviation: "ks. Kowalski", "dl. Pop", "др. Јовић". In some
# languages r and l between others are vowels: "vlk", "trh".
_CONSONANTS = lazy_pattern(
    r"(?<![^\s(])(?!\w[rlрл]\w|[hm]+\.|ps+t)[bcdfghjklmnpqrstvwxzçćčďđğłńñňřśšşťźżžбвгджзйклмнпрстфхцчшщґђјљњћџ]{2,4}"
    r"\.\s+[A-ZÀ-ÖØ-ÞĀČĎĐĒĘĚĞĪİŁŃŇŌŐŒŘŚŞŠŤŪŮŰŹŻŽΆ-ΫЀ-Я]"
)
# Abbreviations that look like words.
_LIKE_WORDS = frozenset((
    "abb", "abs", "afb", "alin", "approx", "av", "art", "avv", "ca", "cap", "dott", "godz", "hod", "ing", "kap", "obr",
    "pag", "pág", "para", "prof", "profa", "sig", "sra", "şek", "tab", "tys", "ul", "vol", "zob", "αριθ", "вул", "ім",
    "рис", "табл", "ул",
))  # fmt: skip
# Abbreviations that end a sentence before a capital letter: of eras, "and so on", companies, units after a number.
_FINAL = lazy_pattern(
    r"(?:\b(?:[ad]\.\s?C|J\.?-C|т\.\s?[дп]|n\.\s?[el]|[ef]\.\s?Kr|[vn]\.\s?Chr|[πμ]\.\s?[μΧ]|v\.t|p\.e\.v|etc|usw|May|Ok|T[Vv]|tv|[Jj]r|Co|U\.S\.A)"
    r"|\d(?:[°º]|-х)?\s?(?:(?:млн|млрд|тис|тыс|mln|mld)\.?\s)?(?:[^\W\d_A-ZА-Я]+|[CFKM]|Kč|Ft))\Z"
)


def count_sentences(text: str, language: str) -> int:
    """Return the number of sentences of `text`, 0 if it is blank."""
    return 1 + len(sentence_starts(text, language)) if text and not text.isspace() else 0


def sentence_starts(text: str, language: str) -> list[int]:
    """Return the start of every sentence except the first; white space belongs to the preceding sentence.

    sentencex proposes the boundaries; rules that hold in many languages drop and move the wrong ones, and add those
    after words that it takes for abbreviations. Every sentence has a letter or digit, and all but the last have a mark
    that ends them, or are items of a list. Takes linear time.
    """
    if not _MARK.search(text.rstrip(_TRAILING)):  # takes 1 to 2 µs
        return []  # most texts: a single sentence
    plain = _simplified(text)
    items = {*_items(text, language)}
    proposed = {*_proposed_starts(plain, language)}
    capitals = {match.start(1) for match in _CAPITAL.finditer(plain) if match[1].isupper()}
    is_chat = text.islower()
    starts: list[int] = []
    begin = searched = 0  # where the sentence begins; up to where a word in it was looked for
    has_word = False
    for place in sorted(items | proposed | capitals):
        if place <= begin:
            continue
        opening = _OPENING.search(text, max(begin, place - _OPENING_CHARACTERS), place)
        at = opening.start() if opening else place
        has_word = has_word or _WORD.search(text, searched, at) is not None
        searched = at
        is_near = begin >= place - _CONTEXT
        if place in items:
            at = place
        elif (is_near and _ITEM.fullmatch(text, begin, at)) or _continues(
            text, at, language, is_chat, place in proposed
        ):
            continue
        elif symbols := _SYMBOLS.match(text, at):
            at = symbols.end()  # "Thanks! :-) Bye": the emoji belongs to the preceding sentence
        if has_word and at > begin:
            starts.append(at)
            begin = searched = at
            has_word = False
    if starts and not _WORD.search(text, starts[-1]):
        starts.pop()
    return starts


def _items(text: str, language: str) -> list[int]:
    """Return the starts of the items of lists on one line: "1. Milk 2. Bread", "(a) Milk (b) Bread", "• Milk • Tea"."""
    starts: list[int] = []
    last = ""
    least = 2
    referring: list[str] = []
    for mark in _ITEM_MARK.finditer(" " + text):
        start = mark.start()
        label = mark[1]
        before = text[:start].lower().split()[-1:]
        if before and before == referring:
            continue  # "See fig. 1. Now see fig. 2." has no list
        if _FIRST_ITEM.match(text, start) or f" {last} {label} " in _ITEM_ORDER:
            referring = referring or before
            starts.append(start)
            last = label
            if mark[2] and not (label.isdigit() and language.startswith("en")):  # English ordinals have no full stop
                least = 3
    return starts if len(starts) >= least else []


def _proposed_starts(plain: str, language: str) -> Iterator[int]:
    """Yield the start of every sentence that sentencex finds in a simplified text, except the first."""
    import sentencex  # only when needed: most texts are single sentences

    begin = 0
    while begin < len(plain):
        end = begin + _WINDOW_CHARACTERS
        if end < len(plain):  # at white space, if any
            end = plain.rfind(" ", begin, end) + 1 or end
        window = plain[begin:end]
        lengths = [len(sentence) for sentence in sentencex.segment(language, window)]
        if sum(lengths) != len(window):  # sentencex lost text: treat it as one sentence
            lengths = [len(window)]
        # The last sentence of a window may continue in the next.
        for length in lengths[:-1]:
            begin += length
            yield begin
        if len(lengths) == 1 or begin + lengths[-1] == len(plain):
            begin += lengths[-1]


def _simplified(text: str) -> str:
    """Return `text`, of the same length, without what keeps sentencex from finding sentences."""
    plain = _ASIDE.sub(lambda match: " " * len(match[0]), without_surrogates(text))
    if text.islower():  # chat: any word may start a sentence
        plain = _SMALL_START.sub(lambda match: match[0].upper()[0], plain)
    # sentencex counts white space as one byte and rejects surrogates; it does not look into quotes and parentheses.
    plain = _NUMBER_START.sub(lambda match: match[0][:-1] + "_", _HIDDEN.sub(" ", plain))
    return _MARKS_IN_A_ROW.sub(lambda match: "x" * (len(match[0]) - 1) + "!", plain)


def _continues(text: str, at: int, language: str, is_chat: bool, is_proposed: bool) -> bool:
    """Return whether a sentence goes on at `at`, where sentencex ends it if `is_proposed`.

    A chat has no capital letters.
    """
    end = _SENTENCE_END.search(text, at - _CONTEXT, at)
    following = _WORD.search(text, at, at + _CONTEXT)
    if end is None or following is None:
        return end is None  # a window ends within the sentence
    word, mark, closing = end.groups()
    first = following[0]
    if closing.endswith("]") and text[at] == "(":  # ![name](link)
        return True
    if not is_proposed:
        return not _is_final(end, language)
    caseless = first.lower() == first.upper()
    is_glued = end.end(3) == at and mark[-1] not in _FULL_STOPS
    if not closing and is_glued and not caseless:  # "Hello.How are you?", but not "ASP.NET", "x.Y(z)"
        return not (word.isalpha() and word[-1].islower() and _GLUED_WORD.match(text, at))
    if first.isdigit() and (is_glued or _ELLIPSIS.fullmatch(mark)):
        return True
    if first.islower() and (closing or text[at] in _DASHES or _ELLIPSIS.fullmatch(mark)):
        return True  # “Where?” he asked
    if closing and caseless and not first.isdigit():
        return (_PARENTHESIS.search(text, at - _PARENTHESIS_CHARACTERS, at) or _ATTRIBUTION.match(text, at)) is not None
    return mark == "." and _is_abbreviation(end, first, language, is_chat)


def _is_abbreviation(end: re.Match[str], first: str, language: str, is_chat: bool) -> bool:
    """Return whether the word at the `end`, with a full stop, is an abbreviation or number that sentencex missed."""
    word = end[1]
    if language.startswith(_ORDINAL_LANGUAGES) and _ORDINAL.match(end.string, end.start()):
        return True
    is_short = _SHORT.fullmatch(word) is not None and not _is_word(end)
    if first.isdigit():  # "Vol. 2", "Bahnhofstr. 12", "M.A. 2"; a number alone is no sentence: "cap. 2. It"
        return is_short or (len(word) < 6 and _NUMBER_ALONE.match(end.string, end.end()) is not None)
    is_title = is_short and not word.islower() and not word[1:].isupper()  # "Dr", "J"
    english = language.startswith("en")  # sentencex knows its titles and initials
    if (is_title or _CONSONANTS.match(end.string, end.start())) and not english:
        return not (first.isupper() and _is_final(end, language))
    return first.islower() and ((is_short and not is_chat) or (word.isdigit() and not (is_chat and english)))


def _is_final(end: re.Match[str], language: str) -> bool:
    """Return whether the word at the `end`, with a full stop, ends a sentence before a capital letter."""
    if _FINAL.search(end.string, end.start() - _FINAL_CHARACTERS, end.end(1)):
        return True
    # The capital letter may be that of a German noun.
    return not language.startswith("de") and not end[1].istitle() and _is_word(end)


def _is_word(end: re.Match[str]) -> bool:
    """Return whether the word at the `end` looks like one, not like an abbreviation."""
    return _LIKE_WORD.match(end.string, end.start()) is not None and end[1].lower() not in _LIKE_WORDS
