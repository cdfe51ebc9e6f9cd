"""The bodies of requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    Required,  # pydantic needs this one before Python 3.12
)

from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict

from nmt.apps.server.settings import MAX_ALTERNATIVES, MAX_CODE, MAX_TERMS

Code = Annotated[str, Field(min_length=1, max_length=MAX_CODE, description="language code")]
Terms = Sequence[tuple[str, str]]
Flags = Annotated[
    dict[str, bool | list[str]], Field(description="what looks wrong: true, or what is missing; absent if nothing does")
]

Pair = Annotated[
    dict[str, str | float], Field(description="the most similar pair of the memory: source, target, similarity")
]


class Fields(BaseModel):
    """The fields of all bodies; others than those of a body are ignored."""

    api_key: str = Field(
        default="",
        validation_alias=AliasChoices("api_key", "auth_key"),  # DeepL's name for it
        description="key, if the server asks for one",
    )


class TranslateBody(Fields):
    """The body of /translate."""

    q: str | list[str] = Field(description="text, or texts, to translate", min_length=1)
    source: Code = Field(description="source language, or auto")
    target: Code = Field(description="target language")
    format: Literal["text", "html"] = Field(
        default="text", description="html: translate the text between tags, keep the tags"
    )
    alternatives: int = Field(default=0, ge=0, le=MAX_ALTERNATIVES, description="other translations of each text")
    model: str = Field(default="", description="name of a model; default: the first one for the languages")
    stream: bool = Field(
        default=False, description="respond with one line of JSON per sentence, as soon as it is translated"
    )
    glossary: dict[str, str] = Field(
        default_factory=dict, max_length=MAX_TERMS, description="terms, each with its translation"
    )
    details: bool = Field(
        default=False, description="in a stream: words, their alignment, and the model's confidence in each"
    )
    draft: str = Field(
        default="", description="a translation to expect, if q is one text; saves time and changes no answer"
    )
    flags: bool = Field(
        default=False, description="check the translation: the field flags of the answer says what looks wrong"
    )


class SuggestBody(Fields):
    """The body of /suggest."""

    q: str = Field(description="text", min_length=1)
    s: str = Field(min_length=1, description="its correct translation")
    source: Code
    target: Code


class DetectBody(Fields):
    """The body of /detect."""

    q: str = Field(description="text", min_length=1)


class FileBody(Fields):
    """The form of /translate_file."""

    file: bytes = Field(description="document")
    filename: str = Field(description="its name, with which a form sends it; the ending tells its format")
    source: Code = Field(description="source language, or auto")
    target: Code = Field(description="target language")
    glossary: str = Field(default="", description="terms: one per line, a tab, its translation; as text or as a file")


class ContentPart(BaseModel):
    """A part of a message; only text is accepted."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A chat message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class ChatBody(Fields):
    """The body of /v1/chat/completions."""

    model: str = Field(description="a model or a direction of /v1/models", max_length=300)
    messages: list[Message] = Field(description="the last user message is translated", min_length=1)
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1, description="translations, best first")
    stream: bool | None = Field(default=None, description="send the translation sentence by sentence")
    stream_options: dict[str, Any] | None = Field(
        default=None, description="include_usage: a last event with the numbers of tokens"
    )
    flags: bool | None = Field(default=None, description="check the translation; not a field of OpenAI's own")


class PromptBody(Fields):
    """The body of /v1/completions."""

    model: str = Field(max_length=300)
    prompt: str | list[str] = Field(description="text, or texts, to translate", min_length=1)
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1, description="translations of each, best first")
    stream: bool | None = None


class ResponseBody(Fields):
    """The body of /v1/responses."""

    model: str = Field(max_length=300)
    input: str | list[Message] = Field(description="text, or a chat, whose last user message is translated")
    stream: bool | None = None


class DeepLOptions(Fields):
    """The fields of both texts and documents in DeepL's API."""

    target_lang: Code
    source_lang: Code | None = Field(default=None, description="default: detected")
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] | None = None
    glossary_id: str | None = Field(
        default=None, max_length=100, description="a glossary of /v2/glossaries; needs source_lang"
    )


class DeepLBody(DeepLOptions):
    """The body of /v2/translate."""

    text: str | list[str] = Field(description="text, or texts, to translate", min_length=1)
    tag_handling: Literal["xml", "html"] | None = Field(
        default=None, description="keep the tags of texts that have some"
    )
    ignore_tags: str | list[str] = Field(default="", description="XML elements that are not translated")
    splitting_tags: str | list[str] = Field(default="", description="XML elements that end sentences")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] | None = Field(default=None, description="has no effect")
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = Field(
        default=None, description="has no effect; the answer names it"
    )
    flags: bool = Field(default=False, description="check the translation; not a field of DeepL's own")


class DeepLFile(DeepLOptions):
    """The form of /v2/document."""

    file: bytes = Field(description="document")
    filename: str = Field(description="its name, with which a form sends it; the ending tells its format")


class DeepLKey(Fields):
    """The body of /v2/document/{document_id} and its result."""

    document_key: str


class DeepLGlossary(Fields):
    """The body of /v2/glossaries."""

    name: str = Field(min_length=1, max_length=1000)
    source_lang: Code
    target_lang: Code
    entries: str = Field(description="one term per line, and its translation")
    entries_format: Literal["tsv", "csv"] = "tsv"


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


class Language(TypedDict):
    """A language of /languages."""

    code: Code
    name: str
    targets: list[Code]
