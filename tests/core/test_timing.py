"""core.timing: exact with a fake clock; with the real one only what holds on any machine, however busy."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import torch

from core import timing
from core.hardware.load import Snapshot, busy_fraction, snapshot
from core.timing import time_calls, time_like_the_lecture

TICK = 2.0**-10  # about a millisecond, and exact in binary


class FakeClock:
    """A clock that only a call moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def __call__(self) -> float:
        return self.now

    def function(self, *seconds: float):
        """A function whose calls take these seconds in turn, the last of them for ever."""

        def call() -> None:
            self.now += seconds[min(self.calls, len(seconds) - 1)]
            self.calls += 1

        return call


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_every_sample_is_the_seconds_of_one_call(clock):
    m = time_calls(clock.function(TICK), min_seconds=64 * TICK, clock=clock)
    assert set(m.samples) == {TICK}
    assert (m.value, m.minimum, m.interquartile_range) == (TICK, TICK, 0.0)
    assert m.conditions.calls_per_trial == 1
    assert m.conditions.trials == len(m.samples) >= 64
    assert m.conditions.window_seconds == m.conditions.trials * TICK
    assert (m.unit, m.quantity, m.statistic) == ("s", "time", "median")


def test_the_cold_first_call_is_in_no_sample(clock):
    m = time_calls(clock.function(1.0, TICK), min_seconds=16 * TICK, clock=clock)
    assert m.maximum == TICK


def test_all_calls_are_accounted_for(clock):
    m = time_calls(clock.function(TICK), min_seconds=16 * TICK, clock=clock)
    assert clock.calls == m.conditions.warmup + m.conditions.trials * m.conditions.calls_per_trial


@pytest.mark.parametrize("warmup_calls", [0, 3, 500])
def test_warm_up_lasts_its_calls_and_a_tenth_of_a_second(clock, warmup_calls):
    m = time_calls(clock.function(TICK), min_seconds=16 * TICK, warmup_calls=warmup_calls, clock=clock)
    assert m.conditions.warmup >= max(warmup_calls, int(timing.WARMUP_SECONDS / TICK))


def test_tiny_functions_are_batched_to_a_tenth_of_a_millisecond(clock):
    tiny = 2.0**-20
    m = time_calls(clock.function(tiny), min_seconds=0.01, clock=clock)
    assert m.conditions.calls_per_trial == 128
    assert set(m.samples) == {tiny}
    assert clock.calls == m.conditions.warmup + 128 * m.conditions.trials


def test_one_disturbed_call_does_not_end_the_search_for_a_batch(clock):
    tiny = 2.0**-20
    # The calls that the warm-up spends, then a disturbed one, then quiet again.
    warm = int(timing.WARMUP_SECONDS / tiny) + 2
    m = time_calls(clock.function(*[tiny] * warm, 0.5, tiny), min_seconds=0.01, clock=clock)
    assert m.conditions.calls_per_trial == 128


def test_a_slow_function_gets_five_trials_beyond_its_minimum_window(clock):
    m = time_calls(clock.function(0.5), min_seconds=0.5, clock=clock)
    assert m.conditions.trials == 5


def test_the_limit_stops_the_five_trials(clock):
    m = time_calls(clock.function(2.0), min_seconds=1.0, max_seconds=10.0, clock=clock)
    # A third of the limit, two calls, warms up; three more fit.
    assert (m.conditions.warmup, m.conditions.trials, clock.now) == (2, 3, 10.0)


def test_one_trial_at_least_however_slow(clock):
    m = time_calls(clock.function(60.0), min_seconds=1.0, max_seconds=2.0, clock=clock)
    assert (m.conditions.warmup, m.samples) == (1, (60.0,))


def test_many_samples_are_thinned_and_the_fastest_is_kept(clock):
    fast_at = 5001
    seconds = [TICK] * fast_at + [TICK / 2, TICK]
    m = time_calls(clock.function(*seconds), min_seconds=8000 * TICK, clock=clock)
    assert len(m.samples) == timing.KEPT_SAMPLES < m.conditions.trials
    assert m.minimum == TICK / 2
    assert m.median == TICK
    assert "2,000 samples kept" in m.conditions.text


def test_progress_rises_to_one(clock):
    seen: list[float] = []
    time_calls(clock.function(TICK), min_seconds=100 * TICK, clock=clock, on_progress=seen.append)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_conditions_say_what_was_asked(clock):
    m = time_calls(
        clock.function(TICK),
        min_seconds=8 * TICK,
        clock=clock,
        dtype="bf16",
        quantity="matmul",
        device_name="a processor",
        threads=1,
    )
    c = m.conditions
    assert (c.device, c.device_name, c.dtype, c.threads, m.quantity) == ("cpu", "a processor", "bf16", 1, "matmul")
    assert c.torch_version == torch.__version__


def test_threads_hold_during_the_calls_and_are_restored():
    before = torch.get_num_threads()
    seen = set()
    time_calls(lambda: seen.add(torch.get_num_threads()), min_seconds=0.01, threads=1)
    assert seen == {1}
    assert torch.get_num_threads() == before


