"""Times a function in a way that can be repeated: warm, batched, over a window, with its conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from core.claims import Conditions, Measurement, spread_sample
from core.hardware.load import busy_fraction, snapshot
from core.hardware.machine import available_cores, device_name_of

Clock = Callable[[], float]
# (calls per trial, trials) -> seconds per trial
Runner = Callable[[int, int], list[float]]

SHORTEST_TRIAL_SECONDS = 100e-6  # a clock reading costs about 0.1 µs: 0.1% of this
WARMUP_SECONDS = 0.1  # clocks and caches settle
CHUNK_SECONDS = 0.02  # between two looks at the time, the load and the progress
MAX_CHUNK_TRIALS = 256  # on a GPU each trial holds two events
MAX_CALLS_PER_TRIAL = 2**20
FEWEST_TRIALS = 5
KEPT_SAMPLES = 2000


def time_calls(
    function: Callable[[], object],
    *,
    device: str = "cpu",
    dtype: str = "fp32",
    quantity: str = "time",
    min_seconds: float = 1.0,
    max_seconds: float = 10.0,
    warmup_calls: int = 3,
    device_name: str | None = None,
    threads: int | None = None,
    on_progress: Callable[[float], None] | None = None,
    clock: Clock = time.perf_counter,
) -> Measurement:
    """Seconds per call of ``function``: one sample a trial, a trial being one call or a batch of at least 100 µs.

    Warms up with at least ``warmup_calls`` calls and 0.1 s (fewer once that takes a third of ``max_seconds``), then
    runs trials until ``min_seconds`` are measured and 5 trials done, or ``max_seconds`` have passed since the start;
    always one trial at least. A call is never interrupted, so a single slow one can exceed ``max_seconds``.

    On CUDA the trials lie between pairs of events on the current stream, synchronized once a chunk. ``threads`` is
    torch's thread count meanwhile, by default the cores available. ``dtype`` is a label. Of more than 2,000 samples
    an evenly spaced 2,000 are kept, the fastest among them: median and quartiles are those of the kept ones, and
    ``conditions.trials`` counts all. ``conditions.busy_fraction`` is None off the CPU. ``on_progress`` receives the
    fraction done; ``clock`` is there for tests. Errors: ValueError for a limit that makes no sense.

    >>> m = time_calls(lambda: sum(range(1000)), min_seconds=0.01)
    >>> m.unit, m.statistic, 0 < m.minimum <= m.value, m.conditions.warmup >= 3, m.conditions.trials >= 5
    ('s', 'median', True, True, True)
    """
    _check_limits(min_seconds, max_seconds, warmup_calls, threads)
    threads = available_cores() if threads is None else threads
    with _torch_threads(threads):
        run = _runner(function, device, clock)
        start = clock()
        warmup, call_seconds = _warm_up(run, clock, warmup_calls, max_seconds / 3)
        calls, trial_seconds, extra = _calls_per_trial(run, call_seconds)
        trials: list[float] = []
        before, measured = snapshot(), 0.0
        for chunk in _chunks(run, calls, trial_seconds, lambda: clock() - start, min_seconds, max_seconds):
            trials += chunk
            measured += sum(chunk)
            if on_progress:
                on_progress(min(measured / min_seconds, len(trials) / FEWEST_TRIALS, 1.0))
        busy = busy_fraction(before, snapshot()) if device.startswith("cpu") else None
    kept = spread_sample(trials, KEPT_SAMPLES)
    conditions = Conditions(
        device=device,
        device_name=device_name or device_name_of(device),
        dtype=dtype,
        threads=threads,
        warmup=warmup + extra,
        trials=len(trials),
        calls_per_trial=calls,
        window_seconds=measured,
        torch_version=_torch_version(),
        busy_fraction=busy,
        notes=(f"{len(kept):,} samples kept",) if len(kept) < len(trials) else (),
    )
    return Measurement(quantity, tuple(seconds / calls for seconds in kept), "s", conditions)


def time_like_the_lecture(
    function: Callable[[], object],
    *,
    trials: int = 5,
    device: str = "cpu",
    dtype: str = "fp32",
    quantity: str = "time",
    device_name: str | None = None,
    threads: int | None = None,
    clock: Clock = time.perf_counter,
) -> Measurement:
    """The lecture's own method: no warm-up, and the mean of 5 calls, each waiting for the device to finish.

    The cold first call is one of the five, so this reads high. ``threads`` None leaves torch's thread count as it
    is. Errors: ValueError for fewer than one trial. Source: CS336 lecture 2, §5.4 (time_matmul).

    >>> m = time_like_the_lecture(lambda: sum(range(1000)))
    >>> m.statistic, len(m.samples), m.conditions.warmup
    ('mean', 5, 0)
    """
    if trials < 1:
        raise ValueError(f"trials must be 1 or more, for example 5; received {trials!r}")
    _check_limits(1.0, 1.0, 0, threads)
    import torch

    threads = torch.get_num_threads() if threads is None else threads
    with _torch_threads(threads):
        synchronize = _synchronizer(device)
        synchronize()
        before = snapshot()
        samples = []
        for _ in range(trials):
            start = clock()
            function()
            synchronize()
            samples.append(clock() - start)
        busy = busy_fraction(before, snapshot()) if device.startswith("cpu") else None
    conditions = Conditions(
        device=device,
        device_name=device_name or device_name_of(device),
        dtype=dtype,
        threads=threads,
        warmup=0,
        trials=trials,
        window_seconds=sum(samples),
        torch_version=torch.__version__,
        busy_fraction=busy,
    )
    return Measurement(quantity, tuple(samples), "s", conditions, statistic="mean")


def _check_limits(min_seconds: float, max_seconds: float, warmup_calls: int, threads: int | None) -> None:
    if not min_seconds > 0:
        raise ValueError(f"min_seconds must be above 0, for example 1.0; received {min_seconds!r}")
    if not max_seconds >= min_seconds:
        raise ValueError(f"max_seconds must be at least min_seconds ({min_seconds!r}); received {max_seconds!r}")
    if warmup_calls < 0:
        raise ValueError(f"warmup_calls must be 0 or more, for example 3; received {warmup_calls!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be 1 or more, at best the free cores; received {threads!r}")


def _warm_up(run: Runner, clock: Clock, at_least: int, budget_seconds: float) -> tuple[int, float]:
    """Calls until both the count and 0.1 s are reached, or the budget is used up; how many, and the last's seconds."""
    start, done = clock(), 0
    while True:
        seconds = run(1, 1)[0]
        done += 1
        elapsed = clock() - start
        if elapsed >= budget_seconds or (done >= at_least and elapsed >= WARMUP_SECONDS):
            return done, seconds


