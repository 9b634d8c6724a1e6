"""Readable for everyone: keyboard, a projector, dark, large type."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LEGIBLE = 4.5  # WCAG 2.2, level AA
PROJECTOR_EXCESS_PX = 400

FOCUSED = """() => {
  const e = document.activeElement;
  return [e.getAttribute('role') || e.tagName.toLowerCase(), e.getAttribute('aria-label') || e.innerText || ''];
}"""
CONTRAST = """(selector) => [...document.querySelectorAll(selector)].map(element => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3])).concat(1);
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
  const ground = layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  const luminance = color => color.slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ink = over(rgba(getComputedStyle(element).color), ground);
  const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
  return [element.className + ': ' + element.innerText.slice(0, 30), (high + 0.05) / (low + 0.05)];
})"""
TEXTS = (
    ".np-title, h2, .np-label, .np-value, .np-detail, .np-why td, .np-warning, "
    ".np-code span, button:not(:disabled) p, label p"
)
IS_DARK = "() => getComputedStyle(document.querySelector('.stApp')).colorScheme === 'dark'"


def assert_legible(student, selector=TEXTS):
    contrasts = student.page.evaluate(CONTRAST, selector)
    assert contrasts, "there is text"
    faint = [f"{name}: {contrast:.2f}" for name, contrast in contrasts if contrast < LEGIBLE]
    assert not faint, "\n".join(faint)


def test_the_keyboard_alone_measures_what_fits_the_projector_and_chooses_a_section(visit, record_property):
    student = visit("flops_mfu", flops_mfu_section="Measure")
    student.ready_to_measure()
    student.settle()
    reached = []
    for _ in range(60):
        student.page.keyboard.press("Tab")
        reached.append(tuple(student.page.evaluate(FOCUSED)))
        if reached[-1] == ("button", "Measure"):
            break
    assert ("button", "Measure") in reached, reached
    assert "radio" in {role for role, _name in reached}, reached  # and the arrow keys go on from there
    for control in (("switch", "Predict first"), ("switch", "Lecture"), ("input", "B"), ("input", "K")):
        assert control in reached, (control, reached)
    student.page.keyboard.press("Enter")
    student.expect_measured()

    chart = student.page.get_by_test_id("stVegaLiteChart")
    excess = student.page.evaluate(
        "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollHeight - e.clientHeight; }"
    )
    record_property("excess_px", excess)
    assert "predicted" in chart.get_attribute("aria-label")
    assert excess <= PROJECTOR_EXCESS_PX, excess
    student.page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
    for part in (student.predicted, student.measured, student.ratio):
        box = part.bounding_box()
        assert box["y"] >= 0, box
        assert box["y"] + box["height"] <= 720, box

    student.page.get_by_role("radio", name="Scale").focus()
    student.page.keyboard.press("ArrowRight")
    student.page.keyboard.press("Space")
    expect(student.question).to_have_text("How many FLOPs is a matrix multiply?")


def test_a_new_value_moves_what_the_chart_shows_and_its_words(visit):
    student = visit("flops_mfu", flops_mfu_section="Scale")
    student.settle()
    chart = student.page.locator("[data-testid=stVegaLiteChart] svg")
    words = student.page.locator(".np-spoken")
    drawn, said = chart.element_handle(), words.inner_text()
    expect(chart).to_contain_text("4.79 ZFLOP")
    expect(chart.locator(".role-axis-label").first).not_to_contain_text("1e+18")

    student.set_number("weeks", 0.01)
    expect(chart).to_contain_text("47.9 EFLOP")
    expect(chart.locator(".role-axis-label").first).to_contain_text("1e+18")  # the axis begins where it must now
    assert drawn.evaluate("drawn => drawn.isConnected"), "the chart was made anew"
    expect(words).not_to_have_text(said)
    style = words.evaluate("words => { const box = getComputedStyle(words.closest('.stElementContainer'));"
                           " return [box.position, box.clipPath]; }")  # fmt: skip
    assert style == ["absolute", "inset(50%)"], "it takes no room and is not seen"


@pytest.mark.parametrize(("scheme", "choice"), [("light", "Dark"), ("dark", "Light")])
def test_the_theme_follows_the_system_until_another_is_chosen_and_is_legible(visit, scheme, choice):
    student = visit("flops_mfu", context={"color_scheme": scheme}, flops_mfu_section="Count")
    assert student.page.evaluate(IS_DARK) == (scheme == "dark")
    assert_legible(student)

    def chosen() -> None:
        student.page.wait_for_function(f"dark => ({IS_DARK})() === dark", arg=choice == "Dark")
        student.settle()
        assert_legible(student)

    student.choose_theme(choice)
    chosen()
    student.page.reload()
    chosen()
    student.menu("Start", "Napkin")
    expect(student.question).to_have_text("How long does it take to train a language model?")
    chosen()


def test_lecture_makes_the_type_large_on_every_page(visit):
    student = visit("flops_mfu")
    size = "() => parseFloat(getComputedStyle(document.documentElement).fontSize)"
    normal = student.page.evaluate(size)
    student.turn("Lecture", on=True)
    student.page.wait_for_function(f"normal => ({size})() > 1.2 * normal", arg=normal)
    student.menu("Start", "Napkin")
    expect(student.question).to_have_text("How long does it take to train a language model?")
    expect(student.toggle("Lecture")).to_be_checked()
    student.page.wait_for_function(f"normal => ({size})() > 1.2 * normal", arg=normal)
    student.turn("Lecture", on=False)
    student.page.wait_for_function(f"normal => ({size})() === normal", arg=normal)
