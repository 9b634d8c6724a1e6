"""FLOPs of functions: what torch's counter misses, against the same arithmetic written as plain matrix multiplies."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from core.flops.counter import count_flops, count_flops_detail

small = st.integers(1, 6)


def torch_count(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_operator_counts_the_same_the_second_time_and_as_torch_counts_it(device):
    """What is made of others goes to them each time: linear, matmul and einsum, which inference mode lets through."""
    x, w = torch.rand(2, 3, 4, device=device), torch.rand(5, 4, device=device)
    functions = {
        "linear": lambda: functional.linear(x, w),
        "matmul": lambda: x @ w.mT,
        "einsum": lambda: torch.einsum("abc,dc->abd", x, w),
    }
    with torch.inference_mode():
        for name, function in functions.items():
            assert [count_flops(function) for _ in range(3)] == [torch_count(function)] * 3 == [2 * 6 * 4 * 5] * 3, name
    assert count_flops(lambda: 1) == 0


def eager_attention(q, k, v, causal=False):
    """Attention as three operators, query heads sharing key and value heads."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -torch.inf
        )
    return scores.softmax(-1) @ v


def sdpa(q, k, v, causal=False, **more):
    return functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1], **more
    )


def qkv(b, h, kv, t, s, d, v, device="cpu", grad=True, dtype=torch.float32):
    shapes = ((b, h, t, d), (b, kv, s, d), (b, kv, s, v))
    return [torch.rand(shape, device=device, dtype=dtype, requires_grad=grad) for shape in shapes]


@settings(max_examples=25)
@given(small, small, small, small, small, small, small, st.booleans(), st.sampled_from(["cpu", "meta"]))
def test_attention_counts_the_same_however_it_is_computed(b, groups, kv, t, s, d, v, causal, device):
    h = groups * kv
    inputs = qkv(b, h, kv, t, s, d, v, device)
    forward = 2 * b * h * t * s * (d + v)
    for attention in (eager_attention, sdpa):
        assert count_flops(attention, *inputs, causal=causal) == forward
        assert count_flops(lambda: attention(*inputs, causal=causal).sum().backward()) == 3 * forward  # noqa: B023


