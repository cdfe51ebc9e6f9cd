"""The site configurations for proxies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from nmt.apps.server.run import make_config
from nmt.translation.translation import FLAGS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("directive", ["http2", "http3", "quic"])  # since 1.25.0 or 1.25.1
def test_the_site_for_nginx_has_no_directive_that_stable_distributions_do_not_know(directive):
    site = re.sub("#.*", "", (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8"))
    assert not re.search(rf"\b{directive}\b", site)


def test_the_guide_lists_every_flag_with_what_it_means():
    guide = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", guide, flags=re.MULTILINE))
    plain = {name: re.sub(r"\[(.*?)\]\(.*?\)", r"\1", rows.get(name, "")).removeprefix("a list: ") for name in FLAGS}
    assert plain == FLAGS


def test_both_sites_tell_the_scheme_and_log_no_query():
    nginx, caddy = ((ROOT / "deploy" / name).read_text(encoding="utf-8") for name in ("nginx.conf", "Caddyfile"))
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in nginx
    assert "header_up X-Forwarded-Proto {scheme}" in caddy
    (form,) = re.findall(r"log_format nmt '(.*)'", nginx)
    assert not re.search(r"\$(request\b(?!_)|request_uri|args|query_string|http_|is_args)", form)
    assert re.search(r"^ *error_log \S+ crit;", nginx, re.MULTILINE)  # the levels below have whole requests
    assert 'request>uri regexp \\?.* ""' in caddy


def test_the_url_of_a_document_has_the_scheme_that_a_proxy_on_this_machine_tells(running):
    sent = {"data": {"source": "de", "target": "en"}, "files": {"file": ("a.txt", b"12")}}
    for scheme in ("https", "http"):
        headers = {"X-Forwarded-Proto": scheme, "Host": "translate.example.org"}
        url = running.client.post("/translate_file", headers=headers, **sent).json()["translatedFileUrl"]
        assert url.startswith(f"{scheme}://translate.example.org/download_file/")


def test_the_service_writes_only_where_the_unit_lets_it():
    unit = (ROOT / "deploy" / "nmt.service").read_text(encoding="utf-8")
    options = dict(re.findall(r"--(corrections|access-log) (\S+)", unit))
    assert options == {"corrections": "/var/lib/nmt/corrections.tmx", "access-log": "/var/log/nmt/access.json"}
    assert "ProtectSystem=strict" in unit
    assert {"StateDirectory=nmt", "LogsDirectory=nmt", "ExecReload=/bin/kill -HUP $MAINPID"} <= set(unit.splitlines())


def test_in_a_container_the_headers_of_the_proxy_count(running, monkeypatch):
    """There, the proxy is another machine. The port is open to the proxy's machine only."""
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]["nmt"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])

    def trusts_all() -> bool:
        allowed = make_config(running.app).forwarded_allow_ips
        return ProxyHeadersMiddleware(running.app, allowed).trusted_hosts.always_trust

    assert not trusts_all()
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, value)
    assert trusts_all()
