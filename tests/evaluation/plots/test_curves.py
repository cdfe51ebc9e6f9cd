"""The learning curves as a picture."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from contextlib import nullcontext

import pytest
import typer

from nmt.apps.commands.info import plot
from nmt.base.errors import NmtError, RunError
from nmt.evaluation.plots import draw_curves, read_metrics
from tests.quick import quick_and_slow

TRAIN = [
    {"kind": "train", "update": u, "loss": 2 + 6 / u, "lr": 1e-3, "tokens_per_second": 5e3} for u in range(50, 2050, 50)
]
VALID = [
    {"kind": "valid", "update": u, "loss": loss, "perplexity": math.exp(loss), "bleu": bleu, "chrf": chrf}
    for u, loss, bleu, chrf in [(500, 3.0, 11.0, 30.0), (1000, 2.25, 23.5, 47.0), (1500, 2.5, 22.0, 48.5)]
]


def texts(path):
    return [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A picture of both kinds of records."""
    path = tmp_path_factory.mktemp("drawn") / "curves.svg"
    draw_curves(TRAIN + VALID, path)
    return path


def test_svg_marks_the_best_validation_of_each_curve(drawn):
    shown = texts(drawn)
    assert "validation: best 2.250 at update 1,000" in shown
    assert "BLEU: best 23.5 at update 1,000" in shown
    assert "chrF: best 48.5 at update 1,500" in shown
    assert "training" in shown
    assert "Validation scores (fp32)" in shown


def test_several_runs_are_drawn_into_one_picture_by_name(tmp_path):
    worse = [{**record, "bleu": 7.5} for record in VALID]
    draw_curves({"runs/a": TRAIN + VALID, "runs/b": worse, "new": TRAIN}, tmp_path / "curves.svg")
    shown = texts(tmp_path / "curves.svg")
    assert "runs/a: best 23.5 at update 1,000" in shown
    assert "runs/b: best 7.5 at update 500" in shown
    assert "Validation BLEU (fp32)" in shown
    assert not any(text and "chrF" in text for text in shown)


def test_the_command_draws_several_runs_where_it_is_told(digits_run, letters_run, tmp_path):
    with pytest.raises(typer.BadParameter, match="name a file with --output"):
        plot([str(digits_run), str(letters_run)])
    plot([str(digits_run), str(letters_run)], tmp_path / "both.svg")
    found = [text for text in texts(tmp_path / "both.svg") if "best" in (text or "")]
    assert len(found) == 4
    assert {text.split()[0].strip(":") for text in found} >= {digits_run.name, letters_run.name}


@pytest.mark.parametrize("records", quick_and_slow([TRAIN, TRAIN[:1]], lambda number, _: number == 1))
def test_before_the_first_validation_the_training_loss_is_drawn(tmp_path, records):
    draw_curves(records, tmp_path / "curves.svg")
    assert "training" in texts(tmp_path / "curves.svg")


def test_of_a_repeated_update_the_later_record_counts(tmp_path):
    draw_curves([*VALID, VALID[1] | {"bleu": 29.25}], tmp_path / "curves.svg")
    assert "BLEU: best 29.2 at update 1,000" in texts(tmp_path / "curves.svg")


def test_values_that_are_no_numbers_leave_a_gap(tmp_path):
    diverged = VALID[2] | {"loss": math.nan, "bleu": math.inf, "chrf": None}
    draw_curves([*VALID[:2], diverged], tmp_path / "curves.svg")
    assert "chrF: best 47.0 at update 1,000" in texts(tmp_path / "curves.svg")


@pytest.mark.parametrize("records", [[], [{"kind": "other", "update": 1}]])
def test_without_metrics_there_is_a_clear_error(tmp_path, records):
    with pytest.raises(RunError, match="no metrics yet"):
        draw_curves(records, tmp_path / "curves.svg")
    assert not list(tmp_path.iterdir())


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(NmtError, match=r"curves\.pdf: plots are written as \.svg"):
        draw_curves(TRAIN, tmp_path / "curves.pdf")


