"""The bodies of requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    Required,  # pydantic needs this one before Python 3.12
)

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from nmt.apps.server.settings import MAX_ALTERNATIVES, MAX_CODE, MAX_TERMS

Code = Annotated[str, Field(min_length=1, max_length=MAX_CODE)]
Terms = Sequence[tuple[str, str]]
Flags = Annotated[
    dict[str, bool | list[str]], Field(description="what looks wrong: true, or what is missing; absent if nothing does")
]

Pair = Annotated[
    dict[str, str | float], Field(description="the most similar pair of the memory: source, target, similarity")
]


class Fields(BaseModel):
    """The fields of all bodies; others than those of a body are ignored."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    api_key: str = Field(default="", validation_alias=AliasChoices("api_key", "auth_key"))
    """Key, if the server asks for one."""


class TranslateBody(Fields):
    """The body of /translate."""

    q: str | list[str] = Field(min_length=1)
    """Text, or texts, to translate."""
    source: Code
    """Source language, or auto."""
    target: Code
    """Target language."""
    format: Literal["text", "html"] = "text"
    """Of HTML, the text between tags is translated, and the tags are kept."""
    alternatives: int = Field(default=0, ge=0, le=MAX_ALTERNATIVES)
    """Other translations of each text."""
    model: str = ""
    """Name of a model; default: the first one for the languages."""
    stream: bool = False
    """Respond with one line of JSON per sentence, as soon as it is translated."""
    glossary: dict[str, str] = Field(default_factory=dict, max_length=MAX_TERMS)
    """Terms, each with its translation."""
    details: bool = False
    """In a stream: words, their alignment, and the model's confidence in each."""
    flags: bool = False
    """Check the translation: the field flags of the answer says what looks wrong."""


class SuggestBody(Fields):
    """The body of /suggest."""

    q: str = Field(min_length=1)
    """Text."""
    s: str = Field(min_length=1)
    """Its correct translation."""
    source: Code
    target: Code


class DetectBody(Fields):
    """The body of /detect."""

    q: str = Field(min_length=1)
    """Text."""


class FileBody(Fields):
    """The form of /translate_file."""

    file: bytes
    """Document."""
    filename: str
    """Its name, with which a form sends it; the ending tells its format."""
    source: Code
    """Source language, or auto."""
    target: Code
    """Target language."""
    glossary: str = ""
    """Terms: one per line, a tab, its translation; as text or as a file."""
    lines: Literal["keep", "join"] | None = None
    """Lines of plain text: keep (each is a text) or join (to paragraphs); by default, as they look."""


class DocumentBody(FileBody):
    """The form of /translate_document."""

    review: Literal["xlsx", "html", "tmx", "xlf"] | None = None
    """Format of a list of the translations for a person to review; by default, none is written."""
    reviewed: bytes = b""
    """A list that a person has corrected, to take the translations from; then `review` has no effect."""
    reviewedname: str = ""
    """Its name, with which a form sends it; the ending tells its format: .xlsx, .tmx or .xlf."""


class ContentPart(BaseModel):
    """A part of a message; only text is accepted."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A chat message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class OpenAIBody(Fields):
    """The fields of all requests for a translation in OpenAI's API."""

    model: str = Field(max_length=300)
    """A model or a direction of /v1/models."""
    stream: bool | None = None
    """Send the translation as events, of a chat sentence by sentence."""


class ChatBody(OpenAIBody):
    """The body of /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    """The last user message is translated."""
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1)
    """Translations, best first."""
    stream_options: dict[str, Any] | None = None
    """With include_usage, a last event has the numbers of tokens."""
    flags: bool | None = None
    """Check the translation; not a field of OpenAI's own."""


class PromptBody(OpenAIBody):
    """The body of /v1/completions."""

    prompt: str | list[str] = Field(min_length=1)
    """Text, or texts, to translate."""
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1)
    """Translations of each, best first."""


