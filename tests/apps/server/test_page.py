"""The page, the specification and the metrics."""

from __future__ import annotations

import re
from importlib.resources import files

STATIC = files("nmt.apps.server") / "static"
PAGE = ("index.html", "app.js", "backend.js", "style.css")


def test_the_page_loads_its_own_files_alone(running):
    page = running.client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    linked = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
    assert linked == {"app.js", "backend.js", "style.css", "icon.svg"}
    for name in linked:
        answer = running.client.get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)


def test_the_page_is_small():
    assert sum(len((STATIC / name).read_bytes()) for name in PAGE) < 29_000


def test_the_specification_has_every_interface(running):
    spec = running.client.get("/spec").json()
    body = spec["components"]["schemas"]["TranslateBody"]["properties"]
    assert body["source"]["description"] == "Source language, or auto."
    assert (body["source"]["enum"], body["target"]["enum"]) == (["auto", "en", "de"], ["de", "fr", "en"])
    for path, methods in spec["paths"].items():
        for method in methods:
            answer = running.client.request(method.upper(), path.replace("{model}", "en-de"))
            unknown = [404] * ("{" in path and "{model}" not in path)
            assert answer.status_code in (200, 400, 415, *unknown), path
    assert spec["paths"]["/v1/models/{model}"]["get"]["summary"] == "Describe one model"
    assert {"get", "delete"} == spec["paths"]["/v2/glossaries/{id}"].keys()
    answer = spec["paths"]["/translate"]["post"]["responses"]["200"]["content"]
    assert answer["application/json"]["schema"] == {"$ref": "#/components/schemas/Translated"}
    assert running.client.get("/translate").status_code == 405


def test_the_metrics_count_requests_tokens_and_batches(running):
    running.translate(q="12", source="en", target="de")
    text = running.client.get("/metrics").text
    name = running.models.served[0].name
    assert re.search(r'nmt_requests_total\{path="/translate",status="200"\} [1-9]', text)
    assert re.search(rf'nmt_source_tokens_total\{{model="{name}"\}} [1-9]', text)
    assert "nmt_queue_tokens" in text
