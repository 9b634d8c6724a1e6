"""A control that is drawn as before is sent as Streamlit sends it, byte for byte, whatever was done before.

Beside the app runs one in which Streamlit draws every control at every run. Two visitors do the same in both.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from benchmarks._session import CONTROLS, Control, Session
from pages._ui import redraw
from tests.browser.conftest import running_app

pytestmark = pytest.mark.browser

CHANGES = 5
# Some of each kind whose controls do not wait for a job, which is done sooner or later.
SECTIONS = {
    "": ("Training time", "Published runs"),
    "dtypes": ("Bits", "Loss scaling"),
    "strides_views": ("Chain", "Write"),
    "einops_playground": ("Pattern", "Order"),
    "flops_mfu": ("Scale", "Count"),
    "gradients": ("Check", "Backward"),
}


@dataclass
class Visitor(Session):
    """One who keeps what came of controls in the last run."""

    heard: list[bytes] = field(default_factory=list)
    chooser: Control | None = None  # of the page's section

    async def _run(self, message):
        self.heard.clear()
        return await super()._run(message)

    def _read(self, kind, forward):
        super()._read(kind, forward)
        if kind == "delta" and forward.delta.new_element.WhichOneof("type") in CONTROLS:
            self.heard.append(forward.SerializeToString(deterministic=True))

    def _meet(self, control):
        super()._meet(control)
        if control.kind == "button_group" and control.proto.query_param_key.endswith("_section"):
            self.chooser = control

    @property
    def inside(self) -> list[Control]:
        """The controls of the section."""
        return [one for one in self.controls.values() if one.fragment]


class Pair:
    """Two visitors who do the same, one of each app."""

    def __init__(self, page: str, address: str, urls: tuple[str, str]) -> None:
        self.one, self.other = (Visitor(url, page, address) for url in urls)
        self.told, self.done = 0, [address]

    async def change(self, control: Control, value: object) -> None:
        """Both; the controls that came of it must be the same."""
        self.done.append(f"{control.label} = {value}")
        for visitor in (self.one, self.other):
            await visitor.change(control, value)
        assert self.one.heard == self.other.heard, self.done
        assert self.one.query == self.other.query, self.done
        self.told += sum(getattr(one.proto, "set_value", False) for one in self.one.inside)

    def labelled(self, label: str, *kinds: str) -> Control:
        return next(one for one in self.one.of_kind(*kinds) if one.fragment and one.label == label)


@asynccontextmanager
async def visit(page: str, section: str, urls: tuple[str, str]) -> AsyncIterator[Pair]:
    pair = Pair(page, f"{page or 'napkin'}_section={section}", urls)
    for visitor in (pair.one, pair.other):
        await visitor.open()
    yield pair
    for visitor in (pair.one, pair.other):
        await visitor.close()


@pytest.fixture(scope="module")
def urls(server, tmp_path_factory):
    assert redraw.ThreadState is not None, "this version of Streamlit has not got what is used; it only gets slower"
    never = "from pages._ui import redraw; redraw.ThreadState = None"
    with running_app(tmp_path_factory.mktemp("plain") / "streamlit.log", never) as plain:
        yield server.url, plain.url


def elsewhere(function: Callable, *given):
    """Playwright has an event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(lambda: asyncio.run(function(*given))).result()


async def change_at_random(urls: tuple[str, str]) -> int:
    """In each section some controls, one after another; then another section and back. How many values were told."""
    told = 0
    for page, sections in SECTIONS.items():
        for section, another in (sections, sections[::-1]):
            choose = random.Random(f"{page}, {section}")
            async with visit(page, section, urls) as pair:
                for step in range(CHANGES):
                    if step == CHANGES - 3:
                        await pair.change(pair.one.chooser, another)
                        await pair.change(pair.one.chooser, section)
                    control = choose.choice(pair.one.inside)
                    await pair.change(control, control.value(choose.randrange(1, 6)))
                told += pair.told
    return told


def test_whatever_is_changed_the_controls_are_those_that_streamlit_draws(urls):
    assert elsewhere(change_at_random, urls) > 20


async def bring_others(urls: tuple[str, str]) -> None:
    """Controls that come, go, come back with the value they had, and move others."""
    async with visit("dtypes", "Range", urls) as pair:
        chooser = pair.labelled("Format", "selectbox")
        for option in ("bf16", "fp16", "a format of your own"):
            await pair.change(chooser, option)
        for value in (5, 6):
            await pair.change(pair.labelled("Exponent bits", "number_input"), value)
        for option in ("fp16", "bf16", "a format of your own", "fp16"):
            await pair.change(chooser, option)
        assert pair.told > 0, "the exponent bits came back"
    async with visit("", "Training time", urls) as pair:
        switch = pair.labelled("Energy and cost", "checkbox")
        before = len(pair.one.inside)
        for value in (True, False, True):
            await pair.change(switch, value)
        new = pair.one.inside[before:]
        assert new
        for step in (1, 2):
            for control in new:
                await pair.change(control, control.value(step))
        for value in (False, True):
            await pair.change(switch, value)
        await pair.change(new[0], new[0].value(3))


def test_controls_that_come_and_go_are_told_what_they_had(urls):
    elsewhere(bring_others, urls)


async def press_and_move_on(urls: tuple[str, str]) -> None:
    """A preset's values reach the browser, once; what is changed afterwards is kept."""
    async with visit("flops_mfu", "Count", urls) as pair:
        batch = pair.labelled("B", "number_input")
        for value in (3, 4):
            await pair.change(batch, value)
        await pair.change(pair.labelled("256³", "button"), True)
        assert pair.one.controls[batch.proto.id].proto.set_value
        assert pair.one.controls[batch.proto.id].proto.value == 256
        await pair.change(pair.labelled("D", "number_input"), 300)
        assert not pair.one.controls[batch.proto.id].proto.set_value
        assert pair.one.states[batch.proto.id].int_value == 256
        assert "b=256" in pair.one.query


def test_a_value_that_a_button_sets_is_told_and_stays(urls):
    elsewhere(press_and_move_on, urls)
