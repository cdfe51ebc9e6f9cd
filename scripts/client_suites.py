"""Run the test suites of clients, unchanged, against `nmt serve`: python scripts/client_suites.py [SUITE ...]

deepl-python and deepl-node are cloned at a tag, because their packages come without tests; LibreTranslate and openai
are sdists of the package index. LangChain's standard tests of chat models are a package. LiteLLM, libretranslatepy and
deep-translator have no tests of a server, so those in client_tests/ call what they offer. `--sources FOLDER` takes
clones that are there, FOLDER/deepl-python and so on. The server has a model for each direction between English and the
languages of the suites, all of them that of the tests which reverses digits, and a translation memory with the
sentences whose translations the suites know.

A test counts as passed, as failed, or as not applicable: skipped by the suite without DeepL's mock server, or listed in
NOT_APPLICABLE with the reason. The exit code is 1 if a test failed, or a suite did not end within LIMIT_SECONDS.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
KEY = "a-key-of-the-suites"
CODES = [
    *("ar", "bg", "cs", "da", "de", "el", "es", "et", "fi", "fr", "he", "hu", "id", "it", "ja", "ko"),
    *("lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "th", "tr", "uk", "vi", "zh"),
]
LIMIT_SECONDS = 900  # for the tests of a suite
PIP = ("{python}", "-m", "pip", "install", "--quiet", "pytest>=8,<9", "requests>=2.32.5")
PYTEST = ("{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml={report}")


class Suite(NamedTuple):
    """Where the tests of a client come from, and how they are run."""

    source: str  # URL of a repository and its tag, a requirement of the package index, or a file beside this one
    setup: Sequence[Sequence[str]]  # commands, in the folder of the sources; {python} is that of an environment
    run: Sequence[str]  # writes {report}, as JUnit does
    keys: bool = True  # whether the server asks for a key
    models: Sequence[str] = ()  # names that the suite asks for


SUITES = {
    "deepl-python": Suite(
        "https://github.com/DeepLcom/deepl-python v1.30.0",
        ((*PIP, "pydantic<2", "click>=8", "keyring", "."),),
        (*PYTEST, "tests"),
    ),
    "deepl-node": Suite(
        "https://github.com/DeepLcom/deepl-node v1.27.0",
        (("npm", "install", "--silent", "--no-audit", "--no-fund"), ("npm", "run", "--silent", "build")),
        # Without what asks no server: the client's own work on files.
        (
            *("npx", "jest", "--silent", "--forceExit", "--reporters=default", "--reporters=jest-junit"),
            *(
                # A process for each file: what a test sets for all of node would hold for those of other files.
                "--maxWorkers=2",
                "--workerIdleMemoryLimit=1KB",
                "--testPathIgnorePatterns",
                "documentMinification",
                "fsHelper",
                "translationMemories",
                "styleRules",
                "rephraseText",
            ),
        ),  # and what is DeepL's product alone
    ),
    "libretranslate": Suite(
        "libretranslate==1.9.6",
        (PIP,),
        (*PYTEST, "api"),
        keys=False,
    ),
    "langchain": Suite(
        "client_tests/test_langchain.py",
        ((*PIP, "langchain-openai>=1.7,<2", "langchain-tests>=1.1,<2"),),
        (*PYTEST, *("--asyncio-mode=auto", "-o", "asyncio_default_test_loop_scope=session"), "test_langchain.py"),
    ),
    "litellm": Suite(
        "client_tests/test_litellm.py",
        ((*PIP, "litellm>=1.110,<2"),),
        (*PYTEST, "-o", "filterwarnings=", "test_litellm.py"),  # those of its packages are not nmt's
    ),
    "openai": Suite(
        "openai==3.54.0",
        ((*PIP, "pytest-asyncio", "respx", "rich", ".[aiohttp]"),),
        (
            *(*PYTEST, "-o", "asyncio_mode=auto", "tests/api_resources/chat/test_completions.py"),
            *("tests/api_resources/test_completions.py", "tests/api_resources/test_models.py"),
        ),
        keys=False,
        models=("gpt-6-astra", "gpt-3.5-turbo-instruct"),
    ),
    "libretranslate-clients": Suite(
        "client_tests/test_libretranslate_clients.py",
        ((*PIP, "libretranslatepy==2.1.4", "deep-translator==1.11.4"),),
        (*PYTEST, "test_libretranslate_clients.py"),
    ),
}

_DETECTED = "DeepL detects the language of two words; here they are in too few for 32 languages"
_MODEL = "compares with what DeepL's model writes"
_PRODUCT = "rephrasing, style rules, custom instructions: DeepL's product"
_FORMALITY = "needs a model that was trained with formality"
_SYMBOLS = "a term of symbols alone is refused: symbols are kept as they are"
_SAME = "a document in the language of the target is returned as it is"
_NO_TEXT = "a message of the developer alone has nothing to translate"
_KEPT = "the server keeps no conversations, and deletes no models"
NOT_APPLICABLE = {
    "deepl-python": {
        r"test_cli test_(text|text_stdin|text_preserve_formatting|document)$": _DETECTED,
        r"test_translate_text test_(single_text|string_list|string_generator|source_lang|target_lang)$": _DETECTED,
        r"test_translate_text test_(mixed_case_languages|extra_body_params)$": _DETECTED,
        r"test_general test_language$": _FORMALITY,
        r"test_translate_(text|document) test_(translate_document_)?formality$": _FORMALITY,
        r"glossary test_glossary_translate_(text_basic|document)$": _MODEL,
        r"test_translate_text test_tag_handling_(xml|html)$": _MODEL,
        r"test_rephrase_text|test_style_rules|test_custom_instructions": _PRODUCT,
        r"glossary test_glossary_get_entries$": _SYMBOLS,
        r"test_document_failure_during_translation$": _SAME,
    },
    "deepl-node": {
        r"translate text should translate (a single text|an array of texts)$": _DETECTED,
        r"should translate with (tag_handling_version option|empty custom instructions array)$": _DETECTED,
        r"translate text allows extra parameters to override standard parameters$": _DETECTED,
        r"translate document should translate using (file paths|file streams|buffer input|file handles)$": _DETECTED,
        r"translate (text|document) should translate (with|using) formality$": _FORMALITY,
        r"general lists source and target languages$": _FORMALITY,
        r"translate text should translate using specified (XML|HTML) tags$": _MODEL,
        r"translate using glossaries should (create basic text|translate documents) using glossaries$": _MODEL,
        r"testGlossaryTranslateText(Sentence|Basic)$": _MODEL,
        r"testGlossaryGetEntries$": _SYMBOLS,
        r"should translate with custom instructions$|with rephrase text$": _PRODUCT,
        r"translate document should handle document failure$": _SAME,
    },
    "openai": {
        r"chat\.test_completions\S* test_(method|raw_response|streaming_response)_create_": _NO_TEXT,
        r"chat\.test_completions\S* test_(method|raw_response|streaming_response)_(retrieve|update|list|delete)": _KEPT,
        r"test_models\S* test_(method|raw_response|streaming_response)_delete": _KEPT,
    },
    "libretranslate": {r"test_api_translate_unsupported_language$": "the message also says which languages there are"},
}
"""For each suite, patterns of tests and why they ask for what is DeepL's or LibreTranslate's own product."""

# LibreTranslate's tests call its application; here, a server.
CONFTEST = """
import os

