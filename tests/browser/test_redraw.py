"""A control that is drawn as before is sent as Streamlit sends it: byte for byte, in each section of each page."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from benchmarks._session import CONTROLS, Session
from pages._ui import redraw

pytestmark = pytest.mark.browser


@dataclass
class Listener(Session):
    """A visitor that keeps what came of controls in the last run, without their values' way to the browser."""

    heard: list[bytes] = field(default_factory=list)

    async def _run(self, message):
        self.heard.clear()
        return await super()._run(message)

    def _read(self, kind, forward):
        super()._read(kind, forward)
        if kind == "delta" and forward.delta.new_element.WhichOneof("type") in CONTROLS:
            self.heard.append(forward.SerializeToString(deterministic=True))


async def compare(url: str) -> list[str]:
    """What differs where a control gets a value again: first Streamlit drew them all, and then they were kept."""
    start = Session(url)
    await start.open()
    found, count = [], 0
    for page in start.pages:
        first = Session(url, page)
        await first.open()
        for section in first.sections[:-1]:  # the last is all of them
            visitor = Listener(url, page, f"{first.sections_key}={section}")
            await visitor.open()
            control = next((one for one in visitor.controls.values() if one.fragment and one.kind != "button"), None)
            if control is not None:
                await visitor.change(control, control.value(1))
                by_streamlit = [*visitor.heard]
                await visitor.change(control, control.value(2))
                await visitor.change(control, control.value(1))
                count += len(by_streamlit)
                found += [f"{page}, {section}"] if visitor.heard != by_streamlit else []
            await visitor.close()
        await first.close()
    await start.close()
    assert count > 200
    return found


async def press_every_button(url: str) -> tuple[list[str], int]:
    """What differs where a button sets values of controls that are kept from what it does to new ones.

    A change afterwards is of controls that Streamlit drew with the set value, or before that.
    """
    found, told = [], 0
    for page, section in (
        ("flops_mfu", "Count"),
        ("dtypes", "All formats"),
        ("tensors_memory", "Bytes"),
        ("einops_playground", "Pattern"),
        ("", "Training time"),
    ):
        address = f"{page or 'napkin'}_section={section}"
        one = Listener(url, page, address)
        await one.open()
        moved = next(c for c in one.controls.values() if c.fragment and c.is_typed)
        buttons = [c.proto.label for c in one.of_kind("button") if c.fragment]
        assert len(buttons) > 2
        await one.close()
        for label in buttons:
            heard = []
            for changes in (0, 3):
                visitor = Listener(url, page, address)
                await visitor.open()
                for step in (*range(1, changes), 0)[:changes]:  # and back to where it was
                    await visitor.change(visitor.controls[moved.proto.id], moved.value(step))
                button = next(c for c in visitor.of_kind("button") if c.fragment and c.proto.label == label)
                await visitor.change(button, True)
                told += sum(one.proto.set_value for one in visitor.controls.values() if one.kind != "button")
                heard.append([*visitor.heard])
                await visitor.change(visitor.controls[moved.proto.id], moved.value(1))
                assert not any(one.proto.set_value for one in visitor.controls.values() if one.kind != "button")
                heard[-1] += visitor.heard
                await visitor.close()
            found += [f"{page}, {section}, {label}"] if heard[0] != heard[1] else []
    return found, told


async def moved(url: str) -> tuple[list[bytes], list[bytes]]:
    """The controls of a section where the first brings others in front of the last: kept before, and all new."""
    heard = []
    for earlier in (("bf16", "fp16"), ()):
        visitor = Listener(url, "dtypes", "dtypes_section=Range")
        await visitor.open()
        chooser = next(c for c in visitor.of_kind("selectbox") if c.proto.label == "Format")
        for option in (*earlier, "a format of your own"):
            await visitor.change(chooser, option)
        heard.append([*visitor.heard])
        await visitor.close()
    return heard[0], heard[1]


async def press_and_move_on(url: str) -> None:
    """A preset's values reach the browser, once; what is changed afterwards is kept."""
    visitor = Listener(url, "gradients", "gradients_section=Check")
    await visitor.open()
    w1, x2 = (next(c for c in visitor.of_kind("number_input") if c.proto.label == label) for label in ("w₁", "x₂"))
    for value in (3.0, 4.0):  # drawn, and then kept
        await visitor.change(w1, value)
    assert not any(c.proto.set_value for c in visitor.of_kind("number_input"))
    await visitor.change(x2, 7.5)
    assert visitor.states[w1.proto.id].double_value == 4.0
    await visitor.close()

    visitor = Listener(url, "flops_mfu", "flops_mfu_section=Count")
    await visitor.open()
    batch = next(c for c in visitor.of_kind("number_input") if c.proto.label == "B")
    for value in (3, 4):
        await visitor.change(batch, value)
    preset = next(c for c in visitor.of_kind("button") if c.proto.label == "256³")
    await visitor.change(preset, True)
    assert visitor.controls[batch.proto.id].proto.set_value
    assert visitor.controls[batch.proto.id].proto.value == 256
    depth = next(c for c in visitor.of_kind("number_input") if c.proto.label == "D")
    await visitor.change(depth, 300)
    assert not visitor.controls[batch.proto.id].proto.set_value
    assert visitor.states[batch.proto.id].int_value == 256
    assert "b=256" in visitor.query
    await visitor.close()


def elsewhere(coroutine) -> object:
    """Playwright has an event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(lambda: asyncio.run(coroutine)).result()


def test_what_is_kept_is_what_streamlit_would_send(server):
    assert redraw.ThreadState is not None, "this version of Streamlit has not got what is used; it only gets slower"
    assert elsewhere(compare(server.url)) == []


def test_values_that_a_button_sets_are_told_as_streamlit_tells_them(server):
    found, told = elsewhere(press_every_button(server.url))
    assert found == []
    assert told > 50


def test_what_is_kept_moves_to_its_place(server):
    kept, new = elsewhere(moved(server.url))
    assert kept == new
    assert len(new) == 7


def test_a_value_that_a_button_sets_is_told_and_stays(server):
    elsewhere(press_and_move_on(server.url))
