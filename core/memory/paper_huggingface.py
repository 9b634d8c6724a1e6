"""Hugging Face's GPT-2 and Llama on paper, line by line what transformers 5 runs without dropout and cache.

They differ from ours by what a card can name: GELU written in Python operations, logits taken to fp32, labels shifted,
one matrix for q, k and v, a mask shared by all blocks, rotations by whole heads.
"""

from __future__ import annotations

from core.memory import paper_layers as layers
from core.memory import paper_ops as ops
from core.memory import result
from core.memory.config import StepConfig
from core.memory.paper import Shape, Sheet, Tape
from core.memory.paper_models import (
    PaperModel,
    Parameters,
    Rotation,
    Shapes,
    block_shapes,
    embedding_shapes,
    head_shapes,
    heads,
    linear,
    linear_shapes,
    norm_shapes,
    repeat_heads,
    residual,
    run_blocks,
)


def huggingface(config: StepConfig) -> PaperModel:
    """transformers' model of the config's shape."""
    model = config.model
    gpt2 = model.learned_positions > 0
    assert model.head_dim is not None
    return PaperModel(
        embedding_shapes(model),
        _gpt2_block_shapes(config) if gpt2 else _llama_block_shapes(config),
        (*norm_shapes(model, "final_norm"), *head_shapes(model)),
        lambda t, w, blocks, tokens, labels: _loss(t, config, w, blocks, tokens, labels),
        buffers=0 if gpt2 else 2 * ops.FP32 * (model.head_dim // 2),  # inverse frequencies, and their original
    )


def _gpt2_block_shapes(config: StepConfig) -> Shapes:
    model, d = config.model, config.model.d_model
    mlp_in, mlp_out = linear_shapes("up", d, model.d_ff, bias=False), linear_shapes("down", model.d_ff, d, bias=False)
    return (
        *norm_shapes(model, "attention_norm"),
        *(("qkv.weight", (d, 3 * d)), ("qkv.bias", (3 * d,)), ("output.weight", (d, d)), ("output.bias", (d,))),
        *norm_shapes(model, "mlp_norm"),
        *(*mlp_in, ("up.bias", (model.d_ff,)), *mlp_out, ("down.bias", (d,))),
    )


def _llama_block_shapes(config: StepConfig) -> Shapes:
    """Ours, but the norms come last: an optimizer's loop goes in this order."""
    shapes = block_shapes(config.model)
    norms = tuple(one for one in shapes if one[0].startswith(("attention_norm.", "mlp_norm.")))
    return (*(one for one in shapes if one not in norms), *norms)


def _loss(t: Tape, config: StepConfig, w: Parameters, blocks: list[Parameters], tokens: Sheet, labels: Sheet) -> Sheet:
    hidden = _hidden(t, config, w, blocks, tokens)
    t.label = "head"
    logits = layers.linear(t, hidden, w.get("head", w["embedding"]))
    assert logits.node is not None
    logits.node.moment = (result.HEAD_BACKWARD, None)
    return _shifted_cross_entropy(t, logits, labels)


def _shifted_cross_entropy(t: Tape, logits: Sheet, labels: Sheet) -> Sheet:
    t.label = "loss"
    batch, seq, vocab = logits.shape
    logits_fp32 = ops.cast(t, logits, ops.FP32)
    padded = t.new((batch, seq + 1), ops.INT64)
    shifted = padded if batch == 1 else t.new((batch, seq), ops.INT64)  # one row shifted is contiguous as it is
    loss = layers.cross_entropy(t, ops.view(t, logits_fp32, (batch * seq, vocab)), shifted)
    del padded
    return loss


def _hidden(t: Tape, config: StepConfig, w: Parameters, blocks: list[Parameters], tokens: Sheet) -> Sheet:
    t.label = "embedding"
    embedded = layers.embedding(t, w["embedding"], tokens)
    counted = t.new((tokens.shape[1],), ops.INT64)
    positions = t.new((1, tokens.shape[1]), ops.INT64)  # what was seen before is added, into a new tensor
    del counted
    turn: Rotation = None
    x = embedded
    if "positions" in w:
        placed = layers.embedding(t, w["positions"], positions)
        x = ops.add(t, embedded, placed)
    mask = _mask(t, tokens.shape, x.item) if config.attention == "eager" else None
    if "positions" not in w:
        turn = _rotation(t, config, positions, x.item)
    shared = tuple(one for one in (mask, positions, *(turn or ())) if one is not None)

    def gpt2(t: Tape, weights: Parameters, x: Sheet) -> Sheet:
        return _gpt2_block(t, config, weights, x, mask)

    def llama(t: Tape, weights: Parameters, x: Sheet) -> Sheet:
        assert turn is not None
        return _llama_block(t, config, weights, x, mask, turn)

    one = llama if turn is not None else gpt2
    return _norm(t, w, "final_norm", run_blocks(t, blocks, x, one, config.checkpointing, shared))


def _mask(t: Tape, shape: Shape, item: int) -> Sheet:
    """(batch, 1, seq, seq) of 0 and −∞, from comparisons of positions."""
    batch, seq = shape
    allowed, zero, lowest = t.new((seq, seq), ops.BOOL), t.new((), item), t.new((), item)
    mask = t.new((batch, 1, seq, seq), item)
    del allowed, zero, lowest
    return mask


def _rotation(t: Tape, config: StepConfig, positions: Sheet, item: int) -> tuple[Sheet, Sheet]:
    width = config.model.head_dim
    assert width is not None
    frequencies = t.new((1, positions.shape[1], width // 2), ops.FP32)
    angles = t.new((1, positions.shape[1], width), ops.FP32)
    cos = ops.scale(t, t.new((1, 1, positions.shape[1], width), ops.FP32))
    sin = ops.scale(t, t.new(cos.shape, ops.FP32))
    turn = ops.cast(t, cos, item), ops.cast(t, sin, item)
    del frequencies, angles
    return turn


def _norm(t: Tape, w: Parameters, name: str, x: Sheet) -> Sheet:
    weight, bias = w[f"{name}.weight"], w.get(f"{name}.bias")
    t.label = "norms"
    if bias is not None:
        return layers.layer_norm(t, x, weight, bias)
    item, x = x.item, ops.cast(t, x, ops.FP32)
    variance = ops.mean_last(t, ops.square(t, x))
    x = ops.multiply(t, x, ops.rsqrt(t, ops.shift(t, variance)))
    return ops.multiply(t, weight, ops.cast(t, x, item))


def _conv1d(t: Tape, w: Parameters, name: str, x: Sheet) -> Sheet:
    """x W + b with W as it is stored: GPT-2 keeps its matrices the other way round."""
    rows = ops.view(t, x, (x.shape[0] * x.shape[1], x.shape[2]))
    weight = ops.autocast(t, w[f"{name}.weight"])
    rows = ops.autocast(t, rows)
    y = layers.matmul(t, rows, weight, ops.autocast(t, w[f"{name}.bias"]))
    return ops.view(t, y, (*x.shape[:2], weight.shape[1]))


def _gpt2_block(t: Tape, config: StepConfig, w: Parameters, x: Sheet, mask: Sheet | None) -> Sheet:
    normed = _norm(t, w, "attention_norm", x)
    attended, _weights = _gpt2_attention(t, config, w, normed, mask)
    middle = residual(t, attended, x)
    normed = _norm(t, w, "mlp_norm", middle)
    fed = _gpt2_feed_forward(t, config, w, normed)
    return residual(t, middle, fed)


def _gpt2_attention(
    t: Tape, config: StepConfig, w: Parameters, x: Sheet, mask: Sheet | None
) -> tuple[Sheet, Sheet | None]:
    t.label = "q, k and v"
    model = config.model
    assert model.head_dim is not None
    q, k, v = (heads(t, one, model.num_heads, model.head_dim) for one in ops.split(t, _conv1d(t, w, "qkv", x), 3))
    t.label = "attention"
    weights = None
    if mask is None:
        y = layers.fused_attention(t, q, k, v)
    else:
        y, weights = _eager(t, q, k, v, mask, in_fp32=False)
    joined = ops.view(t, ops.contiguous_copy(t, ops.permute(t, y, (0, 2, 1, 3))), x.shape)
    return _conv1d(t, w, "output", joined), weights


def _eager(t: Tape, q: Sheet, k: Sheet, v: Sheet, mask: Sheet, in_fp32: bool) -> tuple[Sheet, Sheet]:
    scores = ops.scale(t, layers.batched_matmul(t, q, ops.permute(t, k, (0, 1, 3, 2))))
    masked = ops.add(t, scores, mask)
    del scores
    if in_fp32:
        masked_fp32 = ops.cast(t, masked, ops.FP32)
        soft = layers.softmax(t, masked_fp32)
        del masked_fp32
    else:
        soft = layers.softmax(t, masked)
    del masked
    weights = ops.cast(t, soft, ops.BF16 if t.autocast and not in_fp32 else v.item if not in_fp32 else q.item)
    del soft
    return layers.batched_matmul(t, weights, v), weights


def _gpt2_feed_forward(t: Tape, config: StepConfig, w: Parameters, x: Sheet) -> Sheet:
    t.label = "feed-forward"
    return _conv1d(t, w, "down", _activated(t, _conv1d(t, w, "up", x), config.model.activation))


def _activated(t: Tape, x: Sheet, name: str) -> Sheet:
    if name != "gelu_tanh":
        return ops.activation(t, x, name)
    half = ops.scale(t, x)
    return ops.multiply(t, half, ops.shift(t, ops.tanh(t, ops.scale(t, ops.add(t, x, ops.scale(t, ops.cube(t, x)))))))


def _llama_block(
    t: Tape, config: StepConfig, w: Parameters, x: Sheet, mask: Sheet | None, turn: tuple[Sheet, Sheet]
) -> Sheet:
    attended, _weights = _llama_attention(t, config, w, _norm(t, w, "attention_norm", x), mask, turn)
    middle = residual(t, x, attended)
    del attended
    return residual(t, middle, _llama_feed_forward(t, w, _norm(t, w, "mlp_norm", middle)))


def _llama_feed_forward(t: Tape, w: Parameters, x: Sheet) -> Sheet:
    t.label = "feed-forward"
    return linear(
        t, w, "down", ops.multiply(t, ops.activation(t, linear(t, w, "gate", x), "silu"), linear(t, w, "up", x))
    )


def _llama_attention(
    t: Tape, config: StepConfig, w: Parameters, x: Sheet, mask: Sheet | None, turn: tuple[Sheet, Sheet]
) -> tuple[Sheet, Sheet | None]:
    t.label = "q, k and v"
    model = config.model
    assert model.head_dim is not None
    assert model.num_kv_heads is not None
    q = _normed_heads(t, w, "q", x, model.num_heads, model.head_dim)
    k = _normed_heads(t, w, "k", x, model.num_kv_heads, model.head_dim)
    v = heads(t, linear(t, w, "v", x), model.num_kv_heads, model.head_dim)
    q, k = _turned(t, q, k, turn)
    t.label = "attention"
    weights = None
    if mask is None:
        y = ops.contiguous_copy(t, ops.permute(t, layers.fused_attention(t, q, k, v), (0, 2, 1, 3)))
    else:
        y, weights = _llama_eager(t, q, k, v, mask)
    joined = ops.view(t, y, (*x.shape[:2], model.q_dim))
    return linear(t, w, "output", joined), weights


def _normed_heads(t: Tape, w: Parameters, name: str, x: Sheet, count: int, width: int) -> Sheet:
    """Heads of q or k; Qwen3 normalizes each."""
    if f"{name}_norm.weight" not in w:
        return heads(t, linear(t, w, name, x), count, width)
    y = _norm(t, w, f"{name}_norm", ops.view(t, linear(t, w, name, x), (*x.shape[:2], count, width)))
    t.label = "q, k and v"
    return ops.permute(t, y, (0, 2, 1, 3))


def _llama_eager(t: Tape, q: Sheet, k: Sheet, v: Sheet, mask: Sheet) -> tuple[Sheet, Sheet]:
    group = q.shape[1] // k.shape[1]
    keys = repeat_heads(t, k, group) if group > 1 else k
    values = repeat_heads(t, v, group) if group > 1 else v
    y, weights = _eager(t, q, keys, values, mask, in_fp32=True)
    return ops.contiguous_copy(t, ops.permute(t, y, (0, 2, 1, 3))), weights


def _turned(t: Tape, q: Sheet, k: Sheet, turn: tuple[Sheet, Sheet]) -> tuple[Sheet, Sheet]:
    cos, sin = turn
    q_turned = ops.add(t, ops.multiply(t, q, cos), ops.multiply(t, _half_turn(t, q), sin))
    k_turned = ops.add(t, ops.multiply(t, k, cos), ops.multiply(t, _half_turn(t, k), sin))
    return q_turned, k_turned


def _half_turn(t: Tape, x: Sheet) -> Sheet:
    first, second = (ops.narrow(t, x, half) for half in range(2))
    return layers.concatenate(t, [ops.negate(t, second), first])
