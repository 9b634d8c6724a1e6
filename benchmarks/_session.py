"""One browser tab without a browser: a session with a Streamlit server over its websocket, on this machine only."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

REPLY_SECONDS = 90.0
MOST_OPTIONS = 6
TRIGGERS = ("button", "bidi_component")  # what is pressed has no value that stays
CHANGED = ("number_input", "text_input", "selectbox", "button_group", "checkbox", "slider", *TRIGGERS)
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
class Control:
    """A control on the page, in the fragment that a change of it reruns (empty: the whole page)."""

    kind: str
    proto: Any
    fragment: str

    @property
    def label(self) -> str:
        return "a cell" if self.kind == "bidi_component" else str(self.proto.label)

    @property
    def cells(self) -> list[str]:
        """The names of the cells that can be pressed, where it is a component of cells; the twin has one."""
        shown = json.loads(self.proto.bytes) if self.proto.bytes.startswith(b"{") else None
        if shown is None:
            return ["cell"]
        return [cell[1] for grid in shown["grids"] for row in grid["rows"] for cell in row if cell and shown["picks"]]

    @property
    def is_typed(self) -> bool:
        """Whether it takes ever new values; the others go round a few."""
        return self.kind in ("number_input", "text_input")

    def value(self, step: int) -> Any:
        """Another value for every step from 1 on, as far as there are more; of many options the first few."""
        proto = self.proto
        if self.kind == "number_input":
            size = 1.0 if proto.data_type == proto.INT else max(abs(proto.default), 1.0) / 1e4
            value = proto.default + size * step
            return value if value <= proto.max or not proto.has_max else proto.default - size * step
        if self.kind == "text_input":  # the same with spaces behind it, as far as it may be as long
            room = proto.max_chars - len(proto.default) if proto.max_chars else step
            return proto.default + " " * (step % (room + 1))
        if self.kind == "slider":
            return proto.min + (proto.default[0] - proto.min + proto.step * step) % (proto.max - proto.min + proto.step)
        if self.kind == "checkbox":
            return proto.default ^ bool(step % 2)
        if self.kind == "button":
            return True
        if self.kind == "bidi_component":
            return self.cells[step % min(len(self.cells), MOST_OPTIONS)]
        options = [getattr(option, "content", option) for option in proto.options]
        return options[step % min(len(options), MOST_OPTIONS)]

    @property
    def shown(self) -> Any:
        """The value that it comes with: the default, or the one that the page has set."""
        proto, is_set = self.proto, self.proto.set_value
        if self.kind == "slider":
            return (proto.value if is_set else proto.default)[0]
        if self.kind == "selectbox":
            return proto.raw_value if is_set else proto.options[proto.default] if proto.options else ""
        if self.kind == "button_group":
            return [*proto.raw_values] if is_set else [proto.options[place].content for place in proto.default]
        return proto.value if is_set else proto.default

    def give(self, value: Any, state: WidgetState) -> str:
        """Say the value as a browser does; the text that it has in the address."""
        state.id = self.proto.id
        if self.kind == "bidi_component":
            state.id = f"$$STREAMLIT_INTERNAL_KEY_{self.proto.id}__events"
            state.json_trigger_value = json.dumps([{"event": "picked", "value": value}])
            return ""
        if self.kind in ("text_input", "selectbox"):
            state.string_value = value
        elif self.kind == "button_group":
            state.string_array_value.data.extend([value] if isinstance(value, str) else value)
        elif self.kind == "button":
            state.trigger_value = value
        elif self.kind == "checkbox":
            state.bool_value = value
            return str(value).lower()
        elif self.kind == "slider":
            state.double_array_value.data.append(value)
        elif self.proto.data_type == self.proto.INT:
            state.int_value = int(value)
        else:
            state.double_value = value
        if isinstance(value, (str, list)):
            return "".join(value)
        return f"{value:g}" if value % 1 else str(int(value))


@dataclass
class Session:
    """A visitor of one page. ``query`` is the address after the question mark, kept up to date as a browser does."""

    server: str
    page: str = ""
    query: str = ""
    page_hash: str = ""
    controls: dict[str, Control] = field(default_factory=dict)
    states: dict[str, WidgetState] = field(default_factory=dict)  # what all controls are at, by id
    left: dict[str, WidgetState] = field(default_factory=dict)  # what they were at before the whole page ran again
    sections: list[str] = field(default_factory=list)  # labels of the control that chooses the page's section
    sections_key: str = ""
    pages: list[str] = field(default_factory=list)  # what the navigation offers, the start page as ""
    is_waiting: bool = False  # a fragment that reruns by itself is on the page: a job is running
    placed: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)  # controls' kinds, for each fragment
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

    def of_kind(self, *kinds: str) -> list[Control]:
        """The controls of these kinds."""
        return [control for control in self.controls.values() if control.kind in kinds]

    async def change(self, control: Control, value: Any) -> float:
        """Give a control a value; milliseconds until the server has finished the rerun."""
        message = BackMsg()
        state = WidgetState()
        text = control.give(value, state)
        if control.kind not in TRIGGERS:
            self.states[control.proto.id] = state
        message.rerun_script.widget_states.widgets.extend(self.states.values())  # all of them, as browsers do
        if control.kind in TRIGGERS:
            message.rerun_script.widget_states.widgets.append(state)
        message.rerun_script.fragment_id = control.fragment
        # A browser writes a bound value into the address by itself.
        if key := getattr(control.proto, "query_param_key", ""):
            self.query = urlencode({**dict(parse_qsl(self.query)), key: text})
        return await self._run(message)

    async def _run(self, message: BackMsg) -> float:
        message.rerun_script.page_name = "" if self.page_hash else self.page  # a browser knows it from then on
        message.rerun_script.page_script_hash = self.page_hash
        message.rerun_script.query_string = self.query
        running = self.is_waiting = False
        if not message.rerun_script.fragment_id:  # the whole page: what does not come again is gone
            self.controls, self.left, self.states = {}, self.states, {}
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
        elif kind == "new_session":
            self.page_hash = forward.new_session.page_script_hash
        elif kind == "navigation":
            self.page_hash = forward.navigation.page_script_hash
            self.pages = ["" if page.is_default else page.url_pathname for page in forward.navigation.app_pages]
        elif kind == "auto_rerun":
            self.is_waiting = True
        elif kind == "delta" and forward.delta.WhichOneof("type") == "add_block":
            is_popover = forward.delta.add_block.WhichOneof("type") == "popover"
            self._keep(self.placed if is_popover else self.elements, "popover" if is_popover else "block", forward)
        elif kind == "delta" and forward.delta.WhichOneof("type") == "new_element":
            element, fragment = forward.delta.new_element, forward.delta.fragment_id
            name = element.WhichOneof("type")
            if name in CONTROLS:
                self._keep(self.placed, name, forward)
            elif name in WORDS:
                self._keep(self.elements, f"{name}-{element.ByteSize()}", forward)
            self.errors += name == "exception"
            if name in CHANGED:
                self._meet(Control(name, getattr(element, name), fragment))

    def _meet(self, control: Control) -> None:
        """Take a control's value from the page, and keep it if changes of it are measured."""
        kind, proto = control.kind, control.proto
        if kind == "bidi_component":
            if control.cells:
                self.controls[proto.id] = control
            return
        if kind != "button" and (proto.id not in self.states or proto.set_value):
            if proto.id in self.left and not proto.set_value:
                self.states[proto.id] = self.left[proto.id]
            else:
                self.states[proto.id] = state = WidgetState()
                control.give(control.shown, state)
        if kind == "button_group" and proto.query_param_key.endswith("_section"):
            self.sections = [option.content for option in proto.options]
            self.sections_key = proto.query_param_key
        elif kind == "text_input" and not (control.fragment and proto.query_param_key and proto.default):
            return  # it only keeps what was measured
        elif not proto.disabled and not (kind == "button" and proto.type == "primary"):  # those start jobs
            self.controls[proto.id] = control

    def _keep(self, where: dict[str, dict[tuple[int, ...], str]], kind: str, forward: ForwardMsg) -> None:
        place = tuple(forward.metadata.delta_path)
        where.setdefault(forward.delta.fragment_id, {})[place] = kind

    def kinds(self, fragment: str, *, everything: bool = False) -> list[str]:
        """The kinds of the controls (or of everything) in a fragment, in the order that they are in on the page."""
        placed = dict(self.placed.get(fragment, {}))
        if everything:
            placed |= self.elements.get(fragment, {})
        return [placed[place] for place in sorted(placed)]