def test_threads_are_restored_when_the_function_fails():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        time_calls(lambda: 1 // 0, threads=1)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"min_seconds": 0}, "min_seconds"),
        ({"min_seconds": float("nan")}, "min_seconds"),
        ({"min_seconds": 5, "max_seconds": 1}, "max_seconds"),
        ({"warmup_calls": -1}, "warmup_calls"),
        ({"threads": 0}, "threads"),
    ],
)
def test_limits_that_make_no_sense_are_named(limits, word):
    with pytest.raises(ValueError, match=word):
        time_calls(lambda: None, **limits)


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="abacus"):
        time_calls(lambda: None, device="abacus")


def test_the_lecture_counts_the_cold_call_and_takes_the_mean(clock):
    m = time_like_the_lecture(clock.function(1.0, 0.25), clock=clock)
    assert m.samples == (1.0, 0.25, 0.25, 0.25, 0.25)
    assert (m.value, m.statistic, m.conditions.warmup, m.conditions.trials) == (0.4, "mean", 0, 5)
    assert clock.calls == 5


def test_the_lecture_wants_a_trial():
    with pytest.raises(ValueError, match="trials"):
        time_like_the_lecture(lambda: None, trials=0)


def test_a_real_matmul_and_a_pickle():
    a_NN = torch.rand(64, 64)
    c_NN = torch.empty(64, 64)
    m = time_calls(lambda: torch.matmul(a_NN, a_NN, out=c_NN), min_seconds=0.05)
    assert 0 < m.minimum <= m.median <= m.maximum
    assert pickle.loads(pickle.dumps(m)) == m


def test_importing_it_does_not_import_torch():
    code = "import sys, core.timing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class FakeCuda:
    """torch.cuda with events on a device whose clock is a list of what was queued."""

    def __init__(self) -> None:
        self.milliseconds = 0.0
        self.log: list[str] = []
        outer = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing
                self.at: float | None = None

            def record(self) -> None:
                self.at = outer.milliseconds

            def elapsed_time(self, end: Event) -> float:
                assert outer.log[-1] == "synchronize", "an event may be read only once the device is done"
                assert self.at is not None
                assert end.at is not None
                return end.at - self.at

        self.Event = Event

    def call(self) -> None:
        self.milliseconds += 2.0
        self.log.append("call")

    def synchronize(self) -> None:
        self.log.append("synchronize")


def test_cuda_events_surround_each_trial_with_one_synchronize_a_chunk():
    cuda = FakeCuda()
    assert timing.cuda_chunk(cuda.call, calls=3, trials=4, cuda=cuda) == [0.006] * 4
    assert cuda.log == ["call"] * 12 + ["synchronize"]


def test_time_calls_on_cuda_reads_events_not_the_wall_clock(monkeypatch):
    cuda = FakeCuda()

    class OnDevice:
        def __init__(self, device: str) -> None:
            assert device == "cuda:1"

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    for name in ("Event", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    monkeypatch.setattr(torch.cuda, "device", OnDevice)
    m = time_calls(cuda.call, device="cuda:1", min_seconds=0.05, device_name="a GPU")
    assert set(m.samples) == {0.002}
    assert m.conditions.busy_fraction is None
    assert m.conditions.calls_per_trial == 1


class TestBusyFraction:
    def test_alone(self):
        assert busy_fraction(Snapshot(0, 0, 0.0, 0), Snapshot(1, 2, 0.0, 2)) == 0.0

    def test_half_of_two_threads(self):
        assert busy_fraction(Snapshot(5, 1, 1.0, 9), Snapshot(6, 2, 2.0, 11)) == 0.5

    def test_work_that_sleeps_is_not_called_short_of_time(self):
        assert busy_fraction(Snapshot(0, 0, 0.0, 0), Snapshot(1, 0.001, 0.01, 1)) == pytest.approx(0.01)

    def test_stolen_time_counts_by_share(self):
        # Half of the machine's work was ours, so half of what was stolen.
        assert busy_fraction(Snapshot(0, 0, 0.0, 0, 0), Snapshot(1, 0.9, 0.0, 1.8, 0.2)) == pytest.approx(0.1)

    def test_without_the_counter_the_others_share_of_the_machine(self, monkeypatch):
        monkeypatch.setattr("os.cpu_count", lambda: 2)
        assert busy_fraction(Snapshot(0, 0, None, 0), Snapshot(1, 1.5, None, 2)) == 0.25

    def test_without_the_counter_a_short_window_cannot_tell(self):
        assert busy_fraction(Snapshot(0, 0, None, 0), Snapshot(0.1, 0.1, None, 0.2)) is None

    def test_no_window_no_answer(self):
        now = snapshot()
        assert busy_fraction(now, now) is None

    def test_a_measurement_carries_it(self):
        busy = time_calls(lambda: sum(range(1000)), min_seconds=0.25).conditions.busy_fraction
        assert busy is None or 0 <= busy <= 1
