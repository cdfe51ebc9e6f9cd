"""The exported page in headless Chromium: corrections, long texts, a phone, the expected quality, axe."""

from __future__ import annotations

import pytest

from nmt.apps.server.corrections import Corrections
from nmt.base.languages import Direction
from nmt.translation.memory import TranslationMemory
from tests.apps.server.test_browser import PHONE, browser, by_id, check_with_axe, wait_for  # noqa: F401
from tests.apps.web.test_browsers import site  # noqa: F401

pytestmark = pytest.mark.slow
TYPED = "12 345 & 6\n<b>7</b>"


@pytest.fixture
def page(browser, site):  # noqa: F811
    browser.get(f"http://127.0.0.1:{site.server_port}/page/")
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    wait_for(browser, lambda: browser.find_elements("css selector", "#source option"))
    return browser


def type_text(page, text: str) -> None:
    page.execute_script("document.getElementById('text').value = arguments[0]", text)
    by_id(page, "text").send_keys(" ")
    wait_for(page, lambda: by_id(page, "status").text == "Translated")


def correct(page, text: str) -> None:
    page.execute_script("document.getElementById('correction-box').open = true")
    page.execute_script("document.getElementById('correction').value = arguments[0]", text)
    by_id(page, "suggest").click()
    wait_for(page, lambda: by_id(page, "status").text == "Kept on this device")


def test_corrections_stay_on_the_device_and_are_handed_over_as_a_tmx_file(page, tmp_path):
    assert not by_id(page, "collected-row").is_displayed()
    type_text(page, TYPED)
    correct(page, 'a & b\nc "d" \u0001')
    page.refresh()
    wait_for(page, lambda: "(2)" in by_id(page, "collected").get_attribute("textContent"))
    file = tmp_path / "corrections.tmx"
    link = by_id(page, "collected")
    assert link.get_attribute("download") == "corrections.tmx"
    file.write_text(page.execute_script("return backend.collected().tmx"), "utf-8")
    assert link.get_attribute("href").startswith("blob:")
    memory = TranslationMemory.read_all([str(file)], [Direction("en", "en")])[Direction("en", "en")]
    assert [memory.find_same(line).target for line in TYPED.splitlines()] == ["a & b", 'c "d"']
    Corrections(file)  # a server goes on with it
    page.execute_script("document.getElementById('correction-box').open = true")
    by_id(page, "forget").click()
    assert not by_id(page, "collected-row").is_displayed()
    assert page.execute_script("return backend.collected()") is None


def test_a_correction_is_used_at_once_for_lines_and_sentences(page):
    type_text(page, "12 3. 45 6.\n78")
    correct(page, "first one. second one.\nthird")
    assert page.execute_script("return backend.collected().count") == 4
    type_text(page, "45 6. 12 3.\n78")
    assert by_id(page, "output").text.rstrip() == "second one. first one.\nthird"
    type_text(page, "78")
    assert "100% similar" in by_id(page, "memory").text
    page.execute_script("backend.forget()")
    type_text(page, "78")
    assert by_id(page, "output").text.rstrip() != "third"


def test_a_blank_correction_is_refused_as_by_a_server(page):
    type_text(page, "12")
    page.execute_script("document.getElementById('correction-box').open = true")
    page.execute_script("document.getElementById('correction').value = ' '")
    by_id(page, "suggest").click()
    wait_for(page, lambda: by_id(page, "status").text == "The text or its correction is blank.")
    assert page.execute_script("return backend.collected()") is None


def test_a_browser_without_room_says_so_and_keeps_what_it_has(page):
    type_text(page, "12")
    correct(page, "a")
    page.execute_script("Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }")
    by_id(page, "suggest").click()
    wait_for(page, lambda: by_id(page, "status").text == "This browser has no room for corrections.")
    assert page.execute_script("return backend.collected().count") == 1


def test_a_long_text_comes_part_by_part_and_is_the_same_as_at_once(page):
    text = "".join(
        f"{number} {number + 1}. {number}\n" * (1 + number % 3) + "\n" * (number % 2) for number in range(900, 960)
    )
    page.execute_script("window.seen = 0; new MutationObserver(() => { seen++; }).observe(output, { childList: true })")
    type_text(page, text)
    assert page.execute_script("return units.length") > 3
    assert page.execute_script("return seen") > 3
    whole = page.execute_async_script(
        "backend.translator.translate(arguments[0]).then((a) => arguments[1](a.text))", text
    )
    assert page.execute_script("return units.map((unit) => unit.text).join('')").rstrip() == whole.rstrip()


def test_a_phone_needs_no_sideways_scrolling_also_from_right_to_left(page):
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        for text in ("12 345 " * 30, "שלום 12 " * 30, "1" * 300):
            type_text(page, text)
            page.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_expected_quality_is_shown_if_the_model_tells_it(page):
    type_text(page, "12")
    is_shown = by_id(page, "expected").is_displayed()
    assert is_shown == page.execute_script("return units[0].expected_chrf !== undefined")
    page.execute_script("show(units.map((unit) => ({ ...unit, expected_chrf: 61.7 })))")
    assert by_id(page, "expected").text == "Expected quality: 62 of 100 (chrF)"


def test_axe_finds_no_violation_on_the_exported_page(page):
    type_text(page, "12 345")
    page.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    check_with_axe(page)
