"""Tensors in memory: each control's effect, the lecture's values, each refusal, a move measured from end to end."""

import pytest

from core import dtypes, jobs
from pages._ui import machine
from tests.pages.helpers import choose, open_page, press, said, text_of, value_of
from tests.pages.test_dtypes import figures, table


def at_section(section, **values):
    app = choose(open_page("tensors_memory"), "tensors_memory_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def test_new_tensors():
    app = at_section("create")
    assert value_of(app) == "1"
    assert 0.97 < float(value_of(app, "measured")) < 1.03
    for way, shown in (("zeros", "0"), ("ones", "1"), ("literal", "3.50")):
        choose(app, "tm_way", way)
        assert value_of(app) == value_of(app, "measured") == shown
    choose(app, "tm_way", "trunc_normal_")
    assert value_of(app) == "0.880"
    choose(app, "tm_cut", 1.0)
    assert value_of(app) == "0.540"
    assert "trunc_normal_(torch.empty(64, 64), mean=0, std=1, a=-1, b=1)" in text_of(app)
    choose(app, "tm_rows", 3)
    assert "torch.empty(3, 64)" in text_of(app)


def test_nothing_is_predicted_of_empty():
    app = at_section("create", tm_way="empty")
    assert value_of(app) == "unknown"
    assert "uninitialised memory" in text_of(app)
    assert "left behind" in text_of(app) or "not what was freed just before" in text_of(app)


def test_the_gpt3_matrix():
    app = at_section("size")
    assert figures(app) == ("2.42 GB", "2.42 GB", "1.00×")
    text = text_of(app)
    for shown in ("2,415,919,104", "2,304", "2.25", "2.416", "nothing allocated", "→ 2,415,919,104"):
        assert shown in text
    assert "The lecture calls this 2.3 GB" in text
    press(app, "np_preset_size_lecture, 4 × 8")
    assert figures(app)[:2] == ("128 B", "128 B")
    assert "The lecture calls" not in text_of(app)
    for dtype, shown in (("bf16", "64 B"), ("e2m1", "16 B"), ("int64", "256 B")):
        choose(app, "tm_dtype", dtype)
        assert figures(app)[:2] == (shown, shown)


def test_shapes_that_cannot_be_are_refused_in_words():
    app = at_section("size")
    for text, wrong in (
        ("4, -1", "is not a shape"),
        ("", "is not a shape"),
        ("1" * 70, "a dimension must be"),
        ("1,1,1,1,1,1,1,1,1", "number of dimensions"),
        ("1099511627776, 1099511627776", "at most 2^62"),
    ):
        choose(app, "tm_shape", text)
        (refusal,) = app.warning
        assert wrong in refusal.value
        assert not app.error
    for text, size in (("()", "4 B"), ("0, 5", "0 B")):
        choose(app, "tm_shape", text)
        assert value_of(app, "measured") == size


def test_a_view_claims_what_it_does_not_hold():
    app = at_section("views")
    assert figures(app) == ("40 B", "4.00 MB", "100,000×")
    assert "held alive, not shown" in text_of(app)
    choose(app, "tm_view", "torch.zeros(1).expand(1000, 1000)")
    assert figures(app)[:2] == ("4.00 MB", "4 B")
    assert {row[0]: row[2:4] for row in table(app, "claims")}["x[:, ::2]"] == ["2,000,000 B", "4,000,000 B"]


def test_two_matrices_on_the_device():
    app = at_section("device")
    assert figures(app) == ("8.19 kB", "8.19 kB", "1.00×")
    assert "in blocks of 512 B: 8,192 B" in " ".join(text_of(app).split())
    assert "storage = 8,192" in text_of(app)
    choose(app, "tm_each", "4, 8")
    assert "Storages: 256 B . On a GPU, in blocks of 512 B: 1,024 B ." in " ".join(text_of(app).split())
    choose(app, "tm_count", 3)
    assert figures(app)[:2] == ("384 B", "384 B")
    choose(app, "tm_each", "49152, 12288")
    assert "here 64.0 MiB are made at most" in said(app.warning[0])
    assert not app.error


def test_a_move_from_end_to_end():
    app = at_section("move", tm_kib=64)
    device = machine.devices()[0]
    while (device.id, machine.cores()) not in machine._known:
        job = jobs.status(machine._jobs[device.id, machine.cores()])
        while not job.finished:
            job = jobs.wait(job.id, 30, job.version)
        assert job.state == "done", job.error
        app.run()
    rate = machine._known[device.id, machine.cores()].bytes_per_sec
    assert value_of(app) == dtypes.predict_move(65536, rate).text
    assert "press Measure" in text_of(app)
    press(app, "tm_moved_start")
    now = jobs.status(app.session_state["tm_moved"])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    app.run()
    assert now.state == "done", now.error
    assert value_of(app, "measured").endswith("s")
    assert "new memory" in text_of(app)
    choose(app, "tm_kib", 128)
    assert "The settings have changed" in text_of(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("tensors_memory"), "predict_first", True)
    for section in ("create", "size", "views", "device"):
        choose(app, "tensors_memory_section", section)
        bodies = " ".join(element.proto.body for element in app.get("html"))
        assert 'class="np-box' not in bodies
        assert "<table" not in bodies
        assert not app.get("bidi_component")
        assert "8,192 B" not in text_of(app)
        assert "2.416" not in text_of(app)
    choose(app, "np_guess_tm_device", "8192 B")
    assert "right against the napkin" in text_of(app)


@pytest.mark.parametrize(
    ("key", "bad"), [("tm_way", "arange"), ("tm_rows", "0"), ("tm_dtype", "fp7"), ("tm_view", "y"), ("tm_kib", "1e9")]
)
def test_a_forged_value_falls_back_with_a_note(key, bad):
    app = open_page("tensors_memory", **{key: bad, "tensors_memory_section": "Whole page"})
    assert any(bad in note.value for note in app.info)
    assert not app.error
