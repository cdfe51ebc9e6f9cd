"""A run becomes a folder of Marian or Pegasus, or one error that says which option transformers does not have."""

from __future__ import annotations

import json

import pytest

from nmt.apps.interop.describe import describe_model
from nmt.apps.interop.export import export_ctranslate2
from nmt.apps.interop.hf_export import export_hf
from nmt.apps.interop.hf_import import import_hf
from nmt.base.errors import RunError
from tests.apps.interop.post_norm_run import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("export") / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"norm_position": "pre", "joint": False},
            r"transformers has no pre-norm translation model with model\.tied_embeddings: target\n  it supports "
            r"model\.tied_embeddings: all; "
            r"`nmt config new --for hf` configures a model that it has$",
        ),
        ({"norm": "rms"}, r"no post-norm translation model with model\.norm: rms"),
        ({"activation": "swiglu"}, r"with model\.activation: swiglu\n  it supports .*: relu or gelu or silu; `nmt"),
        (
            {"norm_position": "pre", "positions": "rotary", "num_heads": 2, "qk_norm": "self"},
            r"with model\.positions: rotary and model\.qk_norm: self\n"
            r"  it supports model\.positions: sinusoidal and model\.qk_norm: false; ",
        ),
        ({"norm_position": "pre", "qk_norm": "self"}, r"no pre-norm translation model with model\.qk_norm: self"),
        ({"attention": "gaussian"}, r"with model\.attention: gaussian"),
    ],
    ids=lambda value: ",".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_an_option_that_transformers_does_not_have_is_refused(tmp_path, options, message):
    with pytest.raises(RunError, match=message):
        export_hf(make_run(tmp_path / "run", **options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_such_a_folder_is_overwritten(run, tmp_path):
    out = tmp_path / "out"
    export_hf(run, out)
    with pytest.raises(RunError, match="this path already exists"):
        export_hf(run, out)
    export_hf(run, out, overwrite=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    with pytest.raises(
        RunError, match="not a Hugging Face folder of a Marian or Pegasus model, so nmt does not overwrite it"
    ):
        export_hf(run, other, overwrite=True)
    assert [path.name for path in other.iterdir()] == ["config.json"]


def test_an_imported_run_is_exported_to_ctranslate2(run, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    export_hf(run, tmp_path / "hf")
    export_ctranslate2(import_hf(tmp_path / "hf", tmp_path / "run"), tmp_path / "out")
    agreement = json.loads((tmp_path / "out" / "export.json").read_text())["agreement"]
    assert agreement["sentences"] == agreement["equal"] + agreement["near_ties"] == 100


def test_a_description_says_what_each_folder_is_and_what_it_can_become(run, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    run.card.write_text("---\nlicense: apache-2.0\n---\n")
    export_hf(run, tmp_path / "hf")
    folder, found = describe_model(str(tmp_path / "hf")), describe_model(str(run.path))
    assert (found.kind, folder.kind) == ("run", "Hugging Face folder (Marian)")
    assert found.languages == folder.languages == ["en-de"]
    assert found.license == folder.license == "apache-2.0"
    assert found.parameters == folder.parameters
    assert found.scores == {"valid BLEU": 12.5}
    assert found.can_become == {"nmt export ctranslate2": None, "nmt export hf": None}
    other = describe_model(str(make_run(tmp_path / "other", norm="rms").path))
    assert other.can_become["nmt export hf"] == "transformers has no post-norm translation model with model.norm: rms"
    assert json.loads(json.dumps(other._asdict()))["can_become"]["nmt export ctranslate2"] is None
    pre = make_run(tmp_path / "pre", norm_position="pre")
    export_hf(pre, tmp_path / "pegasus")
    folder = describe_model(str(tmp_path / "pegasus"))
    assert (folder.kind, folder.languages) == ("Hugging Face folder (Pegasus)", ["en-de"])
    assert (folder.architecture, folder.can_become) == (
        describe_model(str(pre.path)).architecture,
        {"nmt import hf": None},
    )
