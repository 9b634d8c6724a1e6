"""The limits that jobs run under: defaults that suit a laptop, or environment variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core import units
from core.jobs.types import JobRefused

_CGROUP_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def physical_memory_bytes() -> int:
    """The memory of this machine, or of the container where that has less.

    >>> physical_memory_bytes() > 2**20
    True
    """
    import psutil  # here, so that importing core.jobs stays cheap

    total = int(psutil.virtual_memory().total)
    for name in _CGROUP_MEMORY_LIMITS:
        try:
            total = min(total, int(Path(name).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total


@dataclass(frozen=True)
class Limits:
    """What a job may use, and how many may wait.

    The memory limit counts what a job takes on top of the Python and torch that its process starts with. The
    maxima bound what a caller may ask for. Finished jobs are forgotten after ``keep_seconds``, or earlier, oldest
    first, where there are more than ``max_kept_jobs`` or they hold more than ``max_kept_bytes``.
    """

    default_timeout_seconds: float = 120.0
    max_timeout_seconds: float = 3600.0
    default_memory_limit_bytes: int = 2**30
    max_memory_limit_bytes: int = 2**30
    max_queued_jobs: int = 200
    max_message_bytes: int = 64 * 2**20
    keep_seconds: float = 3600.0
    max_kept_jobs: int = 1000
    max_kept_bytes: int = 256 * 2**20

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Limits:
        """The limits that the environment variables ask for.

        NAPKIN_JOB_TIMEOUT_SECONDS (120), NAPKIN_MAX_JOB_TIMEOUT_SECONDS (3600), NAPKIN_JOB_MEMORY_BYTES (4 GiB, or
        half of the memory where that is less), NAPKIN_MAX_JOB_MEMORY_BYTES (half of the memory),
        NAPKIN_MAX_QUEUED_JOBS (200), NAPKIN_MAX_JOB_RESULT_BYTES (64 MiB). A default above its maximum raises the
        maximum, unless that is set too.

        Raises ValueError where a variable is not a positive number, or a default exceeds a maximum that is set.

        >>> Limits.from_environment({"NAPKIN_JOB_TIMEOUT_SECONDS": "7.5"}).default_timeout_seconds
        7.5
        >>> Limits.from_environment({"NAPKIN_MAX_QUEUED_JOBS": "many"})
        Traceback (most recent call last):
        ...
        ValueError: NAPKIN_MAX_QUEUED_JOBS must be a positive whole number, for example 200; received 'many'
        """
        env = os.environ if environment is None else environment
        half = physical_memory_bytes() // 2
        timeout = _number(env, "NAPKIN_JOB_TIMEOUT_SECONDS", 120.0)
        max_timeout = _number(env, "NAPKIN_MAX_JOB_TIMEOUT_SECONDS", max(3600.0, timeout))
        memory = _whole_number(env, "NAPKIN_JOB_MEMORY_BYTES", min(4 * 2**30, half))
        max_memory = _whole_number(env, "NAPKIN_MAX_JOB_MEMORY_BYTES", max(half, memory))
        # A maximum that is set lowers a default that is not.
        if "NAPKIN_JOB_TIMEOUT_SECONDS" not in env:
            timeout = min(timeout, max_timeout)
        if "NAPKIN_JOB_MEMORY_BYTES" not in env:
            memory = min(memory, max_memory)
        for name, default, maximum in (
            ("NAPKIN_JOB_TIMEOUT_SECONDS", timeout, max_timeout),
            ("NAPKIN_JOB_MEMORY_BYTES", memory, max_memory),
        ):
            if default > maximum:
                raise ValueError(f"{name} must be at most the maximum of {maximum:,.0f}; received {default:,.0f}")
        return cls(
            default_timeout_seconds=timeout,
            max_timeout_seconds=max_timeout,
            default_memory_limit_bytes=memory,
            max_memory_limit_bytes=max_memory,
            max_queued_jobs=_whole_number(env, "NAPKIN_MAX_QUEUED_JOBS", 200),
            max_message_bytes=_whole_number(env, "NAPKIN_MAX_JOB_RESULT_BYTES", 64 * 2**20),
        )

    def timeout_seconds(self, asked: float | None) -> float:
        """The time limit of a job that asks for that many seconds; None asks for the default.

        Raises ValueError for what is not a positive number and JobRefused above the maximum.

        >>> Limits().timeout_seconds(None), Limits().timeout_seconds(5)
        (120.0, 5.0)
        """
        if asked is None:
            return self.default_timeout_seconds
        if not (math.isfinite(asked) and asked > 0):
            raise ValueError(f"a job's timeout must be a positive number of seconds, for example 60; received {asked}")
        if asked > self.max_timeout_seconds:
            limit = units.seconds(self.max_timeout_seconds)
            raise JobRefused(f"The job asks for {units.seconds(asked)}; a job may run for {limit} at most.")
        return float(asked)

    def memory_limit_bytes(self, asked: int | None) -> int:
        """The memory limit of a job that asks for that many bytes; None asks for the default.

        Raises ValueError for what is not positive and JobRefused above the maximum.

        >>> Limits().memory_limit_bytes(10**9)
        1000000000
        """
        if asked is None:
            return self.default_memory_limit_bytes
        if asked <= 0:
            raise ValueError(f"a job's memory limit must be a positive number of bytes; received {asked}")
        if asked > self.max_memory_limit_bytes:
            limit = units.si_bytes(self.max_memory_limit_bytes)
            raise JobRefused(f"The job asks for {units.si_bytes(asked)} of memory; a job may take {limit} at most.")
        return int(asked)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, for example {default:g}; received {text!r}")
    return value


def _whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise ValueError(f"{name} must be a positive whole number, for example {default}; received {text!r}")
    return value
