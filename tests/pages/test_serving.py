"""What makes the server answer sooner, and that it still says the same."""

import asyncio
import inspect
import threading
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit import config, delta_generator, env_util
from streamlit.elements.layouts import LayoutsMixin
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session, runtime
from streamlit.runtime.scriptrunner.script_runner import ScriptRunnerEvent
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_server_config import WEBSOCKET_MAX_SEND_QUEUE_SIZE

from pages._ui import frame, serving, warm
from tests.pages.helpers import open_page


def theme_sent() -> bytes:
    """What the browser is told of the theme, as a server of this version asks for it part by part."""
    theme = ForwardMsg().new_session.custom_theme
    for part, section in (
        (theme, "theme"),
        (theme.light, "theme.light"),
        (theme.dark, "theme.dark"),
        (theme.sidebar, "theme.sidebar"),
        (theme.light.sidebar, "theme.light.sidebar"),
        (theme.dark.sidebar, "theme.dark.sidebar"),
    ):
        app_session._populate_theme_msg(part, section)
    return theme.SerializeToString(deterministic=True)


def test_the_theme_is_read_once_and_said_the_same_every_time(monkeypatch):
    config.get_config_options()
    asked = []
    read = app_session._populate_theme_msg
    monkeypatch.setattr(app_session, "_populate_theme_msg", lambda *of: (asked.append(of[1:]), read(*of)))
    expected = theme_sent()
    assert b"#0072B2" in expected
    asked.clear()
    serving._read_the_theme_once()
    assert [theme_sent() for _ in range(3)] == [expected] * 3
    assert len(asked) == 6


def test_a_first_element_does_not_ask_for_the_whole_stack(monkeypatch):
    looked = []
    monkeypatch.setattr(env_util, "is_repl", lambda: looked.append(1))
    monkeypatch.setattr(delta_generator, "_use_warning_has_been_displayed", False)
    delta_generator._maybe_print_use_warning()
    assert looked, "a version that does not look, or elsewhere, needs no help"
    monkeypatch.setattr(delta_generator, "_use_warning_has_been_displayed", False)
    serving._know_that_a_server_runs()
    delta_generator._maybe_print_use_warning()
    assert len(looked) == 1


def rows_of_rows():
    import streamlit as st

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.write("one")
        with st.container(width=420):
            st.write("two")
        st.container(key="named").write("three")
    with st.container():
        st.write("four")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.write("five")


def drawn(block):
    """A block and what is in it, as they were sent."""
    if not hasattr(block, "children"):
        return block.proto.SerializeToString()
    proto = block.proto.SerializeToString() if block.proto is not None else b""
    return proto, {place: drawn(child) for place, child in block.children.items()}


def test_a_container_is_described_once_and_drawn_the_same(monkeypatch):
    expected = drawn(AppTest.from_function(rows_of_rows).run().main)
    described = []
    describe = LayoutsMixin.container
    monkeypatch.setattr(st, "container", st.container)  # put back afterwards
    monkeypatch.setattr(LayoutsMixin, "container", lambda *of, **how: (described.append(how), describe(*of, **how))[1])
    serving._describe_each_container_once()
    app = AppTest.from_function(rows_of_rows)
    assert [drawn(app.run().main) for _ in range(3)] == [expected] * 3
    once = [one for one in described if "key" not in one]
    assert once == [{"horizontal": True, "vertical_alignment": "bottom", "gap": "small"}, {"width": 420}, {}]


def test_the_server_hands_on_what_a_script_has_made_within_a_millisecond(monkeypatch):
    """Streamlit's server reads this name at each round: a version that calls it otherwise would not be sped up."""
    assert isinstance(runtime.MESSAGE_FLUSH_INTERVAL_SECS, float)
    assert "sleep(MESSAGE_FLUSH_INTERVAL_SECS)" in inspect.getsource(runtime.Runtime)

    for where, name in (
        (st, "container"),
        (delta_generator, "_use_warning_has_been_displayed"),
        (app_session, "_populate_theme_msg"),
        (app_session.AppSession, "_on_scriptrunner_event"),
        (runtime.Runtime, "_enqueued_some_message"),
        (SafeSessionState, "filtered_state"),
        (app_session.AppSession, "flush_browser_queue"),
        (runtime.Runtime, "_send_message"),
    ):
        monkeypatch.setattr(where, name, getattr(where, name))  # put back afterwards

    async def life() -> float:
        async with warm.lifespan(None):
            return runtime.MESSAGE_FLUSH_INTERVAL_SECS

    before = runtime.MESSAGE_FLUSH_INTERVAL_SECS
    try:
        assert asyncio.run(life()) == serving.FLUSH_SECONDS == 0.001
    finally:
        runtime.MESSAGE_FLUSH_INTERVAL_SECS = before


