"""Train Hugging Face's MarianMTModel in a plain loop for some minutes, and score it: how good is a model without nmt?

    .venv/bin/python benchmarks/marian.py --minutes 40 --json OUT

The loop is that of tutorials, in fp32 or bf16: Adam with a warmup of 400 updates and inverse-square-root decay,
dropout 0.1, label smoothing 0.1, sorted batches of 4,096 tokens. Prints BLEU and chrF on the test set, greedy and with
a beam of 5.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from environments import python_of
from harness import HERE, claim_machine, command_line, foreign_environment, keep, make_parser, run_worker, table
from workload import Workload, prepare

from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.evaluation import score

BEAMS = (1, 5)
COLUMNS = {"beam": "beam", "bleu": "BLEU", "chrf": "chrF", "minutes": "minutes", "steps": "updates", "loss": "loss"}


def main() -> None:
    """Train, translate the test set and print the scores."""
    parser = make_parser(__doc__, ["hf-marian"])
    parser.add_argument("--minutes", type=float, default=40.0, help="minutes of updates (40)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of the training (fp32)")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="eager", help="of Marian (eager)")
    options = parser.parse_args()
    threads, facts = claim_machine(options.threads)
    python = Path(sys.executable) if options.quick else python_of("hf-marian", options.envs or options.cache / "envs")
    workload = prepare(options.cache / "work", options.quick)
    job = make_job(workload, threads, 0.05 if options.quick else options.minutes, options.cache)
    training = {"attention": options.attention, "precision": options.precision}
    trained = run(python, "hf_marian_train.py", job | training, threads)
    rows = []
    for beams in BEAMS:
        output = Path(job["save"]) / f"beam{beams}.txt"
        run(python, "hf_marian_translate.py", job | {"mode": "bulk", "beams": beams, "output": str(output)}, threads)
        outputs = output.read_text(encoding="utf-8").split("\n")[:-1]
        bleu, chrf = score(outputs, workload.lines("test", "tgt"), workload.tgt_lang, ("bleu", "chrf"))
        minutes = {"minutes": trained["seconds"] / 60, "steps": trained["steps"], "loss": trained["loss"]}
        rows.append({"beam": beams, "bleu": bleu.value, "chrf": chrf.value, **minutes})
    sys.stdout.write(table(rows, COLUMNS))
    keep(options.json, {"machine": facts, "command": command_line(), "workload": workload.facts(), "rows": rows})


def make_job(workload: Workload, threads: int, minutes: float, cache: Path) -> dict[str, Any]:
    """Return the job description of Marian's programs: train for `minutes`, save, translate the test set."""
    size = {name: value for name, value in workload.facts().items() if name != "corpus"}
    scratch = cache.resolve() / "marian"
    tokenizers = TokenizerPair.load(workload.tokenizer)
    names = ("joint", "joint") if tokenizers.joint else ("src", "tgt")
    return {
        **size,
        "vocab_size": tokenizers.src.vocab_size,
        "workload": str(workload.folder),
        "precision": "fp32",
        "threads": threads,
        "seconds": 60 * minutes,
        "skip_seconds": 0.0,
        "scratch": str(scratch),
        "save": str(scratch / "model"),
        "src": str(workload.text("test", "src")),
        "num_sentences": len(workload.lines("test", "src")),
        "tokenizers": [str(workload.tokenizer / f"{name}.model") for name in names],
        "batch": 64,
    }


def run(python: Path, program: str, job: dict[str, Any], threads: int) -> dict[str, Any]:
    """Run one of Marian's programs and return its result."""
    return run_worker([python, HERE / "peers" / program, json.dumps(job)], foreign_environment(threads), 86_400)


if __name__ == "__main__":
    main()