def test_the_same_records_give_the_same_file(drawn, tmp_path):
    draw_curves(TRAIN + VALID, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == drawn.read_bytes()


def test_metrics_are_read_without_the_line_still_being_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in VALID) + '{"kind": "va', encoding="utf-8")
    assert read_metrics(path) == VALID


@pytest.mark.parametrize(("line", "fault"), [("{", "not a line of JSON"), ("3", "not a JSON object")])
def test_a_damaged_line_is_named(tmp_path, line, fault):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{json.dumps(VALID[0])}\n{line}\n", encoding="utf-8")
    with pytest.raises(RunError, match=rf"metrics\.jsonl:2: {fault}"):
        read_metrics(path)


def test_a_run_without_metrics_is_named(tmp_path):
    with pytest.raises(RunError, match=r"metrics\.jsonl: no metrics yet"):
        read_metrics(tmp_path / "metrics.jsonl")


@pytest.fixture
def run(tmp_path):
    """A run directory with just what `nmt plot` reads."""
    for name, text in {
        "config.yaml": "",
        "checkpoints/index.json": '{"best": "average"}',
        "logs/metrics.jsonl": "".join(json.dumps(record) + "\n" for record in TRAIN + VALID),
    }.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "run"


def test_plot_command_draws_into_the_run_and_says_where(run, messages):
    plot(str(run))
    assert "training" in texts(run / "curves.svg")
    assert messages == [f"learning curves: {run / 'curves.svg'}"]


def test_plot_command_writes_where_told(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_MODEL", str(run))
    plot(output=tmp_path / "elsewhere.svg")
    assert (tmp_path / "elsewhere.svg").exists()
    assert not (run / "curves.svg").exists()


ODD = (None, True, "3", "x", [], {}, -1, -1e9, 0, 1.5, 10**400, -(10**400), 1e308, math.nan, math.inf, -math.inf)


def test_odd_values_together_leave_gaps_in_what_is_drawn(tmp_path):
    drawn = TRAIN + VALID
    odd = [drawn[number] | {key: value} for number, value in enumerate(ODD) for key in ("kind", "loss", "bleu")]
    odd += [record | {"update": value} for record in (TRAIN[3], VALID[1]) for value in ODD]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in drawn + odd))
    draw_curves(read_metrics(tmp_path / "metrics.jsonl"), tmp_path / "curves.svg")
    assert any(text.startswith("validation: best") for text in texts(tmp_path / "curves.svg"))


# A drawing takes longest of all here: by day the largest float that is no infinity, and all together as above.
@pytest.mark.parametrize(
    "value", quick_and_slow(ODD, lambda number, _: number == ODD.index(1e308)), ids=lambda value: str(value)[:9]
)
def test_an_odd_value_is_drawn_or_leaves_a_gap(value, tmp_path):
    keys = ("kind", "update", "loss", "bleu")
    odd = [record | {key: value} for key in keys for record in (TRAIN[3], VALID[1])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in TRAIN + VALID + odd))
    draw_curves(read_metrics(tmp_path / "metrics.jsonl"), tmp_path / "curves.svg")
    assert any(text.startswith("validation: best") for text in texts(tmp_path / "curves.svg"))


@pytest.mark.parametrize(
    "value", quick_and_slow(ODD, lambda _, value: value not in (-1, 0, 1.5)), ids=lambda value: str(value)[:9]
)
def test_metrics_with_odd_values_alone_are_drawn_or_are_no_metrics(value, tmp_path):
    odd = [{"kind": kind, "update": value, "loss": value, "bleu": value, "chrf": value} for kind in ("train", "valid")]
    drawable = type(value) in (int, float) and abs(value) <= 1e9
    with nullcontext() if drawable else pytest.raises(RunError, match="no metrics yet"):
        draw_curves(odd, tmp_path / "curves.svg")