class Told:
    """A session that notes what its loop is told, as Streamlit's does."""

    _on_scriptrunner_event = app_session.AppSession._on_scriptrunner_event
    _call_soon_on_event_loop = app_session.AppSession._call_soon_on_event_loop

    def __init__(self):
        self._event_loop = asyncio.get_running_loop()
        self.told = []
        self.calls = 0

    def _handle_scriptrunner_event_on_event_loop(self, _sender, event, forward_msg=None, **_more):
        assert asyncio.get_running_loop() is self._event_loop
        if forward_msg == "broken":
            raise ValueError("broken")
        self.told.append(forward_msg or event.value)


@pytest.fixture
def handed_over(monkeypatch):
    """Scripts hand over together, for this test."""
    monkeypatch.setattr(app_session.AppSession, "_on_scriptrunner_event", None)  # put back afterwards
    monkeypatch.setattr(runtime.Runtime, "_enqueued_some_message", runtime.Runtime._enqueued_some_message)
    serving._hand_over_together()
    monkeypatch.setattr(Told, "_on_scriptrunner_event", app_session.AppSession._on_scriptrunner_event)


def in_a_thread(*told):
    """Run what a script does in a thread of its own, and the loop meanwhile; the session, and what the loop saw."""

    async def run():
        session, seen = Told(), []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))

        def script():
            for event, message in told:
                session._on_scriptrunner_event(None, event=event, forward_msg=message)

        thread = threading.Thread(target=script)
        thread.start()
        thread.join()  # whatever the script has done, the loop has not had a turn
        expected = sum(message != "broken" for _event, message in told)
        async with asyncio.timeout(30):
            while len(session.told) < expected:
                await asyncio.sleep(0)
        return session, seen

    return asyncio.run(run())


STARTED, MESSAGE = ScriptRunnerEvent.SCRIPT_STARTED, ScriptRunnerEvent.ENQUEUE_FORWARD_MSG
STOPPED, SHUTDOWN = ScriptRunnerEvent.FRAGMENT_STOPPED_WITH_SUCCESS, ScriptRunnerEvent.SHUTDOWN


def test_a_script_that_ends_is_handed_over_at_once_in_its_order(handed_over, monkeypatch):
    monkeypatch.setattr(serving, "HAND_OVER_SECONDS", 3600)
    session, _ = in_a_thread((STARTED, None), (MESSAGE, "card"), (MESSAGE, "chart"), (STOPPED, None), (SHUTDOWN, None))
    assert session.told == [STARTED.value, "card", "chart", STOPPED.value, SHUTDOWN.value]


def test_a_script_that_goes_on_is_handed_over_soon_and_wakes_the_loop_once(handed_over, monkeypatch):
    woken = []
    call = Told._call_soon_on_event_loop
    monkeypatch.setattr(Told, "_call_soon_on_event_loop", lambda self, what: (woken.append(what), call(self, what)))
    session, _ = in_a_thread((STARTED, None), *((MESSAGE, f"element {number}") for number in range(20)))
    assert session.told == [STARTED.value, *(f"element {number}" for number in range(20))]
    assert len(woken) == 1


def test_a_script_that_goes_on_for_long_is_handed_over_again_and_again(handed_over):
    async def run():
        session = Told()
        for number in range(3):
            thread = threading.Thread(target=session._on_scriptrunner_event, args=(None, MESSAGE, number))
            thread.start()
            thread.join()
            async with asyncio.timeout(30):
                while len(session.told) <= number:
                    await asyncio.sleep(0)
        return session.told

    assert asyncio.run(run()) == [MESSAGE.value, 1, 2]  # no message: its event


def test_a_message_that_fails_holds_no_other_up(handed_over):
    session, seen = in_a_thread((MESSAGE, "one"), (MESSAGE, "broken"), (MESSAGE, "two"), (STOPPED, None))
    assert session.told == ["one", "two", STOPPED.value]
    assert [type(one) for one in seen] == [ValueError]