import pytest
import requests


class Answer:
    def __init__(self, response):
        self.status_code, self.data, self.headers = response.status_code, response.content, response.headers
        self.json = response.json() if "json" in response.headers.get("content-type", "") else None


class Client:
    def get(self, path, **options):
        return Answer(requests.get(os.environ["NMT_URL"] + path, **options))

    def post(self, path, **options):
        return Answer(requests.post(os.environ["NMT_URL"] + path, **options))


@pytest.fixture
def client():
    return Client()
"""


def main() -> None:
    """Run the suites; exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)")
    parser.add_argument("--sources", type=Path, help="folder with the sources, which are copied")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "client-suites", help="folder to work in")
    options = parser.parse_args()
    if unknown := set(options.suites) - SUITES.keys():
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    names = options.suites or [*SUITES]
    failed = [name for name in names if not run_suite(name, options.work.resolve(), options.sources)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def run_suite(name: str, work: Path, sources: Path | None) -> bool:
    """Set a suite up, run it, and print how many of its tests passed; return whether none failed."""
    suite, folder = SUITES[name], work / name
    if not folder.is_dir():
        fetch(suite.source, folder, sources and sources / name)
    python = work / f"{name}-python" / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    report = work / f"{name}.xml"
    report.unlink(missing_ok=True)
    places = {"python": python, "report": report}
    stamp = folder / ".set-up"
    if not stamp.exists():
        for command in suite.setup:
            subprocess.run([part.format(**places) for part in command], cwd=folder, check=True)
        stamp.touch()
    if name == "libretranslate":
        shutil.copytree(folder / "libretranslate" / "tests" / "test_api", folder / "api", dirs_exist_ok=True)
        (folder / "api" / "conftest.py").write_text(CONFTEST)
    with serving(work / "models", sentences(folder), suite) as address:
        # deepl-node's tests that answer for the server know it by this name. Without it they fail with an error that a
        # process cannot send to another one: it ends, and jest starts it anew, some minutes long.
        url = address.replace("127.0.0.1", "localhost")
        environment = {
            **os.environ,
            "NMT_URL": url,
            "TEST_API_BASE_URL": f"{url}/v1",
            "DEEPL_SERVER_URL": url,
            "DEEPL_AUTH_KEY": KEY,
            "JEST_JUNIT_OUTPUT_FILE": str(report),
        }
        with (work / f"{name}.log").open("wb") as log:
            run = [part.format(**places) for part in suite.run]
            if not ends(run, folder, environment, log):
                sys.stdout.write(f"{name}: did not end within {LIMIT_SECONDS} seconds; see {log.name}\n")
                return False
    outcomes = read_report(report, NOT_APPLICABLE.get(name, {}))
    counts = Counter(outcomes.values())
    numbers = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "not applicable"))
    sys.stdout.write(f"{name}: {numbers}\n")
    for test, outcome in outcomes.items():
        if outcome == "failed":
            sys.stdout.write(f"  {test}\n")
    return bool(outcomes) and not counts["failed"]


