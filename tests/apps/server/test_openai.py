"""OpenAI's interface: its own client, unchanged, and the messages of errors."""

from __future__ import annotations

import json

import pytest

from nmt import Translator


@pytest.fixture(scope="module")
def two(two_run):
    return Translator.load(two_run, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def openai(running):
    openai = pytest.importorskip("openai", reason="needs openai")
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Translate."}, {"role": "user", "content": text}]


def test_openais_client_lists_the_models_and_translates(openai, running, two):
    name = running.models.served[0].name
    assert [model.id for model in openai.models.list()] == [
        f"{name}:en-de", f"{name}:en-fr", running.models.served[1].name, "en-de", "en-fr", "de-en",
    ]  # fmt: skip
    assert openai.models.retrieve("en-fr").id == "en-fr"
    answer = openai.chat.completions.create(model="en-fr", messages=said("123\n45"))
    assert answer.choices[0].message.content == two.translate(["123\n45"], to="fr")[0].text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 4


def test_openais_client_gets_several_choices_and_a_stream(openai, two):
    options = two.options.changed(beam_size=3, num_hypotheses=3)
    (best,) = two.translate(["1234"], options, to="de")
    answer = openai.chat.completions.create(model="en-de", messages=said("1234"), n=3)
    texts = [choice.message.content for choice in answer.choices]
    assert texts == [best.text, *(other.text for other in best.alternatives)]
    parts = [{"type": "text", "text": text} for text in ("12", "34")]
    events = openai.chat.completions.create(model="en-de", messages=[{"role": "user", "content": parts}], stream=True)
    written = "".join(event.choices[0].delta.content or "" for event in events)
    assert written == two.translate(["12\n34"], to="de")[0].text


def test_openais_client_gets_the_number_of_tokens_of_a_stream_if_it_asks(openai):
    whole = openai.chat.completions.create(model="en-de", messages=said("1234\n56"))
    for asked in (True, False):
        options = {"stream_options": {"include_usage": True}} if asked else {}
        events = [*openai.chat.completions.create(model="en-de", messages=said("1234\n56"), stream=True, **options)]
        assert [event.usage for event in events if event.usage] == [whole.usage] * asked
        assert bool(events[-1].choices) is not asked


def test_openais_client_completes_prompts_and_gets_responses(openai, two):
    first, second = (each.text for each in two.translate(["1234", "56"], to="de"))
    answer = openai.completions.create(model="en-de", prompt=["1234", "56"])
    assert [choice.text for choice in answer.choices] == [first, second]
    assert answer.usage.total_tokens > 4
    assert openai.completions.create(model="en-de", prompt="1234", n=2).choices[0].text == first
    events = openai.completions.create(model="en-de", prompt="1234", stream=True)
    assert "".join(event.choices[0].text for event in events) == first
    response = openai.responses.create(model="en-de", input="1234", instructions="Translate.")
    assert (response.output_text, response.status) == (first, "completed")
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "1234"}]}]
    assert openai.responses.create(model="en-de", input=parts).output_text == first
    with openai.responses.stream(model="en-de", input="1234") as stream:
        written = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert (written, stream.get_final_response().output_text) == (first, first)


def test_the_marks_that_programs_put_between_texts_stay(openai, two):
    first, second = (each.text for each in two.translate(["1234", "56"], to="de"))
    marked = "1234\n==WEBLATE_PART==\n56"
    answer = openai.chat.completions.create(model="en-de", messages=said(marked)).choices[0].message.content
    assert answer == f"{first}\n==WEBLATE_PART==\n{second}"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "none", "messages": said("1")}, 404, "there is no model none; /v1/models lists them"),
        ({"model": "en-de", "messages": []}, 400, "Invalid request: missing messages parameter"),
        (
            {"model": "en-de", "messages": said(" ")},
            400,
            "Invalid request: messages: there is no user message with text",
        ),
        (
            {
                "model": "en-de",
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                    }
                ],
            },
            400,
            "Invalid request: messages: only text is translated, no image_url",
        ),
        ({"model": "en-de", "messages": said("1"), "n": 0}, 400, "Invalid request: n: Input should be greater"),
    ],
)
def test_what_is_wrong_is_told_as_openai_tells_it(running, body, status, message):
    answer = running.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(message)
    assert answer.json()["error"]["type"] in ("invalid_request_error", "not_found_error")


def test_an_error_in_a_stream_is_an_event(running, monkeypatch):
    from nmt.base.errors import NmtError

    batcher = running.models.served[0].batcher
    translate = batcher.translate

    def fail_at_the_second_line(segments):
        if any(segment.text.text == "2" for segment in segments):
            raise NmtError("not enough memory to translate")
        return translate(segments)

    monkeypatch.setattr(batcher, "translate", fail_at_the_second_line)
    body = {"model": "en-de", "messages": said("1\n2"), "stream": True}
    events = running.client.post("/v1/chat/completions", json=body).text.split("\n\n")
    assert json.loads(events[-3].removeprefix("data: "))["error"]["message"] == "not enough memory to translate"
    assert events[-2:] == ["data: [DONE]", ""]
    answer = running.translate(q=["1", "2"], source="en", target="de")
    assert (answer.status_code, answer.json()) == (503, {"error": "not enough memory to translate"})
    assert running.translate(q="1", source="en", target="de").status_code == 200
