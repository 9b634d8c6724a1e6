"""Pictures of every section of every page: `python -m tests.browser.screens FOLDER [PAGE ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.conftest import TIMEOUT_MS, running_app, running_browser
from tests.browser.student import PAGES, Student

SCREENS = {"projector": (1280, 720), "phone": (390, 844)}
THEMES = ("Light", "Dark")
MEASURE = "Measure"


def take(browser: Browser, url: str, folder: Path, pages: list[str], theme: str) -> None:
    """Each section twice where it is taller than its screen: as the screen shows it, and all of it."""
    for screen, (width, height) in SCREENS.items():
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        context.set_default_timeout(TIMEOUT_MS)
        for page in pages:
            student = Student(context.new_page(), url)
            student.open(page)
            student.choose_theme(theme)
            for label in student.section_labels():
                _take_section(
                    student, folder / f"{page or 'napkin'}-{label}-{theme.lower()}-{screen}".replace(" ", "_"), label
                )
            student.page.close()
        context.close()


def _take_section(student: Student, name: Path, label: str) -> None:
    student.section(label)
    student.settle()
    if label == MEASURE:
        student.ready_to_measure()
        student.settle()
        student.page.screenshot(path=f"{name}-before.png")
        student.measure()
    student.page.screenshot(path=f"{name}.png")
    excess = student.page.evaluate(
        "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollHeight - e.clientHeight; }"
    )
    print(f"{name.name}: {excess} px taller than the screen", flush=True)
    size = student.page.viewport_size
    if excess > 0 and size is not None:
        student.page.set_viewport_size({"width": size["width"], "height": size["height"] + excess})
        student.settle()
        student.page.screenshot(path=f"{name}-all.png")
        student.page.set_viewport_size(size)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    chosen = [page if page != "napkin" else "" for page in sys.argv[2:]] or PAGES
    with tempfile.TemporaryDirectory() as logs, running_app(Path(logs) / "log") as app, running_browser() as chromium:
        for theme in THEMES:
            take(chromium, app.url, target, chosen, theme)
