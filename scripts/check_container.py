"""Build the contents of the image of deploy/Dockerfile without a container engine, and use them like the image.

    python scripts/check_container.py                  # trains a tiny run, and serves it
    python scripts/check_container.py --model runs/my  # serves this run

Installs nmt with the Dockerfile's extras into a fresh environment and checks its size. Then starts the server of the
Dockerfile's CMD as another user (if run by root, else as the current user), requests a translation, and stops the
server with SIGTERM. Exit code 1 if something fails. pip downloads the dependencies.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
MAX_MEGABYTES = 400
BASE_MEGABYTES = 125  # of python:3.13-slim, unpacked
START_SECONDS = 60
CONFIG = """
data: {src_lang: en, tgt_lang: en, train: {tsv: train.tsv}, valid: {tsv: valid.tsv}, test: {tsv: valid.tsv}}
tokenizer: {type: char, vocab_size: 300}
model: {d_model: 32, num_heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1, max_src_len: 32, max_tgt_len: 32}
training: {batch_tokens: 512, max_updates: 8, warmup_updates: 2, validate_every: 4, device: cpu, precision: fp32}
"""


class Steps(NamedTuple):
    """The steps of a Dockerfile that this script repeats."""

    extras: str  # of nmt, separated by commas
    user: int
    command: list[str]  # ENTRYPOINT and CMD


def read_steps(text: str) -> Steps:
    """Return the steps of a Dockerfile. SystemExit if one is missing."""

    def found(pattern: str) -> str:
        if (match := re.search(pattern, text, re.MULTILINE)) is None:
            raise SystemExit(f"{DOCKERFILE} has no line like {pattern}")
        return match[1]

    entry, command = (json.loads(found(rf"^{name} (\[.*\])$")) for name in ("ENTRYPOINT", "CMD"))
    return Steps(found(r"^ARG EXTRAS=(\S+)$"), int(found(r"^USER (\d+)$")), [*entry, *command])


def requirements(extras: str) -> list[str]:
    """Return the requirements of nmt with `extras`, without PyTorch, which serving a run in int8 does not need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"]]
    for extra in extras.split(","):
        listed += project["optional-dependencies"][extra]
    return [each for each in listed if re.match(r"[\w.-]+", each)[0] != "torch"]  # type: ignore[index]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return the standard output of a program; SystemExit if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def base_python(folder: Path) -> Path:
    """Return a Python that every user may run: this one, or a copy of it in `folder`."""
    base = Path(sys.base_prefix)
    if all(path.stat().st_mode & 0o005 == 0o005 for path in (base, *base.parents)):
        return Path(sys.executable)
    left_out = shutil.ignore_patterns("test", "site-packages", "__pycache__")
    shutil.copytree(base, folder, symlinks=True, ignore=left_out)
    return folder / "bin" / "python3"


def install(folder: Path, extras: str) -> Path:
    """Make the environment of the image in `folder`; return its Python."""
    run(base_python(folder.parent / "python"), "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-cache-dir", "--no-compile", "--quiet")
    run(*pip, "--constraint", ROOT / "constraints.txt", *requirements(extras))
    source = folder.parent / "source"
    shutil.copytree(ROOT / "nmt", source / "nmt", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    run(*pip, "--no-deps", source)
    run("find", folder, "-type", "d", "-name", "tests", "-prune", "-exec", "rm", "-rf", "{}", "+")
    return python


def megabytes(folder: Path) -> float:
    """Return the size of all files in `folder`."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


def train(folder: Path) -> Path:
    """Train a tiny run in `folder`, with this Python."""
    folder.mkdir()
    for name, count in (("train", 800), ("valid", 20)):
        rows = [str(number * 7919) for number in range(1, count)]
        (folder / f"{name}.tsv").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    (folder / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    run(sys.executable, "-m", "nmt", "train", "--config", "tiny.yaml", "--run", "model", cwd=folder)
    return folder / "model"


def serve_once(python: Path, command: list[str], model: Path, user: int) -> str:
    """Start the server, ask for a translation, stop it with SIGTERM; return the translation. SystemExit if it fails."""
    values = {"0.0.0.0": "127.0.0.1", "5000": "0", "/models/model": str(model)}
    words = [str(python.parent / command[0]), *(values.get(word, word) for word in command[1:])]
    # The separate user has no home, and may write only to /tmp.
    as_other = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["LD_LIBRARY_PATH"] = str(python.resolve().parents[1] / "lib")  # a copied Python finds its own library
    server = subprocess.Popen(
        words,
        cwd="/",
        env=environment,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **as_other,  # type: ignore[call-overload]
    )
    try:
        translation = ask(address_of(server))
        server.send_signal(signal.SIGTERM)
        if server.wait(timeout=START_SECONDS) != 0:
            raise SystemExit(f"the server stopped with exit code {server.returncode} after SIGTERM")
        return translation
    finally:
        server.kill()
        server.wait()


def address_of(server: subprocess.Popen[str]) -> str:
    """Return the address that the server prints when it is ready."""
    said, end = list[str](), time.monotonic() + START_SECONDS
    for line in server.stderr or ():
        said.append(line)
        if match := re.search(r"serving at (\S+);", line):
            return match[1]
        if time.monotonic() > end:
            break
    raise SystemExit("the server did not start:\n" + "".join(said))


def ask(address: str) -> str:
    """Return the translation of a short text in the first direction of the server."""
    with urllib.request.urlopen(f"{address}/languages", timeout=START_SECONDS) as answer:
        first = json.load(answer)[0]
    body = json.dumps({"q": "12345", "source": first["code"], "target": first["targets"][0]}).encode()
    request = urllib.request.Request(f"{address}/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
        return str(json.load(answer)["translatedText"])


def main() -> None:
    """Build, measure, serve."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, help="run to serve; default: a tiny run")
    model = parser.parse_args().model
    steps = read_steps(DOCKERFILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        python = install(folder / "nmt", steps.extras)
        size = megabytes(folder / "nmt")
        sys.stdout.write(f"{size:.0f} MB above the base image, which has about {BASE_MEGABYTES} MB\n")
        if size + BASE_MEGABYTES > MAX_MEGABYTES:
            raise SystemExit(f"the image would be larger than {MAX_MEGABYTES} MB")
        if any((folder / "nmt").glob("lib/python*/site-packages/torch")):
            raise SystemExit("PyTorch is in the image")
        model = train(folder / "run") if model is None else model.resolve()
        translation = serve_once(python, steps.command, model, steps.user)
        user = f"user {steps.user}" if os.geteuid() == 0 else "this user"
        sys.stdout.write(f"served as {user}: 12345 -> {translation}; stopped by SIGTERM with exit code 0\n")


if __name__ == "__main__":
    main()