def test_the_loop_notes_at_once_that_there_is_something_to_send_and_a_thread_lets_it_know(handed_over):
    async def run():
        objects = SimpleNamespace(eventloop=asyncio.get_running_loop(), need_send_data=asyncio.Event())
        server = SimpleNamespace(_get_async_objs=lambda: objects)
        runtime.Runtime._enqueued_some_message(server)
        assert objects.need_send_data.is_set(), "on the loop"
        objects.need_send_data.clear()
        thread = threading.Thread(target=runtime.Runtime._enqueued_some_message, args=(server,))
        thread.start()
        thread.join()
        assert not objects.need_send_data.is_set(), "an event of the loop is not set from another thread"
        async with asyncio.timeout(30):
            await objects.need_send_data.wait()

    asyncio.run(run())


def test_streamlit_hands_each_event_of_a_script_to_the_loop_as_it_did():
    """A version that does otherwise would be left alone, or not be sped up."""
    as_it_comes = inspect.getsource(inspect.getmodule(app_session.AppSession))
    assert "self._scriptrunner.on_event.connect(self._on_scriptrunner_event)" in as_it_comes
    taken = set(inspect.signature(app_session.AppSession._handle_scriptrunner_event_on_event_loop).parameters)
    assert {"sender", "event", "forward_msg", "run_descriptor"} <= taken
    assert "need_send_data.set" in inspect.getsource(runtime.Runtime._enqueued_some_message)


def test_a_session_looked_up_value_by_value_says_the_same(monkeypatch):
    monkeypatch.setattr(SafeSessionState, "filtered_state", SafeSessionState.filtered_state)  # put back afterwards
    app = open_page("flops_mfu", flops_mfu_section="Count").run()
    state = app.session_state._state
    everything = dict(state.filtered_state)
    assert everything["flops_mfu_section"] == "count"
    serving._look_up_what_is_asked_for()
    looked_up = state.filtered_state
    assert type(looked_up) is not dict
    assert dict(looked_up) == everything
    assert len(looked_up) == len(everything)
    hidden = [key for key in state._state._keys() if key not in everything]
    assert any(key.startswith("$$ID") for key in hidden)
    for key in (*everything, *hidden, "no such control", "", "$$ID-no-such"):
        assert (key in looked_up) == (key in everything), key
        assert looked_up.get(key, "absent") == everything.get(key, "absent"), key


def test_many_messages_are_sent_in_one_turn_in_their_order(monkeypatch):
    sent = []
    monkeypatch.setattr(app_session.AppSession, "flush_browser_queue", lambda _self: list(range(70)))
    monkeypatch.setattr(runtime.Runtime, "_send_message", lambda _self, info, message: sent.append((info, message)))
    serving._send_many_in_one_turn()
    turns = app_session.AppSession.flush_browser_queue(None)
    assert [len(one) for one in turns] == [32, 32, 6]
    for one in turns:
        runtime.Runtime._send_message(None, "visitor", one)
    runtime.Runtime._send_message(None, "visitor", 70)
    assert sent == [("visitor", number) for number in range(71)]


def test_streamlit_sends_what_it_flushes_message_by_message():
    """A version that does otherwise would not be sped up, or sent what it does not know."""
    loop = inspect.getsource(runtime.Runtime._loop_coroutine)
    assert "msg_list = active_session_info.session.flush_browser_queue()" in loop
    assert "self._send_message(active_session_info, msg)" in loop
    assert loop.count("msg_list") == 2
    assert loop.count("msg)") == 1
    assert serving.TURN_MESSAGES < WEBSOCKET_MAX_SEND_QUEUE_SIZE / 4


FIRST = "What is the difference between FLOPs and FLOP/s?"
COUNT = "How many FLOPs is a matrix multiply?"


@pytest.mark.parametrize(
    ("section", "asked"), [("Scale", FIRST), ("Count", COUNT), ("Whole page", FIRST), ("no such section", FIRST)]
)
def test_a_visit_begins_with_the_question_before_any_control_and_runs_once(section, asked, monkeypatch):
    done = []
    choose = frame._choose
    monkeypatch.setattr(frame.warm, "words_first", lambda: done.append("words"))
    monkeypatch.setattr(frame, "_choose", lambda *of: (done.append("controls"), choose(*of))[1])
    app = open_page("flops_mfu", flops_mfu_section=section)
    asked = (
        "How many FLOPs is a matrix multiply?"
        if section == "Count"
        else "What is the difference between FLOPs and FLOP/s?"
    )
    assert done[:2] == ["words", "controls"]
    assert len(done) == (2 if section != "no such section" else 3), "a bad address is settled in one run more"
    questions = [one.value for one in app.header]
    assert questions[0] == asked
    assert len(questions) == len(set(questions)), "each once"
    app.run()
    assert done.count("words") == 1, "not at every run"
