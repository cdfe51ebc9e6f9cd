"""LiteLLM's calls of a server with OpenAI's API, against `nmt serve`; `scripts/client_suites.py` runs them."""

from __future__ import annotations

import asyncio
import os

import litellm
import pytest

TEXT = "12345 & 678"
SERVER = {
    "model": "openai/en-de",
    "api_base": os.environ["NMT_URL"] + "/v1",
    "api_key": os.environ["DEEPL_AUTH_KEY"],
    "num_retries": 0,
}


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Translate."}, {"role": "user", "content": text}]


def ask(text: str = TEXT, **options):
    return litellm.completion(**SERVER | options, messages=said(text))


def test_a_completion_has_text_a_reason_to_end_and_the_numbers_of_tokens():
    answer = ask()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_a_stream_gives_the_text_of_a_completion():
    chunks = list(ask(stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ask().choices[0].message.content
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == ask().choices[0].message.content


def test_a_stream_tells_the_numbers_of_tokens_on_request():
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage.total_tokens == ask().usage.total_tokens


def test_several_choices_differ():
    assert len({choice.message.content for choice in ask(n=3).choices}) == 3


def test_options_of_other_models_are_ignored():
    options = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 50, "seed": 1, "user": "someone", "stop": ["\n"]}
    assert ask(**options).choices[0].message.content == ask().choices[0].message.content


def test_parts_of_text_are_translated():
    parts = [{"role": "user", "content": [{"type": "text", "text": TEXT}]}]
    answer = litellm.completion(**SERVER, messages=parts)
    assert answer.choices[0].message.content == ask().choices[0].message.content


def test_asynchronous_calls_give_the_same():
    async def both():
        whole = await litellm.acompletion(**SERVER, messages=said(TEXT))
        stream = await litellm.acompletion(**SERVER, messages=said(TEXT), stream=True)
        return whole, [chunk.choices[0].delta.content or "" async for chunk in stream]

    whole, parts = asyncio.run(both())
    assert whole.choices[0].message.content == "".join(parts) == ask().choices[0].message.content


def test_a_batch_gives_one_answer_each_in_order():
    texts = ["12", "345", "6789"]
    answers = litellm.batch_completion(**SERVER, messages=[said(text) for text in texts])
    expected = [ask(text).choices[0].message.content for text in texts]
    assert [answer.choices[0].message.content for answer in answers] == expected


def test_a_completion_of_a_prompt_gives_the_same():
    answer = litellm.text_completion(**SERVER | {"model": "text-completion-openai/en-de"}, prompt=TEXT)
    assert answer.choices[0].text == ask().choices[0].message.content


def test_a_response_gives_the_same():
    answer = litellm.responses(**SERVER, input=TEXT)
    assert answer.output[0].content[0].text == ask().choices[0].message.content


def test_a_router_finds_the_model():
    router = litellm.Router([{"model_name": "translator", "litellm_params": SERVER}])
    answer = router.completion("translator", said(TEXT))
    assert answer.choices[0].message.content == ask().choices[0].message.content


def test_the_models_are_listed():
    names = litellm.get_valid_models(
        check_provider_endpoint=True,
        custom_llm_provider="openai",
        api_key=SERVER["api_key"],
        api_base=os.environ["NMT_URL"],
    )
    assert any(name.endswith("en-de") for name in names)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"api_key": "a-wrong-key"}, litellm.AuthenticationError),
        ({"model": "openai/no-model"}, litellm.NotFoundError),
        ({"n": 1000}, litellm.BadRequestError),
    ],
)
def test_an_error_of_the_server_is_one_of_litellms(options, error):
    with pytest.raises(error):
        ask(**options)
