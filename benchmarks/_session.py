"""One browser tab without a browser: a session with a Streamlit server over its websocket, on this machine only."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

REPLY_SECONDS = 90.0
WORDS = ("html", "markdown", "code", "arrow_vega_lite_chart", "bidi_component")  # measured with as many bytes
CONTROLS = (
    "number_input",
    "selectbox",
    "button_group",
    "multiselect",
    "checkbox",
    "slider",
    "text_input",
    "text_area",
    "button",
)


class _Clocked(websockets.ClientConnection):
    """A connection that knows when the last bytes came: taking them apart is the client's time, not the server's."""

    arrived = 0.0

    def data_received(self, data: bytes) -> None:
        self.arrived = time.perf_counter()
        super().data_received(data)


@dataclass
class Text:
    """A line of text on the page, in the fragment that a change of it reruns (empty: the whole page)."""

    proto: Any
    fragment: str

    def value(self, step: int) -> str:
        """Another text for every step that means the same, as far as it may be as long: with spaces behind it."""
        room = self.proto.max_chars - len(self.proto.default) if self.proto.max_chars else step
        return str(self.proto.default) + " " * (step % (room + 1))


@dataclass
class Number:
    """A number input on the page, in the fragment that a change of it reruns (empty: the whole page)."""

    proto: Any
    fragment: str

    @property
    def is_whole(self) -> bool:
        return bool(self.proto.data_type == self.proto.INT)

    def value(self, step: int) -> float:
        """Another value for every step from 1 on, near the default and within the bounds."""
        size = 1.0 if self.is_whole else max(abs(self.proto.default), 1.0) / 1e4
        value: float = self.proto.default + size * step
        return value if value <= self.proto.max or not self.proto.has_max else float(self.proto.default - size * step)


@dataclass
class Session:
    """A visitor of one page. ``query`` is the address after the question mark, kept up to date as a browser does."""

    server: str
    page: str = ""
    query: str = ""
    numbers: dict[str, Number | Text] = field(default_factory=dict)
    texts: dict[str, Number | Text] = field(default_factory=dict)
    buttons: dict[str, tuple[str, str]] = field(default_factory=dict)  # label to id and fragment
    sections: list[str] = field(default_factory=list)  # labels of the control that chooses the page's section
    sections_key: str = ""
    pages: list[str] = field(default_factory=list)  # what the navigation offers, the start page as ""
    is_waiting: bool = False  # a fragment that reruns by itself is on the page: a job is running
    controls: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)  # kinds by place, for each fragment
    elements: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)  # the rest: kind and bytes
    errors: int = 0

    async def open(self) -> float:
        """Connect and run the page; milliseconds of the run, without the connection."""
        self.socket = await websockets.connect(
            self.server.replace("http", "ws", 1) + "/_stcore/stream",
            subprotocols=[websockets.Subprotocol("streamlit")],
            max_size=None,
            max_queue=None,  # 16 messages fill a queue, and then it would not read on
            compression=None,
            create_connection=_Clocked,
            ping_interval=None,
            open_timeout=60,
            proxy=None,
        )
        return await self._run(BackMsg())

    async def close(self) -> None:
        await self.socket.close()

    async def change(self, number: Number | Text, value: float | str) -> float:
        """Give a control a value; milliseconds until the server has finished the rerun."""
        message = BackMsg()
        state = message.rerun_script.widget_states.widgets.add()
        state.id = number.proto.id
        if isinstance(number, Text) or isinstance(value, str):
            state.string_value = str(value)
        elif number.is_whole:
            state.int_value = int(value)
        else:
            state.double_value = float(value)
        message.rerun_script.fragment_id = number.fragment
        if key := number.proto.query_param_key:  # a browser writes a bound value into the address by itself
            text = value if isinstance(value, str) else f"{value:g}" if value % 1 else int(value)
            self.query = urlencode({**dict(parse_qsl(self.query)), key: text})
        return await self._run(message)

    async def press(self, label: str) -> float:
        """Press a button; milliseconds until the server has finished the rerun."""
        message = BackMsg()
        state = message.rerun_script.widget_states.widgets.add()
        state.id, message.rerun_script.fragment_id = self.buttons[label]
        state.trigger_value = True
        return await self._run(message)

    async def _run(self, message: BackMsg) -> float:
        message.rerun_script.page_name = self.page
        message.rerun_script.query_string = self.query
        running = self.is_waiting = False
        came: list[ForwardMsg] = []
        data = message.SerializeToString()
        async with asyncio.timeout(REPLY_SECONDS):
            started = time.perf_counter()
            await self.socket.send(data)
            while not came or came[-1].WhichOneof("type") != "script_finished" or not running:
                came.append(ForwardMsg.FromString(await self.socket.recv()))
                running |= came[-1].WhichOneof("type") == "new_session"
            arrived = self.socket.arrived
        for forward in came:  # read when the clock has stopped
            self._read(forward.WhichOneof("type"), forward)
        return 1e3 * (arrived - started)

    def _read(self, kind: str | None, forward: ForwardMsg) -> None:
        """Keep what a later step needs."""
        if kind == "page_info_changed":
            self.query = forward.page_info_changed.query_string
        elif kind == "navigation":
            self.pages = ["" if page.is_default else page.url_pathname for page in forward.navigation.app_pages]
        elif kind == "auto_rerun":
            self.is_waiting = True
        elif kind == "delta" and forward.delta.WhichOneof("type") == "add_block":
            is_popover = forward.delta.add_block.WhichOneof("type") == "popover"
            self._keep(self.controls if is_popover else self.elements, "popover" if is_popover else "block", forward)
        elif kind == "delta" and forward.delta.WhichOneof("type") == "new_element":
            element, fragment = forward.delta.new_element, forward.delta.fragment_id
            name = element.WhichOneof("type")
            if name in CONTROLS:
                self._keep(self.controls, name, forward)
            elif name in WORDS:
                self._keep(self.elements, f"{name}-{element.ByteSize()}", forward)
            self.errors += name == "exception"
            if name == "number_input" and not element.number_input.disabled:
                self.numbers[element.number_input.id] = Number(element.number_input, fragment)
            elif (
                name == "text_input" and fragment and element.text_input.query_param_key and element.text_input.default
            ):
                self.texts[element.text_input.id] = Text(element.text_input, fragment)
            elif name == "button" and not element.button.disabled:
                self.buttons[element.button.label] = (element.button.id, fragment)
            elif name == "button_group" and element.button_group.query_param_key.endswith("_section"):
                self.sections = [option.content for option in element.button_group.options]
                self.sections_key = element.button_group.query_param_key

    def _keep(self, where: dict[str, dict[tuple[int, ...], str]], kind: str, forward: ForwardMsg) -> None:
        place = tuple(forward.metadata.delta_path)
        where.setdefault(forward.delta.fragment_id, {})[place] = kind

    def kinds(self, fragment: str, *, everything: bool = False) -> list[str]:
        """The kinds of the controls (or of everything) in a fragment, in the order that they are in on the page."""
        placed = dict(self.controls.get(fragment, {}))
        if everything:
            placed |= self.elements.get(fragment, {})
        return [placed[place] for place in sorted(placed)]