def ends(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: IO[bytes]) -> bool:
    """Run a command; return whether it ended within LIMIT_SECONDS. If not, it is killed with all that it started."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True


def fetch(source: str, folder: Path, known: Path | None) -> None:
    """Put the sources of a suite into `folder`: a copy of `known`, or what `source` names."""
    if known is not None and known.is_dir():
        shutil.copytree(known, folder, symlinks=True)
        return
    if source.endswith(".py"):
        folder.mkdir(parents=True)
        shutil.copy(Path(__file__).parent / source, folder)
        return
    url, _, tag = source.partition(" ")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if tag:
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, str(folder)]
        subprocess.run(clone, check=True)
        return
    archives = folder.with_name(f"{folder.name}-sdist")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", source.partition("==")[0]]
    subprocess.run([*pip, "--dest", str(archives), source], check=True)
    (archive,) = archives.iterdir()
    shutil.unpack_archive(archive, archives / "unpacked", filter="data")
    (unpacked,) = (archives / "unpacked").iterdir()
    unpacked.rename(folder)


def sentences(folder: Path) -> dict[str, str]:
    """Return the sentence of deepl-python's or deepl-node's tests in each language; none of other suites."""
    python, node = folder / "tests" / "conftest.py", folder / "tests" / "core.ts"
    if python.is_file():
        for statement in ast.parse(python.read_text("utf-8")).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "example_text":
                return {code.lower(): text for code, text in ast.literal_eval(statement.value).items()}
    if node.is_file():
        table = re.search(r"internalExampleText[^{]*\{(.*?)\n\};", node.read_text("utf-8"), re.DOTALL)
        rows = re.findall(r"'?([\w-]+)'?: '(.*)',", table[1] if table else "")
        return {code.lower(): text for code, text in rows}
    return {}


@contextmanager
def serving(models: Path, known: Mapping[str, str], suite: Suite) -> Iterator[str]:
    """Serve all directions of the suites, with a memory of what is `known`; yield the URL."""
    names = []
    for name in suite.models:
        shutil.copytree(ROOT / "tests" / "models" / "digits", models / name, dirs_exist_ok=True)
        names += ["--model", str(models / name)]
    for pair in [pair for code in CODES for pair in (("en", code), (code, "en"))]:
        run = models / "-".join(pair)
        if not run.is_dir():
            shutil.copytree(ROOT / "tests" / "models" / "digits", run)
            config = run / "config.yaml"
            text = config.read_text("utf-8").replace("src_lang: en", f"src_lang: {pair[0]}", 1)
            config.write_text(text.replace("tgt_lang: en", f"tgt_lang: {pair[1]}", 1), "utf-8")
        names += ["--model", str(run)]
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{escape(known["en"])}</seg></tuv>'
        f'<tuv xml:lang="{base}"><seg>{escape(text)}</seg></tuv></tu>\n'
        for code, text in known.items()
        if (base := code.partition("-")[0]) in CODES
    )
    memory, key_file = models / "memory.tmx", models / "keys.txt"
    memory.write_text(f'<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n', "utf-8")
    key_file.write_text(f"{KEY}\n", "utf-8")
    command = [sys.executable, "-m", "nmt", "serve", "--port", "0", *names]
    command += ["--api-keys", str(key_file)] if suite.keys else []
    command += ["--tm", str(memory)] if units else []
    with (models / "server.log").open("w+") as log:
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        assert server.stderr is not None
        try:
            url = next(line.split()[2].rstrip(";") for line in server.stderr if line.startswith("serving at "))
            yield url
        except StopIteration:
            sys.exit("nmt serve did not start")
        finally:
            server.terminate()
            log.write(server.communicate()[1])


def read_report(path: Path, not_applicable: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of each test in a report of JUnit's format."""
    outcomes = {}
    for case in ElementTree.parse(path).iter("testcase") if path.is_file() else ():
        test = f"{case.get('classname')} {case.get('name')}"
        is_excused = any(re.search(pattern, test) for pattern in not_applicable)
        if case.find("skipped") is not None or is_excused:
            outcomes[test] = "not applicable"
        else:
            is_faulty = case.find("failure") is not None or case.find("error") is not None
            outcomes[test] = "failed" if is_faulty else "passed"
    return outcomes


if __name__ == "__main__":
    main()