class ResponseBody(OpenAIBody):
    """The body of /v1/responses."""

    input: str | list[Message]
    """Text, or a chat, whose last user message is translated."""


class DeepLOptions(Fields):
    """The fields of both texts and documents in DeepL's API."""

    target_lang: Code
    source_lang: Code | None = None
    """Default: detected."""
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] | None = None
    glossary_id: str = ""
    """A glossary of /v2/glossaries; needs source_lang."""
    glossary_ids: Literal[""] = ""
    """Only one glossary is supported."""
    style_id: Literal[""] = ""
    """Style rules are not supported."""
    translation_memory_id: Literal[""] = ""
    """The server has its own."""
    custom_instructions: Literal[""] = ""
    """Not supported."""


class DeepLBody(DeepLOptions):
    """The body of /v2/translate."""

    text: str | list[str] = Field(min_length=1)
    """Text, or texts, to translate."""
    tag_handling: Literal["xml", "html"] | None = None
    """Keep the tags of texts that have some."""
    ignore_tags: str | list[str] = ""
    """XML elements that are not translated."""
    splitting_tags: str | list[str] = ""
    """XML elements that end sentences."""
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] | None = None
    """Has no effect."""
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = None
    """Has no effect; the answer names it."""
    flags: bool = False
    """Check the translation; not a field of DeepL's own."""


class DeepLFile(DeepLOptions):
    """The form of /v2/document."""

    file: bytes
    """Document."""
    filename: str
    """Its name, with which a form sends it, or a field of its own; the ending tells its format."""
    output_format: Literal[""] = ""
    """A document keeps its format."""


class DeepLKey(Fields):
    """The body of /v2/document/{document_id} and its result."""

    document_key: str


class DeepLTerms(Fields):
    """The terms of a glossary in one direction; the body of /v3/glossaries/{id}/dictionaries."""

    source_lang: Code
    target_lang: Code
    entries: str
    """One term per line, and its translation."""
    entries_format: Literal["tsv", "csv"] = "tsv"


class DeepLGlossary(DeepLTerms):
    """The body of /v2/glossaries, with one direction."""

    name: str = Field(min_length=1, max_length=1000)


class DeepLChange(Fields):
    """A change of /v3/glossaries/{id}; what is empty stays as it is."""

    name: str = Field(default="", max_length=1000)
    dictionaries: list[DeepLTerms] = Field(default_factory=list)
    """Terms to add; those of the same source replace older ones."""


class DeepLGlossaries(DeepLChange):
    """The body of /v3/glossaries, with any number of directions."""

    name: str = Field(min_length=1, max_length=1000)


class DeepLLanguages(Fields):
    """The fields of /v2/languages."""

    type: Literal["source", "target"] = "source"


class Detection(TypedDict):
    """A language that a text may be in."""

    confidence: Annotated[float, Field(ge=0, le=100)]
    language: Code


class Translated(TypedDict, total=False):
    """The answer of /translate: lists if `q` is a list."""

    translatedText: Required[str | list[str]]
    alternatives: list[str] | list[list[str]]
    terms_missed: Terms | Sequence[Terms]
    flags: Flags | list[Flags]
    expected_chrf: Annotated[
        float | list[float | None] | None, Field(description="chrF that the model expects, 0 to 100; absent if unknown")
    ]
    memory: Pair | list[Pair | None] | None
    detectedLanguage: Detection | list[Detection]


class TranslatedFile(TypedDict, total=False):
    """The answer of /translate_file."""

    translatedFileUrl: Required[str]
    terms_missed: Terms
    flags: Flags
    detectedLanguage: Detection


class TranslatedDocument(TranslatedFile, total=False):
    """The answer of /translate_document."""

    reviewUrl: Annotated[str, Field(description="the list of the translations; absent if nothing was translated")]


class Language(TypedDict):
    """A language of /languages."""

    code: Code
    name: str
    targets: list[Code]