@settings(max_examples=6)
@given(small, small, small, small, small)
def test_the_fused_cpu_kernel_is_the_one_counted_and_its_recomputation_is_apart(b, h, t, s, d):
    inputs = qkv(b, h, h, t, s, d, d)
    count = count_flops_detail(lambda: sdpa(*inputs).sum().backward())
    name = "_scaled_dot_product_flash_attention_for_cpu"
    assert count.by_operator == {name: 4 * b * h * t * s * d, f"{name}_backward": 8 * b * h * t * s * d}
    assert count.recomputed_flops == 2 * b * h * t * s * d
    assert count.executed_flops == 14 * b * h * t * s * d
    assert torch_count(lambda: sdpa(*inputs).sum().backward()) == 0, "torch counts it now: use torch's formula"
    assert any("full square" in note for note in count.notes)
    assert any(f"{count.recomputed_flops:,}" in note for note in count.notes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", [None, torch.bool, torch.float32])
def test_dtypes_and_masks_change_nothing(dtype, mask):
    inputs = qkv(2, 4, 2, 8, 5, 16, 16, dtype=dtype)
    more = {} if mask is None else {"attn_mask": torch.ones(8, 5, dtype=dtype if mask.is_floating_point else mask)}
    assert count_flops(lambda: sdpa(*inputs, **more).float().sum().backward()) == 12 * 2 * 4 * 8 * 5 * 16


def test_the_mathematical_fallback_is_not_counted_twice():
    inputs = qkv(2, 4, 4, 8, 8, 16, 16)
    count = count_flops_detail(lambda: sdpa(*inputs, dropout_p=0.5).sum().backward())
    assert (count.total, count.recomputed_flops, set(count.by_operator)) == (12 * 2 * 4 * 8 * 8 * 16, 0, {"bmm"})


def test_without_gradients_and_in_inference_mode():
    inputs = qkv(2, 4, 4, 8, 8, 16, 16, grad=False)
    assert count_flops(sdpa, *inputs) == 4 * 2 * 4 * 8 * 8 * 16
    with torch.inference_mode():
        assert count_flops(sdpa, *inputs) == 4 * 2 * 4 * 8 * 8 * 16


def test_a_fused_kernel_computes_the_gradients_that_nobody_asked_for():
    q, k, v = qkv(1, 2, 2, 8, 8, 4, 4)
    k, v = k.detach(), v.detach()
    one = 2 * 2 * 8 * 8 * 4
    assert count_flops(lambda: eager_attention(q, k, v).sum().backward()) == 4 * one  # QKᵀ, PV, dP, dQ
    assert count_flops(lambda: sdpa(q, k, v).sum().backward()) == 6 * one  # and dK, dV


def test_torchs_own_formulas_for_gpu_kernels_lose_their_recomputation_too():
    q, k, v = qkv(2, 4, 4, 8, 8, 16, 8, device="meta", grad=False)
    grad = torch.empty(2, 4, 8, 8, device="meta")
    statistics, seed = torch.empty(2, 4, 8, device="meta"), torch.empty(2, dtype=torch.uint64, device="meta")
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention_backward

    def backward():
        kernel(grad, q, k, v, None, grad, statistics, seed, seed, 0.0, [True, True, True, False])

    pairs = 2 * 4 * 8 * 8
    count = count_flops_detail(backward)
    assert (count.total, count.recomputed_flops) == (2 * pairs * (2 * 16 + 2 * 8), 2 * pairs * 16)
    assert torch_count(backward) == count.executed_flops


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mv", 2 * 4 * 3),
        ("dot", 2 * 3),
        ("vdot", 2 * 3),
        ("addmv", 2 * 4 * 3),
        ("addmv_", 2 * 4 * 3),
        ("addmm", 2 * 4 * 3 * 5),
        ("addmm_", 2 * 4 * 3 * 5),
        ("baddbmm", 2 * 2 * 4 * 3 * 5),
        ("baddbmm_", 2 * 2 * 4 * 3 * 5),
        ("addbmm", 2 * 2 * 4 * 3 * 5),
        ("addr", 2 * 4 * 5),
        ("linear of a vector", 2 * 4 * 3),
        ("linear of a batch", 2 * 7 * 4 * 3),
        ("einsum", 2 * 4 * 3 * 5),
        ("int8", 2 * 32 * 32 * 32),
    ],
)
def test_products_of_every_kind(name, expected, device):
    def one(*shape):
        return torch.ones(shape, device=device)

    bytes_32 = torch.ones(32, 32, dtype=torch.int8, device=device)
    calls = {
        "mv": lambda: one(4, 3) @ one(3),
        "dot": lambda: one(3) @ one(3),
        "vdot": lambda: torch.vdot(one(3), one(3)),
        "addmv": lambda: torch.addmv(one(4), one(4, 3), one(3)),
        "addmv_": lambda: one(4).addmv_(one(4, 3), one(3)),
        "addmm": lambda: torch.addmm(one(5), one(4, 3), one(3, 5)),
        "addmm_": lambda: one(4, 5).addmm_(one(4, 3), one(3, 5)),
        "baddbmm": lambda: torch.baddbmm(one(2, 4, 5), one(2, 4, 3), one(2, 3, 5)),
        "baddbmm_": lambda: one(2, 4, 5).baddbmm_(one(2, 4, 3), one(2, 3, 5)),
        "addbmm": lambda: torch.addbmm(one(4, 5), one(2, 4, 3), one(2, 3, 5)),
        "addr": lambda: torch.addr(one(4, 5), one(4), one(5)),
        "linear of a vector": lambda: functional.linear(one(3), one(4, 3), one(4)),
        "linear of a batch": lambda: functional.linear(one(7, 3), one(4, 3), one(4)),
        "einsum": lambda: torch.einsum("ij, jk -> ik", one(4, 3), one(3, 5)),
        "int8": lambda: torch._int_mm(bytes_32, bytes_32),
    }
    assert count_flops(calls[name]) == expected