def _calls_per_trial(run: Runner, call_seconds: float) -> tuple[int, float, int]:
    """Doubles the batch until a trial takes 100 µs: calls a trial, its seconds, and the calls spent to find out."""
    if call_seconds >= 100 * SHORTEST_TRIAL_SECONDS:
        return 1, call_seconds, 0
    calls, spent = 1, 0
    while True:
        # The least of three, so that one disturbed trial does not end the search too early.
        seconds = min(run(calls, 3))
        spent += 3 * calls
        if seconds >= SHORTEST_TRIAL_SECONDS or calls >= MAX_CALLS_PER_TRIAL:
            return calls, seconds, spent
        calls *= 2


def _chunks(
    run: Runner, calls: int, trial_seconds: float, elapsed: Clock, min_seconds: float, max_seconds: float
) -> Iterator[list[float]]:
    """Trials in chunks of about 20 ms, until enough are done or the next one would pass ``max_seconds``."""
    count = max(1, min(MAX_CHUNK_TRIALS, int(min(CHUNK_SECONDS, min_seconds) / max(trial_seconds, 1e-9))))
    measured, done = 0.0, 0
    while done == 0 or ((measured < min_seconds or done < FEWEST_TRIALS) and elapsed() + trial_seconds <= max_seconds):
        chunk = run(calls, count)
        measured += sum(chunk)
        done += len(chunk)
        yield chunk


def _runner(function: Callable[[], object], device: str, clock: Clock) -> Runner:
    """What runs and times a chunk of trials on that device."""
    if device.startswith("cuda"):
        import torch

        def run(calls: int, trials: int) -> list[float]:
            with torch.cuda.device(device):
                return cuda_chunk(function, calls, trials, torch.cuda)

        return run
    if device.startswith("cpu"):
        return lambda calls, trials: wall_chunk(function, calls, trials, clock)
    synchronize = _synchronizer(device)
    synchronize()

    def batch() -> None:
        # No events here: the whole batch is one call that waits at its end.
        function()
        synchronize()

    return lambda calls, trials: wall_chunk(batch, calls, trials, clock)


def wall_chunk(function: Callable[[], object], calls: int, trials: int, clock: Clock) -> list[float]:
    """Seconds of each of ``trials`` trials of ``calls`` calls by a wall clock.

    >>> ticks = iter([0.0, 2.0, 5.0, 8.0])
    >>> wall_chunk(lambda: None, calls=1, trials=2, clock=lambda: next(ticks))
    [2.0, 3.0]
    """
    seconds = []
    if calls == 1:  # without the inner loop, so that nothing but the call lies between the readings
        for _ in repeat(None, trials):
            start = clock()
            function()
            seconds.append(clock() - start)
        return seconds
    for _ in repeat(None, trials):
        start = clock()
        for _ in repeat(None, calls):
            function()
        seconds.append(clock() - start)
    return seconds


def cuda_chunk(function: Callable[[], object], calls: int, trials: int, cuda: Any) -> list[float]:
    """The same by pairs of CUDA events, with one synchronize at the end; ``cuda`` is the module torch.cuda.

    The work is queued ahead of the device, so a trial holds no launch gap unless launching is the slower side.
    """
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(trials)]
    for start, end in pairs:
        start.record()
        for _ in repeat(None, calls):
            function()
        end.record()
    cuda.synchronize()
    return [float(start.elapsed_time(end)) / 1e3 for start, end in pairs]


def _synchronizer(device: str) -> Callable[[], object]:
    """What waits for the device's queue; nothing to wait for on the CPU."""
    if device.startswith("cpu"):
        return lambda: None
    import torch

    kind: Any = getattr(torch, device.split(":")[0], None)
    if kind is None or not hasattr(kind, "synchronize"):
        raise ValueError(f"no way to wait for the device {device!r}; known are cpu, cuda, mps and xpu")
    return lambda: kind.synchronize()


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """torch's thread count inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
