"""The site configurations for proxies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