def test_a_matrix_times_a_vector_backward_is_twice_forward_when_both_need_gradients():
    a, x = torch.ones(4, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    # The matrix's gradient is an outer product: 4·3 multiplies, elementwise to torch, and so is it here.
    assert count_flops(lambda: (a @ x).sum().backward()) == 2 * 4 * 3 + 2 * 4 * 3


def multiplies_of_a_convolution(x, w, groups):
    """Every multiply of a convolution without padding, one by one."""
    (b, _, length), (c_out, c_in_of_group, width) = x.shape, w.shape
    return sum(
        1
        for _ in range(b)
        for _ in range(c_out)
        for _ in range(length - width + 1)
        for _ in range(c_in_of_group * width)
    )


@settings(max_examples=20)
@given(small, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))
def test_convolutions_forward_and_backward(b, groups, c_in, c_out, width, extra):
    x = torch.rand(b, groups * c_in, width + extra, requires_grad=True)
    w = torch.rand(groups * c_out, c_in, width, requires_grad=True)
    forward = 2 * multiplies_of_a_convolution(x, w, groups)
    assert count_flops(functional.conv1d, x, w, groups=groups) == forward
    assert count_flops(lambda: functional.conv1d(x, w, groups=groups).sum().backward()) == 3 * forward
    assert count_flops(lambda: functional.conv1d(x.detach(), w, groups=groups).sum().backward()) == 2 * forward


def test_a_transposed_convolution():
    x, w = torch.rand(2, 3, 5, requires_grad=True), torch.rand(3, 4, 2, requires_grad=True)
    forward = 2 * 2 * 3 * 5 * 4 * 2
    assert count_flops(functional.conv_transpose1d, x, w, stride=2) == forward
    assert count_flops(lambda: functional.conv_transpose1d(x, w, stride=2).sum().backward()) == 3 * forward


def test_torchs_fast_paths_in_inference_count_what_the_layers_do():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    layer = nn.TransformerEncoderLayer(8, 2, 24, batch_first=True)
    x, memory = torch.rand(2, 4, 8), torch.rand(2, 5, 8)
    slow = count_flops(attention.train(), x, x, x, need_weights=False), count_flops(layer.train(), x)
    with torch.no_grad():
        fast = count_flops_detail(attention.eval(), x, x, x, need_weights=False), count_flops_detail(layer.eval(), x)
        crossed = count_flops(attention, x, memory, memory, need_weights=False)
    assert [set(count.by_operator) for count in fast] == [
        {"_native_multi_head_attention"},
        {"_transformer_encoder_layer_fwd"},
    ]
    assert slow == (fast[0].total, fast[1].total)
    assert crossed == count_flops(attention.train(), x, memory, memory, need_weights=False)


def test_an_lstm_is_named_and_the_total_is_said_to_be_too_low():
    lstm = nn.LSTM(3, 4)
    count = count_flops_detail(lambda: lstm(torch.rand(5, 2, 3))[0].sum().backward())
    assert count.total == 0
    assert {"mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"} <= set(count.hidden_products) <= set(count.uncounted)
    assert any("too low" in note for note in count.notes)


def test_elementwise_work_is_named_and_views_and_copies_are_not():
    x = torch.rand(4, 8, requires_grad=True)
    layers = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Softmax(-1))
    count = count_flops_detail(lambda: layers(x.clone().view(2, 2, 8).transpose(0, 1)).sum().backward())
    assert count.uncounted == (
        "_softmax", "_softmax_backward_data", "add", "gelu", "gelu_backward", "native_layer_norm",
        "native_layer_norm_backward", "sum",
    )  # fmt: skip
    assert not count.hidden_products


