"""The clients that people have, unchanged, at one running server: each gets what the translator gives."""

from __future__ import annotations

import pytest

from nmt import Translator

TEXT = "12345 & 678"


def by_deepl(url: str) -> str:
    client = pytest.importorskip("deepl", reason="needs deepl").DeepLClient("any", server_url=url)
    return str(client.translate_text(TEXT, source_lang="EN", target_lang="DE").text)


def by_libretranslatepy(url: str) -> str:
    client = pytest.importorskip("libretranslatepy", reason="needs libretranslatepy").LibreTranslateAPI(url)
    return str(client.translate(TEXT, "en", "de"))


def by_deep_translator(url: str) -> str:
    package = pytest.importorskip("deep_translator", reason="needs deep-translator")
    client = package.LibreTranslator(source="en", target="de", custom_url=f"{url}/", api_key="any")
    return str(client.translate(TEXT))


def by_openai(url: str) -> str:
    with pytest.importorskip("openai", reason="needs openai").OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        said = [{"role": "user", "content": TEXT}]
        return str(client.chat.completions.create(model="en-de", messages=said).choices[0].message.content)


def by_langchain(url: str) -> str:
    package = pytest.importorskip("langchain_openai", reason="needs langchain-openai")
    return str(package.ChatOpenAI(base_url=f"{url}/v1", api_key="any", model="en-de").invoke(TEXT).content)


def by_litellm(url: str) -> str:
    package = pytest.importorskip("litellm", reason="needs litellm")
    said = [{"role": "user", "content": TEXT}]
    answer = package.completion(model="openai/en-de", api_base=f"{url}/v1", api_key="any", messages=said)
    return str(answer.choices[0].message.content)


CLIENTS = [by_deepl, by_libretranslatepy, by_deep_translator, by_openai, by_langchain, by_litellm]


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_client_gets_what_the_translator_gives(running, two_run, ask):
    with Translator.load(two_run, device="cpu", precision="fp32") as translator:
        (expected,) = translator.translate([TEXT], to="de")
    assert ask(running.url) == expected.text
