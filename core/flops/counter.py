"""How many FLOPs a function runs: torch's FlopCounterMode, with the operators that it misses.

Shapes: B batch, H heads, T query positions, S key positions, D head size of q and k, V head size of v.

The convention is the model's FLOPs, a multiply-add being 2: a matrix multiply is counted, elementwise work is not.
One attention is 2·B·H·T·S·(D + V) forward and twice that backward, whichever kernel runs it. A fused backward kernel
computes QKᵀ a second time (2·B·H·T·S·D); that is in ``FlopCount.recomputed_flops``, not in the total. Causal
attention counts the full square. What has no formula is named in ``FlopCount.uncounted``.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.flops.modes import counting_mode, module_tracker, operator_log
from core.words import _

if TYPE_CHECKING:
    from torch.utils.flop_counter import FlopCounterMode

_Shape = tuple[int, ...]
_Formula = Callable[..., int]

# Kernels whose inside is matrix multiplies or sums of products, without a formula here: where one of them ran, the
# total is too low by more than elementwise work.
_HIDDEN_PRODUCTS = (
    "mkldnn_rnn_layer", "_cudnn_rnn", "_thnn_fused", "_miopen", "linalg_", "_linalg_", "cholesky", "triangular_solve",
    "lu_", "ormqr", "geqrf", "_euclidean_dist", "_cdist", "_pdist", "_trilinear", "_fft", "_sparse", "sspaddmm",
    "quantized_", "_weight_int4pack", "conv_tbc",
)  # fmt: skip


@dataclass(frozen=True)
class FlopCount:
    """The FLOPs that a function ran.

    ``by_operator`` and ``by_module`` go from a name to FLOPs: torch's operators, and ``torch.nn`` modules by their
    path (a parent includes its children; backward is attributed by torch's ModuleTracker). ``uncounted`` names the
    operators that ran, do arithmetic and have no formula, elementwise work above all; ``recomputed_flops`` is what
    fused attention kernels computed a second time in backward, not in ``total``.
    """

    total: int
    by_operator: dict[str, int]
    by_module: dict[str, int]
    uncounted: tuple[str, ...]
    recomputed_flops: int

    @property
    def executed_flops(self) -> int:
        """What the kernels ran, the second QKᵀ of fused attention included: the count behind an HFU."""
        return self.total + self.recomputed_flops

    @property
    def hidden_products(self) -> tuple[str, ...]:
        """The uncounted operators that hold matrix multiplies (an LSTM's kernel): with one, the total is too low."""
        return tuple(
            name for name in self.uncounted if name.startswith(_HIDDEN_PRODUCTS) and name != "linalg_vector_norm"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the count leaves out, one sentence each."""
        notes = []
        if any("attention" in name for name in self.by_operator):
            notes.append(_("causal attention counts the full square: what lies above the diagonal is counted too"))
        if self.recomputed_flops:
            note = _("fused attention computed QKᵀ again in backward: {flops:,} FLOPs more, not counted")
            notes.append(note.format(flops=self.recomputed_flops))
        if self.hidden_products:
            note = _("too low: {names} multiply matrices and have no formula")
            notes.append(note.format(names=", ".join(self.hidden_products)))
        if len(self.uncounted) > len(self.hidden_products):
            others = [name for name in self.uncounted if name not in self.hidden_products]
            notes.append(_("never counted: {names}").format(names=", ".join(others)))
        return tuple(notes)


def count_flops(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """FLOPs of calling the function: its matrix multiplies, convolutions and attentions, a multiply-add being 2.

    Works on real tensors (which are computed), on the meta device and on fake tensors (which are not). Counts the
    backward that the function itself calls. An error of the function passes through.

    >>> import torch
    >>> x_BD, w_DK = torch.ones(1024, 256), torch.ones(256, 64)
    >>> count_flops(torch.matmul, x_BD, w_DK)
    33554432
    >>> count_flops(torch.mv, x_BD, torch.ones(256))  # torch's own counter says 0
    524288
    """
    counter = _counter()
    with counting_mode()(counter):
        function(*args, **kwargs)
    return int(counter.get_total_flops())


def count_flops_detail(function: Callable[..., Any], *args: Any, **kwargs: Any) -> FlopCount:
    """FLOPs of calling the function, by operator and by module, with what is not counted.

    Source of the formulas: torch.utils.flop_counter; where it has none, those of this file.

    >>> import torch
    >>> q_BHTD = torch.ones(2, 4, 8, 16, requires_grad=True)
    >>> attention = torch.nn.functional.scaled_dot_product_attention
    >>> count = count_flops_detail(lambda: attention(q_BHTD, q_BHTD, q_BHTD).sum().backward())
    >>> count.by_operator["_scaled_dot_product_flash_attention_for_cpu"], 4 * 2 * 4 * 8 * 8 * 16
    (32768, 32768)
    >>> count.total, count.recomputed_flops
    (98304, 16384)
    """
    recomputed: list[int] = []
    counter = _counter(recomputed)
    with operator_log()(counter.flop_registry) as log, counter:
        function(*args, **kwargs)
    counts = counter.get_flop_counts()
    by_operator = {operator.__name__: int(flops) for operator, flops in counts.get("Global", {}).items()}
    by_module = {name: int(sum(one.values())) for name, one in counts.items() if name != "Global"}
    return FlopCount(sum(by_operator.values()), by_operator, by_module, tuple(sorted(log.uncounted)), sum(recomputed))


def _counter(recomputed: list[int] | None = None) -> FlopCounterMode:
    """torch's counter with this file's formulas; what a fused backward computes again goes to the list."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    if recomputed is None:
        counter.flop_registry = _registry()
        counter.mod_tracker.parents = {"Global"}  # only the total is asked for: modules are not followed
    else:
        counter.flop_registry = _noting(recomputed)
        counter.mod_tracker = module_tracker()()
    return counter


@functools.cache
def _registry() -> dict[Any, _Formula]:
    """The formulas by operator, of which none notes anything."""
    return _noting(None)


def _noting(recomputed: list[int] | None) -> dict[Any, _Formula]:
    from torch.utils.flop_counter import FlopCounterMode

    lacking, fused_backwards = _formulas()
    noting = {operator: _without_recomputation(one, recomputed) for operator, one in fused_backwards.items()}
    formulas: dict[Any, _Formula] = FlopCounterMode(custom_mapping={**lacking, **noting}).flop_registry
    return formulas


@functools.cache
def _formulas() -> tuple[dict[Any, _Formula], dict[Any, _Formula]]:
    """Formulas by operator: those that torch lacks, and those of fused attention's backward, as torch counts it."""
    import torch
    from torch.utils import flop_counter

    aten = torch.ops.aten
    lacking = {
        getattr(aten, name): _raw(flop_counter.shape_wrapper(one))  # type: ignore[no-untyped-call]
        for name, one in _FORMULAS.items()
        if hasattr(aten, name)
    }
    fused_backwards = {
        operator: formula
        for operator, formula in flop_counter.flop_registry.items()
        if re.fullmatch(r"aten\..*attention.*_backward", str(operator))
    }
    for name in ("flash_attention_for_cpu", "fused_attention_overrideable"):
        forward = getattr(aten, f"_scaled_dot_product_{name}", None)
        backward = getattr(aten, f"_scaled_dot_product_{name}_backward", None)
        if forward is not None and backward is not None:
            lacking[forward] = _raw(flop_counter.sdpa_flop)
            fused_backwards.setdefault(backward, flop_counter.sdpa_backward_flop)
    return lacking, fused_backwards


def _raw(formula: _Formula) -> _Formula:
    """The formula, called with the operator's tensors instead of their shapes."""

    @functools.wraps(formula)
    def called(*args: Any, **kwargs: Any) -> int:
        return int(formula(*args, **kwargs))

    called._get_raw = True  # type: ignore[attr-defined]  # what FlopCounterMode looks at
    return called


def _without_recomputation(torch_formula: _Formula, recomputed: list[int] | None) -> _Formula:
    """torch's five matrix multiplies of an attention's backward without the first, QKᵀ again, which is noted apart.

    Over the same query-key pairs, dQ, dK and QKᵀ are 2·D each and dV, dP are 2·V each.
    """

    def formula(grad_out: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
        flops = int(torch_formula(grad_out, query, key, value, *args, **kwargs))
        d, v = int(query.shape[-1]), int(value.shape[-1])
        again = flops * d // (3 * d + 2 * v)
        if recomputed is not None:
            recomputed.append(again)
        return flops - again

    return _raw(formula)


def _product(a_shape: _Shape, b_shape: _Shape, *_args: Any, out_shape: _Shape, **_kwargs: Any) -> int:
    """2 for every element of the output and every step along the last dimension of a."""
    if len(a_shape) == len(b_shape) == 2 and len(out_shape) == 3:  # a grouped product whose groups cut that dimension
        return 2 * math.prod(out_shape[1:]) * a_shape[-1]
    return 2 * math.prod(out_shape) * a_shape[-1]


def _sum_of_products(_c_shape: _Shape, a_shape: _Shape, b_shape: _Shape, *args: Any, **kwargs: Any) -> int:
    return _product(a_shape, b_shape, *args, **kwargs)


def _addbmm(_c_shape: _Shape, a_shape: _Shape, b_shape: _Shape, *_args: Any, **_kwargs: Any) -> int:
    return 2 * math.prod(a_shape) * b_shape[-1]


def _addr(_c_shape: _Shape, a_shape: _Shape, b_shape: _Shape, *_args: Any, **_kwargs: Any) -> int:
    return 2 * a_shape[0] * b_shape[0]


def _convolution_backward(
    grad_shape: _Shape,
    x_shape: _Shape,
    w_shape: _Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: list[bool],
    **_kwargs: Any,
) -> int:
    """As many FLOPs as forward for the input's gradient, and again for the weight's.

    torch's own formula counts the weight's gradient ``groups`` times over.
    """
    positions = math.prod((x_shape if transposed else grad_shape)[2:])
    forward = 2 * x_shape[0] * positions * math.prod(w_shape)
    return forward * (bool(output_mask[0]) + bool(output_mask[1]))


def _multi_head(q_shape: _Shape, k_shape: _Shape, _v_shape: _Shape, width: int, *_args: Any, **_kwargs: Any) -> int:
    """torch's fast path for nn.MultiheadAttention in inference: four projections, QKᵀ and PV."""
    batch, t, _d = q_shape
    s = k_shape[1]
    return 2 * batch * width * width * (2 * t + 2 * s) + 4 * batch * t * s * width


def _encoder_layer(x_shape: _Shape, width: int, *args: Any, **_kwargs: Any) -> int:
    """torch's fast path for nn.TransformerEncoderLayer in inference: its attention and two linear layers."""
    ff_weight_shape: _Shape = args[12]
    return _multi_head(x_shape, x_shape, x_shape, width) + 4 * math.prod(x_shape[:-1]) * math.prod(ff_weight_shape)


_FORMULAS: dict[str, _Formula] = {
    **dict.fromkeys(("mv", "dot", "vdot", "_int_mm", "_weight_int8pack_mm", "_grouped_mm"), _product),
    **dict.fromkeys(("addmv", "addmv_", "addmm_", "baddbmm_", "_addmm_activation"), _sum_of_products),
    **dict.fromkeys(("addbmm", "addbmm_"), _addbmm),
    **dict.fromkeys(("addr", "addr_"), _addr),
    "_native_multi_head_attention": _multi_head,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "convolution_backward": _convolution_backward,
}