def test_modules_by_name_and_the_parent_includes_its_children():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.rand(10, 8)
    count = count_flops_detail(model, x)
    assert count.by_module == {
        "Sequential": 2 * 10 * (8 * 16 + 16 * 4),
        "Sequential.0": 2 * 10 * 8 * 16,
        "Sequential.2": 2 * 10 * 16 * 4,
    }
    with_backward = count_flops_detail(lambda: model(x).sum().backward())
    assert with_backward.total == 2 * 10 * (2 * 8 * 16 + 3 * 16 * 4)  # the first input needs no gradient


def test_modules_of_other_threads_are_not_ours():
    ours, theirs = nn.Linear(8, 8), nn.Sequential(nn.Linear(4, 4))

    def function():
        other = threading.Thread(target=theirs, args=(torch.rand(2, 4),))
        other.start()
        other.join()
        ours(torch.rand(2, 8))

    count = count_flops_detail(function)
    assert count.by_module == {"Linear": 2 * 2 * 8 * 8}
    assert count.total == 2 * 2 * 8 * 8


class Block(nn.Module):
    """A GPT-2 or Llama block by hand, attention eager or fused."""

    def __init__(self, d, heads, kv_heads, ff, llama, attention):
        super().__init__()
        self.heads, self.kv_heads, self.size, self.attention = heads, kv_heads, d // heads, attention
        kv = kv_heads * self.size
        self.norm1, self.norm2 = (nn.RMSNorm(d), nn.RMSNorm(d)) if llama else (nn.LayerNorm(d), nn.LayerNorm(d))
        self.q, self.k, self.v, self.o = (nn.Linear(d, width, bias=not llama) for width in (d, kv, kv, d))
        self.gate = nn.Linear(d, ff, bias=False) if llama else None
        self.up, self.down = nn.Linear(d, ff, bias=not llama), nn.Linear(ff, d, bias=not llama)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.norm1(x)
        q = self.q(h).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = (one(h).view(b, t, self.kv_heads, self.size).transpose(1, 2) for one in (self.k, self.v))
        x = x + self.o(self.attention(q, k, v, causal=True).transpose(1, 2).reshape(b, t, -1))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h) if self.gate else functional.gelu(self.up(h)))


@settings(max_examples=6)
@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 3), st.integers(1, 2), st.integers(1, 9), st.booleans())
def test_whole_blocks_count_the_same_in_eager_and_fused_on_every_kind_of_tensor(b, t, kv, groups, ff, llama):
    d, heads = 4 * kv * groups, kv * groups

    def step(attention, device):
        with torch.device(device):
            block = Block(d, heads, kv, ff, llama, attention)
        return count_flops(lambda: block(torch.rand(b, t, d, device=device, requires_grad=True)).sum().backward())

    matrices = 2 * d * d + 2 * d * 4 * kv + (3 if llama else 2) * d * ff
    expected = 3 * (2 * b * t * matrices + 4 * b * heads * t * t * 4)
    counts = {step(attention, device) for attention in (eager_attention, sdpa) for device in ("cpu", "meta")}
    with FakeTensorMode():
        counts |= {step(attention, "cpu") for attention in (eager_attention, sdpa)}
    assert counts == {expected}


def test_checkpointing_counts_the_forward_that_runs_again():
    block = Block(8, 2, 2, 16, False, sdpa)
    x = torch.rand(1, 4, 8, requires_grad=True)
    plain = count_flops(lambda: block(x).sum().backward())
    again = count_flops(lambda: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward())
    assert plain < again <= plain + plain // 3


def test_an_error_passes_through_and_leaves_no_trace():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        count_flops(torch.matmul, torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(KeyError):
        count_flops({}.__getitem__, "nothing")
    assert count_flops(torch.matmul, torch.ones(2, 3), torch.ones(3, 2)) == 24


def test_nothing_counted_is_nothing_and_counts_can_be_nested():
    count = count_flops_detail(lambda: None)
    assert (count.total, count.by_operator, count.by_module, count.uncounted, count.notes) == (0, {}, {}, (), ())
    inner = []
    x = torch.ones(4, 4)
    outer = count_flops(lambda: inner.append(count_flops(torch.mv, x, x[0])))
    assert (inner, outer) == ([32], 32)
