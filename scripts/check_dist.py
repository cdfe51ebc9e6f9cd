"""Build the wheel and the sdist, install each in a fresh environment outside the checkout, and use it there.

    python scripts/check_dist.py                      # uses the dependencies installed for this Python
    python scripts/check_dist.py --with-dependencies  # installs the dependencies, as a user's pip does

Builds into dist/. In each environment, nmt prints its version, writes a configuration, trains a tiny run and translates
with it: with the native decoder, and with torch in a third environment, where the sdist is installed without a C
compiler. In a fourth environment, without PyTorch, the wheel uses the first run, and `nmt train` reports what is
missing. Exit code 1 if a file is missing or superfluous, or if a command fails.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MADE_BY_SETUPTOOLS = ("PKG-INFO", "setup.cfg", "nmt_toolkit.egg-info/")
NEEDED = (
    "README.md",
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "nmt/py.typed",
    "tests/conftest.py",
    "configs/demo-en-zh.yaml",
)
CONFIG = """
data: {src_lang: en, tgt_lang: en, train: {tsv: train.tsv}, valid: {tsv: valid.tsv}, test: {tsv: valid.tsv}}
tokenizer: {type: char, vocab_size: 300}
model: {d_model: 32, num_heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1, max_src_len: 32, max_tgt_len: 32}
training: {batch_tokens: 512, max_updates: 8, warmup_updates: 2, validate_every: 4, device: cpu, precision: fp32}
"""
EXTENSION = "nmt/decoding/native/_decoder"
BLOCK_TORCH = "import sys; sys.modules['torch'] = None"
USES_WITHOUT_TORCH = (
    ("info", "tiny"),
    ("translate", "--model", "tiny", "1234"),
    ("eval", "--model", "tiny"),
    ("score", "--model", "tiny", "--tsv", "valid.tsv"),
    ("plot", "tiny", "--output", "curves.svg"),
    ("config", "new", "--corpus", "train.tsv", "--src-lang", "en", "--tgt-lang", "en"),
    ("data", "check", "--config", "tiny.yaml"),
    ("serve", "--help"),
)
WITHOUT_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}
WHERE = "import nmt, sys; from nmt import Translator; sys.stdout.write(nmt.__file__ + ' ' + Translator.__name__)"


def run(
    *command: str | Path,
    cwd: Path,
    stdin: str | None = None,
    variables: dict[str, str] | None = None,
    stderr: bool = False,
    exit_code: int = 0,
) -> str:
    """Return the standard output (or error) of a program without this checkout on its path.

    SystemExit unless it ends with `exit_code`.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {"PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(variables or {})}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, input=stdin, capture_output=True, encoding="utf-8")
    if done.returncode != exit_code:
        raise SystemExit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if stderr else done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist from the checkout and the wheel from the sdist; return (wheel, sdist)."""
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    shutil.rmtree(ROOT / "nmt_toolkit.egg-info", ignore_errors=True)  # its list of files outlives the files
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=ROOT)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def check_names(wheel: Path, sdist: Path) -> None:
    """Compare the files in both archives with those in the repository. SystemExit for the first difference."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
        licensed = any(name.endswith("LICENSE") for name in archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    tracked = set(run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines())
    package = {name for name in tracked if name.startswith("nmt/") and (ROOT / name).is_file()}
    extensions = {name for name in in_wheel if name.startswith(EXTENSION) and name.endswith((".so", ".pyd"))}
    faults = {
        "the wheel lacks": (package - in_wheel) | (set() if extensions else {EXTENSION}),
        "the wheel is not for every Python from 3.11 on:": set() if "-cp311-abi3-" in wheel.name else {wheel.name},
        "the wheel has, and nmt/ has not": in_wheel - extensions - package,
        "the sdist has, and the repository has not": {
            n for n in in_sdist - tracked if not n.startswith(MADE_BY_SETUPTOOLS)
        },
        "the sdist lacks": {*NEEDED, *package} - in_sdist,
        "the wheel lacks its": set() if licensed else {"LICENSE"},
    }
    for fault, names in faults.items():
        if names:
            raise SystemExit(f"{fault} {', '.join(sorted(names))}")


def make_environment(
    folder: Path, package: Path, variables: dict[str, str], *, with_dependencies: bool, extra: str = "[train]"
) -> Path:
    """Install `package` with `extra` into a new environment in `folder`; return its programs' folder.

    Without the extra, PyTorch cannot be imported in it.
    """
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    python = programs / ("python.exe" if os.name == "nt" else "python")
    if with_dependencies:
        constraints = ("-c", ROOT / "constraints.txt")
        run(python, "-m", "pip", "install", *constraints, f"{package}{extra}", cwd=folder, variables=variables)
        return programs
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    borrowed = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    lines = borrowed if extra else [*borrowed, BLOCK_TORCH]
    Path(packages, "borrowed.pth").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run(python, "-m", "pip", "uninstall", "--yes", "setuptools", cwd=folder)  # what venv puts there may be too old
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--force-reinstall")
    run(python, "-m", "pip", "install", *options, package, cwd=folder, variables=variables)
    return programs


def check_engine(programs: Path, folder: Path, *, is_native: bool) -> None:
    """Raise SystemExit unless the run in `folder` uses the native decoder or, if not `is_native`, torch."""
    program = "from nmt.decoding.engines.native_engine import kernels; print(*kernels())"
    kernels = run(programs / "python", "-c", program, cwd=folder).split()
    if ("portable" in kernels) != is_native:
        raise SystemExit(f"the native decoder has the kernels {kernels}")
    run(programs / "nmt", "translate", "--model", "tiny", "--device", "cpu", "1234", cwd=folder)


def use(programs: Path, folder: Path) -> None:
    """Use the installed nmt in `folder` like a newcomer: version, configuration, training, translation."""
    draw = random.Random(1)
    for name, count in (("train", 200), ("valid", 10)):
        rows = ["".join(draw.choices("0123456789", k=4)) for _ in range(count)]
        (folder / f"{name}.tsv").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    (folder / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    place, _ = run(programs / "python", "-c", WHERE, cwd=folder).rsplit(" ", 1)
    if programs.parent.resolve() not in Path(place).resolve().parents:
        raise SystemExit(f"nmt was imported from {place}, not from {programs.parent}")
    nmt = programs / "nmt"
    version = run(nmt, "--version", cwd=folder).strip()
    metadata = "import importlib.metadata as m; print('nmt', m.version('nmt-toolkit'))"
    if version != run(programs / "python", "-c", metadata, cwd=folder).strip():
        raise SystemExit(f"`nmt --version` prints {version!r}, and the metadata has another")
    languages = ("--src-lang", "en", "--tgt-lang", "en")
    if "src_lang" not in run(nmt, "config", "new", "--corpus", "train.tsv", *languages, cwd=folder):
        raise SystemExit("`nmt config new` printed no configuration")
    run(nmt, "train", "--config", "tiny.yaml", "--run", "tiny", cwd=folder)
    num_lines = run(nmt, "translate", "--model", "tiny", cwd=folder, stdin="1234\n\n567\n").count("\n")
    if num_lines != 3:
        raise SystemExit(f"`nmt translate` returned {num_lines} lines for 3")
    sys.stdout.write(f"{version}: a tiny run trains and translates, from {Path(place).parent}\n")


def use_without_torch(programs: Path, folder: Path) -> None:
    """Use the run in `folder` without PyTorch. SystemExit unless `nmt train` reports what is missing."""
    nmt = programs / "nmt"
    for arguments in USES_WITHOUT_TORCH:
        run(nmt, *arguments, cwd=folder)
    said = run(nmt, "train", "--config", "tiny.yaml", "--run", "new", cwd=folder, stderr=True, exit_code=1)
    if "needs PyTorch, which is not installed" not in said or (folder / "new").exists():
        raise SystemExit(f"`nmt train` without PyTorch says {said!r}")
    sys.stdout.write(f"without PyTorch: {len(USES_WITHOUT_TORCH)} commands work, and `nmt train` names the extra\n")


def main() -> None:
    """Build, compare, install and use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with-dependencies", action="store_true", help="let pip install the dependencies")
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist", help="folder for wheel and sdist (dist/)")
    arguments = parser.parse_args()
    wheel, sdist = build(arguments.outdir.resolve())
    check_names(wheel, sdist)
    for package, variables in ((wheel, {}), (sdist, {}), (sdist, WITHOUT_COMPILER)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            programs = make_environment(
                folder / "env", package, variables, with_dependencies=arguments.with_dependencies
            )
            use(programs, folder)
            check_engine(programs, folder, is_native=not variables)
            if package == wheel:
                bare = make_environment(
                    folder / "bare", package, variables, with_dependencies=arguments.with_dependencies, extra=""
                )
                use_without_torch(bare, folder)
        suffix = ", installed without a C compiler" if variables else ""
        sys.stdout.write(f"{package.name}{suffix}: {package.stat().st_size / 1000:,.0f} kB\n")


if __name__ == "__main__":
    main()
