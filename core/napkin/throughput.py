"""MFU of a training step from its tokens per second: what is counted decides what is reported."""

from __future__ import annotations

from dataclasses import dataclass

from core import units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.napkin.published import flops_per_token, mfu_of_throughput
from core.words import _


@dataclass(frozen=True)
class Throughput:
    """Tokens per second of a training, as published, and the shape that the attention term needs.

    ``attention_width`` is heads × head size (d_model in most models, fewer in PaLM). ``reported_mfu`` is the report's
    own figure, and ``reported_counts_attention`` says whether it holds the attention's FLOPs.
    """

    name: str
    num_params: float
    tokens_per_sec: float
    num_devices: int
    accelerator: str
    peak_flop_per_sec: float
    num_layers: int
    attention_width: int
    seq_len: int
    reported_mfu: float
    reported_counts_attention: bool
    source: str

    @property
    def mfu_without_attention(self) -> float:
        """6N FLOPs for a token."""
        return self._mfu(flops_per_token(self.num_params))

    @property
    def mfu_with_attention(self) -> float:
        """6N + 12·L·d·T FLOPs for a token."""
        per_token = flops_per_token(self.num_params, self.num_layers, self.attention_width, self.seq_len)
        return self._mfu(per_token)

    def _mfu(self, per_token: float) -> float:
        return mfu_of_throughput(self.tokens_per_sec, self.num_devices, self.peak_flop_per_sec, per_token)


_PALM = "Chowdhery et al. 2022 (PaLM), appendix B"
_MPT = "mosaicml/llm-foundry, scripts/train/benchmarking/README.md"
THROUGHPUTS = {
    one.name: one
    for one in (
        Throughput("PaLM 540B", 540e9, 238.3e3, 6144, "TPU v4", 275e12, 118, 12288, 2048, 0.457, False, _PALM),
        Throughput("MPT-7B, T = 2,048", 6.65886e9, 10475, 1, "H100", 989.5e12, 32, 4096, 2048, 0.4571, True, _MPT),
        Throughput("MPT-7B, T = 65,536", 6.91891e9, 1956, 1, "H100", 989.5e12, 32, 4096, 65536, 0.2859, True, _MPT),
    )
}


def compare_throughput(one: Throughput) -> Comparison:
    """6N's MFU beside the reported one; the attention's FLOPs are the named part where the report counts them.

    >>> comparison = compare_throughput(THROUGHPUTS["MPT-7B, T = 65,536"])
    >>> round(comparison.prediction.value, 1), comparison.measurement.value, round(comparison.unexplained, 1)
    (8.2, 28.59, 0.0)
    """
    rate = f"{one.tokens_per_sec:,g} tokens/s"
    peak = units.si(one.peak_flop_per_sec, "FLOP/s")
    formula = f"6 · {units.count(one.num_params)} · {rate} / ({one.num_devices:,} · {peak})"
    prediction = Prediction("MFU", 100 * one.mfu_without_attention, "%", formula, source=one.source)
    notes = (_("as reported: {source}").format(source=one.source),)
    conditions = Conditions(one.accelerator, one.accelerator, "bf16", threads=1, warmup=0, trials=1, notes=notes)
    measurement = Measurement("MFU", (100 * one.reported_mfu,), "%", conditions)
    parts: tuple[Term, ...] = ()
    if one.reported_counts_attention:
        note = _("12·L·d·T = 12 · {layers} · {width:,} · {length:,} FLOPs more for each token")
        text = note.format(layers=one.num_layers, width=one.attention_width, length=one.seq_len)
        parts = (Term(_("attention"), 100 * (one.mfu_with_attention - one.mfu_without_attention), text),)
    return Comparison(prediction, measurement, parts)
