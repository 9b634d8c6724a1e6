"""Many small updates added with stochastic rounding, in many runs at once."""

from __future__ import annotations

import math

import numpy as np

from core.dtypes.arrays import Floats, round_array
from core.dtypes.formats import Format


def stochastic_runs(fmt: Format, update: float, marks: tuple[int, ...], uniform_SR: Floats) -> Floats:
    """The weights of every run after each marked number of updates, each sum rounded by its uniform number.

    Every run starts at 1; ``marks`` are sorted, and ``uniform_SR`` has a row of numbers in [0, 1) for each step.

    >>> from core.dtypes.formats import FORMATS
    >>> stochastic_runs(FORMATS["bf16"], 0.001, (0, 1, 2), np.full((2, 1), 0.1)).tolist()
    [[1.0], [1.0078125], [1.015625]]
    """
    for way in (_within_the_octave, _octave_by_octave):
        sampled_MR = way(fmt, update, marks, uniform_SR)
        if sampled_MR is not None:
            return sampled_MR
    return _step_by_step(fmt, update, marks, uniform_SR)


def _within_the_octave(fmt: Format, update: float, marks: tuple[int, ...], uniform_SR: Floats) -> Floats | None:
    """The same where no run reaches 2, as with most updates: then only how often each was rounded up is counted.

    None where one does, and where 0 is no mark.
    """
    at, spacing = np.array(marks), 2.0**-fmt.mantissa_bits
    if at[0] or not at[-1] or float(fmt.max_value) < 2:
        return None
    counted = 1 / spacing
    added = (counted + update / spacing) - counted  # as the sum has it, rounded to fp64
    whole = math.floor(added)
    up_RS = uniform_SR.T[:, : at[-1]] < added - whole
    between_RM = np.add.reduceat(up_RS.view(np.uint8), at[:-1], axis=1, dtype=np.int64)
    more_RM = np.zeros((len(up_RS), len(at)), dtype=np.int64)
    np.cumsum(between_RM, axis=1, out=more_RM[:, 1:])
    before_last = more_RM[:, -1] - up_RS[:, -1]
    if not (whole * (at[-1] - 1) + before_last < counted - added).all():
        return None
    sampled_MR: Floats = ((counted + whole * at + more_RM) * spacing).T
    return sampled_MR


def _step_by_step(fmt: Format, update: float, marks: tuple[int, ...], uniform_SR: Floats) -> Floats:
    weights, sampled, kept = np.ones(uniform_SR.shape[1]), [], set(marks)
    for step, uniform_R in enumerate(uniform_SR[: marks[-1]]):
        sampled += [weights] if step in kept else []
        weights = _stochastic(weights + update, fmt, uniform_R)
    return np.array([*sampled, weights])


def _octave_by_octave(fmt: Format, update: float, marks: tuple[int, ...], uniform_SR: Floats) -> Floats | None:
    """The same, fast; None where a run comes near the largest number of its format.

    While a run stays within a power of two, every sum adds the same: whole spacings of the format there, and one more
    with the same chance. So each turn takes every run up to the step that leaves its power of two, and by that one.
    """
    last, top, at = marks[-1], math.frexp(float(fmt.max_value))[1], np.array(marks)
    runs = np.arange(uniform_SR.shape[1])
    weights, since = np.ones(len(runs)), np.zeros(len(runs), dtype=int)
    sampled_MR = np.empty((len(marks), len(runs)))
    while True:
        exponents = np.frexp(weights)[1]
        if exponents.max() >= top:
            return None
        start = int(since.min())
        spacing = np.ldexp(1.0, exponents - 1 - fmt.mantissa_bits)  # from 1 on numbers are normal
        counted = weights / spacing
        added = (counted + update / spacing) - counted  # as the sum has it, rounded to fp64
        whole, uniform = np.floor(added), uniform_SR[start:last]
        uniform = uniform if len(runs) == uniform.shape[1] else uniform[:, runs]
        gained = np.zeros((last - start + 1, len(runs)))  # spacings, since ``start``, if it went on like this
        np.cumsum(whole + (uniform < added - whole), axis=0, out=gained[1:])
        counted -= gained[since - start, np.arange(len(runs))]
        room = 2.0 ** (fmt.mantissa_bits + 1) - added - counted
        if (gained[:-1][-1:] < room).all():  # no run leaves
            leaves = np.full(len(runs), last)
        else:
            leaves = np.maximum(since, start + (gained[:-1] < room).sum(axis=0))
        rows = np.searchsorted(at, start)
        here = (since <= at[rows:, None]) & (at[rows:, None] <= leaves)
        reached = (counted + gained[at[rows:] - start]) * spacing
        sampled_MR[rows:, runs] = np.where(here, reached, sampled_MR[rows:, runs])
        on = np.flatnonzero(leaves < last)
        if not len(on):
            return sampled_MR
        steps = leaves[on] - start
        weights = _stochastic((counted[on] + gained[steps, on]) * spacing[on] + update, fmt, uniform[steps, on])
        runs, since = runs[on], leaves[on] + 1


def _stochastic(sums: Floats, fmt: Format, uniform: Floats) -> Floats:
    """``round_array`` for finite positive numbers, many times in a row: without what it does for others."""
    if not sums.max() < float(fmt.max_value):  # NaN too
        return round_array(sums, fmt, uniform)
    exponent = np.maximum(np.frexp(sums)[1] - 1, fmt.min_exponent) - fmt.mantissa_bits
    steps = np.ldexp(sums, -exponent)
    whole = np.floor(steps)
    whole += uniform < steps - whole
    rounded: Floats = np.ldexp(whole, exponent)
    return rounded
