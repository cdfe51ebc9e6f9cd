"""The pages hang together: every link leads somewhere, every page is in the site's navigation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from nmt.config import Config
from nmt.config.faults import every_section, foreign_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")


def prose(page: Path) -> str:
    """Return the text of a page without code."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown's table of contents makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())
        for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page):
    for match in LINK.finditer(prose(page)):
        target, _, anchor = (match[1] or match[2]).partition("#")
        if target.startswith(("http:", "https:")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}#{anchor}"


def test_every_page_is_in_the_navigation_and_those_of_the_log_on_its_first_page():
    def leaves(node):
        for item in node:
            if isinstance(item, str):
                yield item
            else:
                value = next(iter(item.values()))
                yield from [value] if isinstance(value, str) else leaves(value)

    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    log = DOCS / "log"
    assert sorted(leaves(navigation)) == sorted(
        page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.parent != log
    )
    linked = {match[1] for match in LINK.finditer(prose(log / "index.md"))}
    assert linked >= {page.name for page in log.glob("*.md")} - {"index.md"}


def test_an_exponent_stands_over_a_whole_group_and_not_over_its_closing_bar():
    for page in PAGES:  # the converter makes `\rVert^2` a power of the bar alone, which browsers then draw too low
        assert not re.search(r"\\(rVert|rvert)\s*\^", prose(page)), page


def test_what_follows_a_block_in_an_item_belongs_to_it():
    """The site ends a list at a paragraph with less than four spaces, and the items after it become prose."""
    for page in PAGES:
        lines = CODE.sub("code", page.read_text(encoding="utf-8"))
        assert re.findall(r"\n\n {1,3}\S.{0,40}", lines) == [], page.name


def test_pages_read_well_outside_the_site():
    for page in PAGES:  # tabs and admonitions are shown as text elsewhere
        assert not re.search(r"^(===|!!!|\?\?\?) ", prose(page), flags=re.MULTILINE), page


def test_nobody_is_told_to_install_a_package_that_does_not_exist_or_is_a_strangers():
    for file in [*PAGES, *ROOT.glob("configs/*.yaml"), *ROOT.glob("nmt/**/*.py"), ROOT / "CHANGELOG.md"]:
        assert not re.search(r"pip\s+install\s+[\"']?nmt\b", file.read_text(encoding="utf-8")), file


def test_every_extra_that_a_page_or_a_message_names_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = set()
    for file in [*PAGES, *ROOT.glob("nmt/**/*.py")]:
        text = file.read_text(encoding="utf-8")
        named |= set(re.findall(r"\b(?:how_to_install|require)\([\"'](\w+)[\"']", text))
        named |= {
            name
            for names in re.findall(r"pip\s+install\s[^`\n]*[\"'.]\[([\w,-]+)\]", text)
            for name in names.split(",")
        }
    assert {"serve", "train", "documents", "xlsx"} <= named <= set(extras)


def test_the_readme_stays_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110


def test_the_tour_of_the_code_leads_to_eight_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files = re.findall(r"^\d\. \[`([\w/]+\.py)`\]\(nmt/([\w/]+\.py)\)", text, flags=re.MULTILINE)
    assert len(files) == 8
    assert [name for name, target in files if name != target] == []


def test_the_installation_page_names_every_extra_and_every_environment_variable():
    page = (DOCS / "how-to" / "install.md").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "nmt").rglob("*.py"))
    variables = set(re.findall(r"\bNMT_[A-Z_]+\b", source))
    assert {"NMT_MODEL"} <= variables
    assert [name for name in {*extras, *variables} if f"`{name}`" not in page] == []


def test_the_names_in_the_table_of_other_toolkits_lead_to_their_keys():
    text = (DOCS / "how-to" / "other-toolkits.md").read_text(encoding="utf-8")
    known = {".".join((*at, key)) for at, section in every_section() for key in section.model_fields}
    own = {key.rpartition(".")[2] for key in known}
    rows = [line.split("|")[1:-1] for line in text.partition("## Keys")[2].splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    for keys, *others in rows:
        named = set(re.findall(r"`([\w.]+)`", keys))
        assert known.issuperset(named), keys
        words = {word.replace("-", "_") for cell in others for word in re.findall(r"`([\w-]+)`", cell)}
        assert all(foreign_names().get(word) in named for word in words - own - {"lang"}), (keys, words)


USED = [page for page in PAGES if page.parent.name not in ("log", "decisions")]


def test_every_option_that_a_page_gives_a_command_is_one_of_it():
    reference = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8").split("\n## `nmt ")[1:]
    options = {part.partition("`")[0]: set(re.findall(r"--[a-z][\w-]*", part)) for part in reference}
    names = "|".join(sorted(options, key=len, reverse=True))
    command = re.compile(rf"\bnmt ({names})\b((?:\\\n|[^|;`#\n])*)")
    seen = 0
    for page in {*USED} - {DOCS / "how-to" / "benchmark.md"}:  # whose programs have options of their own
        for match in command.finditer(page.read_text(encoding="utf-8")):
            given = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", match[2]))
            assert given <= options[match[1]] | {"--help"}, (page.name, match[0])
            seen += len(given)
    assert seen > 300


def test_every_configuration_on_a_page_is_read():
    read = 0
    for page in USED:
        for block in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            given = yaml.safe_load(dedent(block))
            sections = {"data": given} if "train" in given else given
            data = {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": "pairs.tsv"}, **sections.pop("data", {})}
            Config.model_validate({"data": data, **sections})
            read += 1
    assert read > 20


def test_every_key_that_a_page_names_exists():
    known = {".".join((*at, key)) for at, section in every_section() for key in section.model_fields}
    for page in USED:
        keys = re.findall(
            r"[`=\s]((?:data|tokenizer|training|decoding)\.[a-z_]+)(?=[`=: ])", page.read_text(encoding="utf-8")
        )
        assert [key for key in keys if key not in known and not key.endswith((".js", ".json", ".safetensors"))] == [], (
            page.name
        )
