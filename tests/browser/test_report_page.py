"""report.html in a real browser (headless Chromium)."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec

pytestmark = pytest.mark.slow

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


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


@pytest.mark.parametrize("kind", REPORTS)
def test_opens_from_a_file_and_asks_for_nothing(kind, pages, browser):
    page = browser.new_page()
    requests, said = [], []
    page.on("request", lambda sent: requests.append(sent.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(pages[kind].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    assert requests == [page.url] and page.url.startswith("file://") and said == []
    page.close()


def test_questions_are_filtered_and_read_side_by_side(pages, browser):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
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
