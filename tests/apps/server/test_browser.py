"""The page in a real browser: headless Chromium, driven by selenium. $NMT_AXE names axe-core's axe.min.js."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.words import WORDS

pytestmark = pytest.mark.slow

SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--window-size=1200,900",
)  # fmt: skip
ONE, TWO, THREE, *_ = WORDS
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    found = [shutil.which(name) for name in ("chromium", "google-chrome")], shutil.which("chromedriver")
    binary = next(filter(None, found[0]), None)
    if binary is None or found[1] is None:
        pytest.skip("needs Chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, running):
    browser.get(running.url)
    browser.execute_script("localStorage.clear()")
    browser.get(running.url)
    wait_for(browser, lambda: browser.find_elements("css selector", "#source option"))
    return browser


def wait_for(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 120).until(lambda _: condition())


def by_id(browser, name):
    return browser.find_element("id", name)


def type_text(browser, text: str) -> None:
    by_id(browser, "text").send_keys(text)
    wait_for(browser, lambda: by_id(browser, "status").text.startswith("Translated"))


def choose(browser, name: str, code: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(by_id(browser, name)).select_by_value(code)


def test_what_is_typed_is_translated_line_by_line_with_alternatives(page, running):
    choose(page, "target", "fr")
    type_text(page, "123")
    wanted = running.translate(q="123", source="auto", target="fr", alternatives=3).json()
    assert by_id(page, "output").text == wanted["translatedText"].strip()
    assert by_id(page, "output").get_attribute("lang") == "fr"
    others = [item.text for item in page.find_elements("css selector", "#alternatives button")]
    assert others == [text for text in wanted["alternatives"] if text != wanted["translatedText"]]
    page.find_element("css selector", "#alternatives button").click()
    assert by_id(page, "output").text == others[0]
    by_id(page, "clear").click()
    assert by_id(page, "output").text == ""


def test_a_text_in_a_detected_language_goes_through_a_third_one_which_is_said(page):
    pytest.importorskip("py3langid", reason="needs the extra langid")
    choose(page, "target", "fr")
    type_text(page, "Guten Morgen, wie geht es Ihnen heute?")
    assert by_id(page, "status").text == "Translated from German"
    assert by_id(page, "target").get_property("value") == "fr"
    assert "through a third language: en" in by_id(page, "flags").text


def test_languages_swap_by_key_and_the_translation_becomes_the_text(page):
    from selenium.webdriver.common.keys import Keys

    choose(page, "source", "en")
    choose(page, "target", "de")
    type_text(page, "123")
    before = by_id(page, "output").text
    by_id(page, "text").send_keys(Keys.ALT, "s")
    wait_for(page, lambda: by_id(page, "source").get_property("value") == "de")
    assert by_id(page, "target").get_property("value") == "en"
    assert by_id(page, "text").get_property("value").strip() == before


def test_arrow_keys_and_the_mouse_show_where_a_word_came_from(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    choose(page, "source", "de")
    type_text(page, "12 345")
    by_id(page, "output").send_keys(Keys.ARROW_RIGHT)
    first = page.find_element("css selector", "#output .linked")
    assert by_id(page, "status").text.startswith(f"{first.text.strip()}:")
    ActionChains(page).move_to_element(page.find_elements("css selector", "#output .word")[-1]).perform()
    assert page.find_elements("css selector", "#output .word")[-1].get_attribute("class").endswith("linked")


def test_the_mode_is_kept_and_a_phone_shows_one_column(page, running):
    by_id(page, "theme").click()
    other = by_id(page, "theme").text  # the mode that a click turns on
    page.get(running.url)
    wait_for(page, lambda: page.find_elements("css selector", "#source option"))
    assert by_id(page, "theme").text == other
    assert page.execute_script("return document.documentElement.dataset.theme") not in other.lower()
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        text, output = by_id(page, "text").rect, by_id(page, "output").rect
        assert output["y"] > text["y"] + text["height"]
        assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_document_is_translated_and_can_be_fetched(page, tmp_path):
    (tmp_path / "page.html").write_text("<p>12 <b>34</b></p>")
    by_id(page, "file").send_keys(str(tmp_path / "page.html"))
    link = wait_for(page, lambda: page.find_elements("css selector", "#file-status a"))[0]
    assert link.text == "Download the translation of page.html"


def open_lists(page) -> None:
    page.find_element("css selector", "#documents summary").send_keys("\n")  # opens them by the keyboard


def links(page, name: str, number: int):
    wait_for(page, lambda: len(page.find_elements("css selector", f"#{name} a")) == number)
    return page.find_elements("css selector", f"#{name} a")


def test_a_document_comes_with_a_list_and_a_corrected_list_gives_the_document(page, running, tmp_path):
    (tmp_path / "page.html").write_text("<p>12 <b>34</b></p>")
    choose(page, "source", "de")
    choose(page, "review", "tmx")
    by_id(page, "file").send_keys(str(tmp_path / "page.html"))
    document, listed = links(page, "file-status", 2)
    assert listed.text == "Download the list of the translations of page.html"
    assert listed.get_attribute("download") == "page.en.review.tmx"
    translation = running.client.get(document.get_attribute("href")).text
    lines = running.client.get(listed.get_attribute("href")).text
    open_lists(page)
    by_id(page, "apply").click()
    assert by_id(page, "apply-status").text == "Choose the document and its list"
    (tmp_path / "list.tmx").write_text(lines.replace("{h0}", "correct {h0}").replace("12 correct", "12"))
    by_id(page, "original").send_keys(str(tmp_path / "page.html"))
    by_id(page, "reviewed").send_keys(str(tmp_path / "list.tmx"))
    by_id(page, "apply").click()
    (corrected,) = links(page, "apply-status", 1)
    written = running.client.get(corrected.get_attribute("href")).text
    assert written.split() == translation.replace("<b>", "correct <b>").split()
    (tmp_path / "other.html").write_text("<p>56")
    by_id(page, "original").send_keys(str(tmp_path / "other.html"))
    by_id(page, "apply").click()
    wait_for(page, lambda: "not the list of this document" in by_id(page, "apply-status").text)
    page.get_log("browser")  # names the refused request


def test_a_document_that_needs_no_translation_has_no_list_which_is_said(page, tmp_path):
    (tmp_path / "page.html").write_text("<p>12")
    choose(page, "review", "html")
    page.execute_script("fill(source, ['de'], 'de'); fill(target, ['de'], 'de')")
    by_id(page, "file").send_keys(str(tmp_path / "page.html"))
    links(page, "file-status", 1)
    assert by_id(page, "file-status").text.endswith("Nothing was to translate, so there is no list")


def test_axe_finds_no_violation_in_the_open_lists_and_they_fit_a_phone(page, tmp_path):
    open_lists(page)
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
        check_with_axe(page)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def glossary_page(browser, words_run, start):
    """The page of a server whose model was trained with a glossary; its box is open."""
    server = start([words_run])
    browser.get(server.url)
    browser.execute_script("localStorage.clear()")
    browser.get(server.url)
    wait_for(browser, lambda: by_id(browser, "glossary-box").is_displayed())
    browser.find_element("css selector", "#glossary-box summary").send_keys("\n")  # opens it by the keyboard
    return browser, server


def test_terms_in_the_box_are_sent_with_the_text_and_those_missed_are_said(glossary_page):
    page, server = glossary_page
    by_id(page, "glossary").send_keys(f"{ONE} = xyzzy")
    assert by_id(page, "glossary-status").text == "Terms: 1"
    by_id(page, "text").send_keys(f"{ONE} {TWO}")
    body = {"q": f"{ONE} {TWO}", "source": "de", "target": "en", "alternatives": 3}
    wanted = server.translate(**body, glossary={ONE: "xyzzy"}).json()
    missed = f", without {ONE} = xyzzy" if wanted["terms_missed"] else ""
    wait_for(page, lambda: by_id(page, "status").text == f"Translated{missed}")
    assert by_id(page, "output").text == wanted["translatedText"].strip()
    page.get(server.url)
    wait_for(page, lambda: by_id(page, "glossary-status").get_property("textContent") == "Terms: 1")


def test_lines_that_are_no_terms_are_named_and_left_out(glossary_page):
    page, _ = glossary_page
    by_id(page, "glossary").send_keys(f"# mine\n{ONE}\n{TWO}=a\n{TWO}=b\n{THREE}=c=d")
    assert by_id(page, "glossary-status").text == (
        f"Left out: line 2: write a term, a tab or =, and its translation; line 4: {TWO} has two translations"
    )
    assert page.execute_script("return terms") == {TWO: "a", THREE: "c=d"}


def test_terms_are_read_from_a_file_and_sent_with_a_document(glossary_page, tmp_path):
    page, server = glossary_page
    (tmp_path / "terms.tsv").write_text(f"{ONE}\txyzzy\tnote\n{TWO}\tmoon\n")
    by_id(page, "glossary-file").send_keys(str(tmp_path / "terms.tsv"))
    wait_for(page, lambda: by_id(page, "glossary-status").text == "Terms: 2")
    assert page.execute_script("return terms") == {ONE: "xyzzy", TWO: "moon"}
    (tmp_path / "page.html").write_text(f"<p>{ONE}</p>")
    by_id(page, "file").send_keys(str(tmp_path / "page.html"))
    link = wait_for(page, lambda: page.find_elements("css selector", "#file-status a"))[0]
    url = link.get_attribute("href")
    body = {"q": f"<p>{ONE}</p>", "source": "de", "target": "en", "format": "html", "glossary": {ONE: "xyzzy"}}
    assert server.client.get(url).text == server.translate(**body).json()["translatedText"]


def test_axe_finds_no_violation_in_the_open_glossary(glossary_page):
    page, _ = glossary_page
    by_id(page, "glossary").send_keys("a term without its translation")
    check_with_axe(page)


def test_text_from_right_to_left_begins_at_the_right(page):
    by_id(page, "text").send_keys("שלום 12")
    assert page.execute_script("return getComputedStyle(document.getElementById('text')).direction") == "rtl"


def test_an_error_of_the_server_is_shown(page):
    page.execute_script("document.getElementById('text').value = '1'.repeat(20001)")
    by_id(page, "text").send_keys("1")
    wait_for(page, lambda: by_id(page, "status").text == "Too long: at most 20,000 characters")


def check_with_axe(page):
    axe = Path(os.environ.get("NMT_AXE", "node_modules/axe-core/axe.min.js"))
    if not axe.is_file():
        pytest.skip("needs axe-core: npm install axe-core, and $NMT_AXE")
    page.execute_script(axe.read_text(encoding="utf-8"))
    for _ in range(2):  # in either mode
        found = page.execute_async_script("axe.run().then((found) => arguments[0](found.violations))")
        assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in found] == []
        by_id(page, "theme").click()
    assert [entry["message"] for entry in page.get_log("browser")] == []


def test_axe_finds_no_violation_and_the_console_stays_empty(page):
    type_text(page, "12 345")
    check_with_axe(page)
