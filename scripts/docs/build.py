"""Build the documentation site into build/site: `make docs`. With --serve, show it at http://localhost:8000 instead.

First writes the command-line and the configuration reference anew (reference.py). Warnings, such as broken links, fail
the build. Needs the extra `docs`, but no network.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from reference import write_pages

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main() -> int:
    """Write the generated pages, then build or serve the site; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true")
    serve = parser.parse_args().serve
    write_pages()
    command = ["serve"] if serve else ["build", "--strict", "--clean"]
    search_path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))  # for formulas.py
    program = [sys.executable, "-m", "zensical", *command]
    return subprocess.run(program, cwd=ROOT, env={**os.environ, "PYTHONPATH": search_path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
