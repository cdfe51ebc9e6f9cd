"""Each direction has a model, and each model a name."""

from __future__ import annotations

from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.settings import Settings
from nmt.base.languages import Direction


def test_the_first_model_of_a_direction_serves_it_and_names_differ(two_run, letters_run):
    paths = [str(path) for path in (two_run, letters_run, two_run)]
    found = Models(paths, Settings(device="cpu", precision="fp32"), Metrics())
    assert list(found.directions) == [Direction("en", "de"), Direction("en", "fr"), Direction("de", "en")]
    first, second, third = found.served
    assert found.directions[Direction("en", "fr")] is first
    assert [third.name, second.name] == [f"{first.name}#2", second.name]
    found.close()
