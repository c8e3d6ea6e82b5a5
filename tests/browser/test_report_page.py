"""report.html in a real browser (headless Chromium): offline, on a phone and a desktop, light and dark."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec

pytestmark = pytest.mark.slow

MEASURE = (Path(__file__).parent / "measure.js").read_text()
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WIDTHS = (360, 768, 1440)
SCHEMES = ("light", "dark")
LEAST_PIXELS = 11
LEAST_CONTRAST = 4.5  # WCAG 2, level AA
TOUCHING = 1.5  # pixels by which the boxes of two texts may overlap: they are higher than their letters


def few_methods(report) -> None:
    """The least that a report can be: no second draw, no greedy answers, no styles, no log, one split."""
    report.method("base")
    report.method("grpo", skill=1)


def many_methods(report) -> None:
    """All that a report can show, of twelve methods, some with names that are long or hold signs."""
    report.ask(family=["any", "none", "count", "all", "most"])
    report.method("base")
    report.method("base_again", model="base")
    names = ["grpo", "dapo", "rkl", "dph_f", *(f"dph_js_{i}" for i in range(6))]
    for i, name in enumerate(names):
        of_family = {"family": "DPH-JS, generator form", "eta": (0, 0.05, 0.2)[i % 3]} if i > 3 else {}
        report.method(name, skill=0.2 * i, kept_styles=1 + i % 5, training_log="log.jsonl", **of_family)
    report.content["methods"]["rkl"]["label"] = "DAPO <b>no</b> divergence & $dynamic$ sampling, seed 3"
    for name, step in itertools.product(names[:2], (20, 40)):
        report.checkpoint(name, step, skill=step / 40)
    metrics = {"critic/rewards/mean": 0.5, "dph/loss": 0.1, "val-core/bird/acc/mean@8": 0.4}
    lines = [{"step": s, "data": {name: v + s / 100 for name, v in metrics.items()}} for s in range(1, 9)]
    (report.folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


REPORTS = {
    "few": (few_methods, {"splits": ("math 500",), "styles": (), "greedy": False}),
    "many": (many_methods, {}),
}


@pytest.fixture(scope="module")
def pages(made_up_report, tmp_path_factory) -> dict[str, Path]:
    """{kind: report.html}."""
    found = {}
    for kind, (add_methods, shape) in REPORTS.items():
        report = made_up_report(tmp_path_factory.mktemp(kind), prompts=10, **shape)
        add_methods(report)
        write_report(read_spec(report.write()), report.folder)
        found[kind] = report.folder / "report.html"
    return found


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("Chromium is not on the PATH: run tests/browser/install_chromium.sh, or make test-all, which does.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=list(REPORTS))
def opened(request, pages, browser):
    """A report as a reader opens it, everything unfolded: (its page, its requests, what the console said)."""
    page: Page = browser.new_page(viewport={"width": WIDTHS[0], "height": 800})
    requests, said = [], []
    page.on("request", lambda sent: requests.append(sent.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(pages[request.param].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    yield page, requests, said
    page.close()


def measured(page: Page, width: int, contrast: bool = False) -> dict:
    page.set_viewport_size({"width": width, "height": 800})
    return page.evaluate(MEASURE, contrast)


def overlap(one: dict, other: dict, allowed: float) -> bool:
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > allowed and down > allowed


def test_opens_from_a_file_and_asks_for_nothing(opened):
    page, requests, said = opened
    assert requests == [page.url]
    assert page.url.startswith("file://")
    assert said == []


@pytest.mark.parametrize("width", WIDTHS)
def test_fits_the_screen_and_every_text_of_a_figure_is_legible(opened, width):
    page, *_ = opened
    seen = measured(page, width)
    assert seen["pageWidth"] <= width
    assert len(seen["figures"]) == page.locator("figure svg:visible").count() >= 2
    for figure in seen["figures"]:
        caption, texts = figure["caption"], figure["texts"]
        assert 0 <= figure["plot"]["left"] < figure["plot"]["right"] <= width, caption
        assert figure["plot"]["bottom"] - figure["plot"]["top"] > 40 and len(texts) > 4, caption
        for text in texts:
            assert text["pixels"] >= LEAST_PIXELS, (caption, text)
            assert text["left"] >= 0 and text["right"] <= width, (caption, text)
            assert figure["top"] <= text["top"] and text["bottom"] <= figure["bottom"] + TOUCHING, text
        for one, other in itertools.combinations(texts, 2):
            # Marks of methods with like values lie over each other, with their numbers.
            both_marks = one["text"].isdigit() and other["text"].isdigit()
            assert both_marks or not overlap(one, other, TOUCHING), (caption, one, other)
    for one, other in itertools.combinations(seen["figures"], 2):
        assert not overlap(one, other, 0), (one["caption"], other["caption"])


HEADINGS = "(found) => found.map((heading) => Number(heading.tagName[1]))"
UNNAMED = """() => [...document.querySelectorAll("[tabindex='0'], select, button, [role=img]")]
  .filter((e) => !(e.ariaLabel || e.closest("label") || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 99))"""


def test_can_be_read_by_keyboard_and_by_ear(opened):
    page, *_ = opened
    levels = page.eval_on_selector_all("h1, h2, h3, h4", HEADINGS)
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for box in page.locator(".scroll").all():
        assert box.get_attribute("role") == "region" and box.get_attribute("aria-label")
    assert page.evaluate(UNNAMED) == []
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.hash") == "#main"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_text_stands_out_in_both_colour_schemes(opened):
    page, *_ = opened
    colours = set()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        seen = measured(page, WIDTHS[1], contrast=True)
        assert len(seen["texts"]) > 100
        faintest = min(seen["texts"], key=lambda text: text["contrast"])
        assert faintest["contrast"] >= LEAST_CONTRAST, (scheme, faintest)
        colours.add((seen["background"], seen["ink"]))
    assert len(colours) == 2


def test_questions_are_filtered_and_read_side_by_side(pages, browser):
    page = browser.new_page(viewport={"width": WIDTHS[2], "height": 900})
    page.goto(pages["many"].as_uri())
    # Labels are texts, not markup or mathematics.
    assert page.locator("svg text", has_text="DAPO <b>no</b> divergence & $dynamic$ samp").count()
    assert page.locator("main b").get_by_text("no", exact=True).count() == 0
    answers, status = page.locator(".columns-of-answers > div"), page.locator(".controls output")
    page.select_option("select[name=filter]", label="All questions (10)")
    assert status.inner_text() == "1 of 10" and answers.count() == 11
    assert not page.locator(".part").is_visible()
    assert "of 16 correct; the first 8:" in answers.first.inner_text()
    page.select_option("select[name=filter]", label="hard (4)")
    assert status.inner_text() == "1 of 4"
    first = page.locator(".asked").inner_text()
    page.get_by_role("button", name="Next question").press("Enter")
    assert status.inner_text() == "2 of 4" and page.locator(".asked").inner_text() != first
    # A row of the grid is a question: the last of the first panel is plain.
    block = page.locator(".panels[data-split='0'] .cells").nth(1)
    size = block.bounding_box()
    assert not page.locator(".picked:visible").count()
    block.click(position={"x": 5, "y": size["height"] - 1})
    # The grid shows the base and three methods; seven models are folded below it.
    assert status.inner_text() == "10 of 10" and page.locator(".mark:visible").count() == 4
    picked = page.locator(".picked:visible")
    asked = page.locator(".asked").inner_text()
    assert picked.locator("p").inner_text() == asked and picked.locator("li").count() == 11
    assert picked.get_by_role("button", name="Row below").is_disabled()
    picked.get_by_role("button", name="Row above").click()
    assert status.inner_text() == "9 of 10" and picked.locator("p").inner_text() != asked
    picked.get_by_role("button", name="Read the answers").click()
    assert page.evaluate("document.activeElement.name") == "question"
    page.select_option("select[name=split]", label="Out of domain")
    assert "of out_of_domain?" in page.locator(".asked").inner_text()
    page.close()
