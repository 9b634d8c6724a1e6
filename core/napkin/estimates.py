"""Estimates that fit on a napkin: days to train, the largest model that fits (CS336 lecture 2, §2). No torch."""

from __future__ import annotations

from dataclasses import dataclass

from core import units
from core.checks import positive_number, whole_number
from core.claims import Prediction, Term
from core.words import _

FLOPS_PER_PARAM_AND_TOKEN = 6  # 2 forward, 4 backward: Kaplan et al. 2020 (arXiv 2001.08361), §2.1
SECONDS_PER_DAY = 24 * 60 * 60
MAX_DEVICES = 10**7


@dataclass(frozen=True)
class Recipe:
    """Bytes that training keeps per parameter, each part named; activations come on top."""

    name: str
    parameter_bytes: float
    gradient_bytes: float
    optimizer_state_bytes: float
    master_param_bytes: float = 0.0

    @property
    def bytes_per_param(self) -> float:
        """All that a parameter takes.

        >>> RECIPES["fp32"].bytes_per_param, RECIPES["bf16, fp32 moments"].bytes_per_param
        (16.0, 12.0)
        """
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_state_bytes + self.master_param_bytes


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("fp32", 4, 4, 8),  # CS336 lecture 2 (2025): parameters, gradients, AdamW's two moments
        Recipe("bf16, fp32 moments", 2, 2, 8),  # CS336 lecture 2 (2026)
        Recipe("bf16, fp32 master and moments", 2, 2, 8, 4),  # Micikevicius et al. 2018 with Adam: 16 again
    )
}


def recipe_parts(recipe: Recipe) -> tuple[Term, ...]:
    """What a parameter's bytes are for.

    >>> [part.value for part in recipe_parts(RECIPES["fp32"])]
    [4, 4, 8]
    """
    parts = (
        Term(_("parameters"), recipe.parameter_bytes, unit="bytes"),
        Term(_("gradients"), recipe.gradient_bytes, unit="bytes"),
        Term(_("optimizer state"), recipe.optimizer_state_bytes, unit="bytes"),
        Term(_("master parameters"), recipe.master_param_bytes, unit="bytes"),
    )
    return tuple(part for part in parts if part.value)


def training_flops(num_params: float, num_tokens: float) -> float:
    """FLOPs of training: 6 for every parameter and token.

    >>> training_flops(70e9, 15e12)
    6.3e+24
    """
    params = positive_number(_("number of parameters"), num_params)
    return FLOPS_PER_PARAM_AND_TOKEN * params * positive_number(_("number of tokens"), num_tokens)


def training_days(
    num_params: float, num_tokens: float, num_devices: int, peak_flop_per_sec: float, mfu: float
) -> float:
    """Days to train on that many devices at that fraction of their peak. Source: CS336 lecture 2, §2.

    Raises ValueError for what is not a positive number, or a number of devices that is not whole.

    >>> round(training_days(70e9, 15e12, 1024, 1979e12 / 2, 0.5), 2)
    143.93
    """
    devices = whole_number(_("number of devices"), num_devices, 1, MAX_DEVICES)
    rate = devices * positive_number(_("peak FLOP/s"), peak_flop_per_sec) * positive_number("MFU", mfu)
    return training_flops(num_params, num_tokens) / (rate * SECONDS_PER_DAY)


def predict_training_time(
    num_params: float, num_tokens: float, num_devices: int, peak_flop_per_sec: float | None, mfu: float
) -> Prediction:
    """The time to train as a claim, in seconds; unknown where the peak is.

    >>> predict_training_time(70e9, 15e12, 1024, 1979e12 / 2, 0.5).text
    '144 days'
    """
    if peak_flop_per_sec is None:
        missing = _("no sourced dense peak for this accelerator and dtype")
        return Prediction(_("time to train"), None, "s", _("6·N·D / (devices · peak · MFU)"), unknown=missing)
    days = training_days(num_params, num_tokens, num_devices, peak_flop_per_sec, mfu)
    flops = training_flops(num_params, num_tokens)
    per_day = num_devices * peak_flop_per_sec * mfu * SECONDS_PER_DAY
    terms = (
        Term(_("FLOPs to do"), flops, _("6 · parameters · tokens"), "FLOP"),
        Term(_("FLOPs a day"), per_day, _("devices · peak · MFU · 86,400 s"), "FLOP"),
    )
    work = f"6 · {units.count(num_params)} · {units.count(num_tokens)}"
    rate = f"{num_devices:,} · {units.si(peak_flop_per_sec, 'FLOP/s')} · {mfu:g}"
    formula = f"{work} / ({rate})"
    return Prediction(_("time to train"), days * SECONDS_PER_DAY, "s", formula, terms, _("CS336 lecture 2, §2"))


def predict_energy(num_devices: int, watts_per_device: float, seconds: float, pue: float) -> Prediction:
    """Energy of a training: every device at its power all the time, times what the building adds (PUE).

    >>> predict_energy(1024, 700, 144 * 86400, 1.1).text
    '2.72 GWh'
    """
    devices = whole_number(_("number of devices"), num_devices, 1, MAX_DEVICES)
    hours = positive_number(_("seconds"), seconds) / 3600
    watt_hours = devices * positive_number(_("watts"), watts_per_device) * hours * positive_number("PUE", pue)
    formula = f"{devices:,} · {watts_per_device:,g} W · {hours:,.4g} h · {pue:g}"
    return Prediction(_("energy"), watt_hours, "Wh", formula)


def predict_cost(num_devices: int, dollars_per_device_hour: float, seconds: float) -> Prediction:
    """Cost of renting the devices for that time.

    >>> predict_cost(1024, 2.5, 144 * 86400).text
    '8,850,000 $'
    """
    devices = whole_number(_("number of devices"), num_devices, 1, MAX_DEVICES)
    hours = positive_number(_("seconds"), seconds) / 3600
    price = positive_number(_("dollars for a device and hour"), dollars_per_device_hour)
    formula = f"{devices:,} · {hours:,.4g} h · {price:g} $"
    return Prediction(_("cost"), devices * hours * price, "$", formula)


def max_params(memory_bytes: float, bytes_per_param: float) -> float:
    """The most parameters that fit, with nothing left for activations. Source: CS336 lecture 2, §2.

    >>> max_params(8 * 80e9, 16)
    40000000000.0
    """
    memory = positive_number(_("memory in bytes"), memory_bytes)
    return memory / positive_number(_("bytes per parameter"), bytes_per_param)


def predict_max_params(num_devices: int, memory_bytes: float, recipe: Recipe) -> Prediction:
    """The largest model as a claim: all memory over the bytes that a parameter takes.

    >>> predict_max_params(8, 80e9, RECIPES["fp32"]).text
    '40.0 B parameters'
    """
    devices = whole_number(_("number of devices"), num_devices, 1, MAX_DEVICES)
    value = max_params(devices * memory_bytes, recipe.bytes_per_param)
    terms = recipe_parts(recipe)
    formula = f"{devices:,} · {units.si_bytes(memory_bytes)} / {recipe.bytes_per_param:g} bytes"
    return Prediction(_("largest model"), value, _("parameters"), formula, terms, _("CS336 lecture 2, §2"))
