"""Run the commands of docs/how-to/deploy.md as they stand, in a fresh copy of the checkout, while a client asks.

    sudo python scripts/check_runbook.py  # Linux, some minutes; pip downloads the dependencies

In a mount namespace, /etc, /opt, /srv and /var are layers over those of this machine, which stay as they are. sudo,
systemctl and journalctl are stand-ins that start what the units say, as their user. nginx and Caddy run if they are
installed. If dockerd is, it runs in the namespace, too, and leaves only its bridge and rules of the firewall; else
Docker's client reads its commands. Once nginx serves the site, a client asks it for translations, through reloads, the
upgrade and the way back: exit code 1 if a request gets no answer, or if a command fails or prints other lines than the
page.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import resource
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
NAMESPACE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
LAYERS = ("etc", "opt", "root", "srv", "var")
NO_ENGINE = "Cannot connect to the Docker daemon"
SECONDS = 1800  # for a command, while other programs compute
SITE = "translate.example.org"
STAND_INS = {
    "docker": """#!/bin/bash
real=$(PATH=${PATH#*:} command -v docker)
if [ "$1" = compose ] && ! "$real" compose version > /dev/null 2>&1; then shift; exec docker-compose "$@"; fi
exec "$real" "$@"
""",
    "sudo": """#!/bin/bash
if [ "$1" = -u ]; then user=$2; shift 2; exec setpriv --reuid="$user" --regid="$user" --init-groups "$@"; fi
exec "$@"
""",
    "journalctl": """#!/bin/bash
exec tail "${@:5}" "/var/log/journal-$2"  # of: -u UNIT -o cat -n LINES
""",
    "systemctl": """#!/usr/bin/python3
import os, pathlib, re, shlex, signal, subprocess, sys, time
verb, name = sys.argv[1], sys.argv[-1]
if verb == "daemon-reload" or name not in ("nmt", "nmt-2"):
    sys.exit()
process = pathlib.Path(f"/run/{name}.pid")
if verb == "reload":
    os.kill(int(process.read_text()), signal.SIGHUP)
elif verb == "enable":
    unit = pathlib.Path(f"/etc/systemd/system/{name}.service").read_text().replace("\\\\\\n", "")
    found = dict(re.findall(r"^(User|ExecStart|StateDirectory|LogsDirectory)=(.*)$", unit, re.M))
    for folder in (f"/var/lib/{found['StateDirectory']}", f"/var/log/{found['LogsDirectory']}"):
        subprocess.run(["install", "--directory", "--owner", found["User"], folder], check=True)
    user = [f"--reuid={found['User']}", f"--regid={found['User']}", "--init-groups"]
    command = ["setpriv", *user, *shlex.split(found["ExecStart"])]
    with open(f"/var/log/journal-{name}", "ab") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    process.write_text(str(started.pid))
else:
    assert verb == "disable", verb
    os.kill(int(process.read_text()), signal.SIGTERM)
    while pathlib.Path(f"/proc/{process.read_text()}/exe").exists():
        time.sleep(0.1)
""",
}


class Command(NamedTuple):
    """A command of a page, and the lines that it prints there."""

    text: str
    printed: list[str]


def commands(page: str) -> list[Command]:
    """Return the commands in the console blocks of a page."""
    found: list[Command] = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:], []))
            else:
                found[-1].printed.append(line)
    return found


def layer(folder: Path) -> None:
    """Put layers over the folders of this machine, so that what is written there ends with this process."""
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for name in LAYERS:
        upper, work = folder / name / "upper", folder / name / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir=/{name},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, f"/{name}"], check=True)
    Path("/root").chmod(0o711)  # where the Python of an environment may be


def start_engine(folder: Path, base: Path | None) -> str:
    """Start Docker's engine, if there is one, with the base image of the tar file `base`; return its address."""
    if not shutil.which("dockerd"):
        return "unix:///none"
    address = f"unix://{folder}/docker.sock"
    places = [f"--{name}={folder}/docker/{name}" for name in ("data-root", "exec-root", "pidfile")]
    (folder / "docker").mkdir()
    with (folder / "dockerd.log").open("wb") as log:
        subprocess.Popen(["dockerd", "--host", address, *places], stdout=log, stderr=log)
    docker = ["docker", "--host", address]
    end = time.monotonic() + 60
    while subprocess.run([*docker, "info"], capture_output=True).returncode and time.monotonic() < end:
        time.sleep(1)
    if base:
        dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
        version = re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, re.MULTILINE)[0]
        path = "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        subprocess.run([*docker, "import", "--change", path, base, f"python:{version}-slim"], check=True)
    return address


def prepare(folder: Path, model: Path) -> Path:
    """Return a copy of the checkout with two runs, beside the stand-ins and what a server's machine has."""
    checkout = folder / "nmt"
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    compose = checkout / "deploy" / "compose.yaml"
    wanted, allowed = 65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # which a machine may not let root raise
    compose.write_text(compose.read_text().replace(f"nofile: {wanted}", f"nofile: {min(wanted, allowed)}"))
    for name in ("my", "other"):
        shutil.copytree(model, checkout / "runs" / name)
    (folder / "bin").mkdir()
    for name, text in STAND_INS.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    Path("/etc/caddy").mkdir(exist_ok=True)
    if shutil.which("nginx"):
        live = Path("/etc/letsencrypt/live") / SITE
        live.mkdir(parents=True, exist_ok=True)
        new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={SITE}"]
        certificate = ["-keyout", f"{live}/privkey.pem", "-out", f"{live}/fullchain.pem"]
        subprocess.run([*new, *certificate], check=True, capture_output=True)
        Path("/var/log/nginx").mkdir(exist_ok=True)
        subprocess.run(["nginx"], check=True)
    return checkout


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Asking(threading.Thread):
    """Asks the site for translations until it is stopped, and counts the answers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.going, self.answers = True, Counter[str]()

    def run(self) -> None:
        """Ask."""
        without_authority = ssl._create_unverified_context()
        while self.going:
            time.sleep(0.02)  # nginx lets an address ask 100 times a second
            key = Path("/etc/nmt/keys.txt").read_text(encoding="utf-8").split()[0]
            body = json.dumps({"q": "Haus", "source": "de", "target": "en", "api_key": key})
            site = http.client.HTTPSConnection("127.0.0.1", 443, timeout=60, context=without_authority)
            try:
                site.request("POST", "/translate", body, {"Host": SITE, "Content-Type": "application/json"})
                self.answers[str(site.getresponse().status)] += 1
            except OSError as error:
                self.answers[type(error).__name__] += 1
            finally:
                site.close()


def run_all(folder: Path, checkout: Path, engine: str) -> list[str]:
    """Run the commands of the page, print how they went, and return the faults."""
    path = f"{folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DOCKER_HOST": engine}
    faults, asking = [], Asking()
    for command in commands(PAGE.read_text(encoding="utf-8")):
        missing = [name for name in ("docker", "nginx", "caddy") if name in command.text and not shutil.which(name)]
        has_compose = shutil.which("docker-compose") or not subprocess.run(["docker", "compose"]).returncode
        if "docker compose" in command.text and not has_compose:
            missing.append("docker compose")
        if missing:
            say(f"not run, {missing[-1]} is not installed: {command.text}")
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.text],
            cwd=checkout,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
        lines = done.stdout.splitlines()
        is_read = "docker" in command.text and NO_ENGINE in done.stdout
        absent = [line for line in command.printed if line not in lines]
        good = is_read or not (done.returncode or absent)
        say(f"{'read' if is_read else 'ran' if good else 'FAILED'}: {command.text}")
        if not good:
            faults.append(command.text)
            say("\n".join([*lines[-10:], f"exit code {done.returncode}; the page has: {command.printed}"]))
        if "nginx -t" in command.text:
            asking.start()
    asking.going = False
    if asking.ident is not None:
        asking.join()
        say(f"answers while all this went on: {dict(asking.answers)}")
        if set(asking.answers) != {"200"}:
            faults.append("requests without an answer")
    return faults


def main() -> None:
    """Start the namespace, or in it, run the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--model", type=Path, default=ROOT / "tests" / "models" / "letters", help="run (de-en) to serve"
    )
    parser.add_argument("--base", type=Path, help="tar file of the Dockerfile's base image; else it is pulled")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if sys.platform != "linux" or os.geteuid() != 0:
        raise SystemExit("this needs root on Linux, for a mount namespace")
    if not arguments.inside:
        raise SystemExit(subprocess.run([*NAMESPACE, sys.executable, *sys.argv, "--inside"]).returncode)
    folder = Path(tempfile.mkdtemp(prefix="nmt-runbook-"))
    folder.chmod(0o755)
    layer(folder)
    checkout = prepare(folder, arguments.model.resolve())
    engine = start_engine(folder, arguments.base)
    if faults := run_all(folder, checkout, engine):
        raise SystemExit("failed: " + "; ".join(faults))


if __name__ == "__main__":
    main()
