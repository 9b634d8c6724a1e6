"""Our Transformer on paper: line by line what ``core.models`` runs, with sheets in the place of tensors.

A variable here lives exactly as long as the one that it stands for; that is what decides which bytes are live.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from core.memory import paper_layers as layers
from core.memory import paper_ops as ops
from core.memory import result
from core.memory.config import StepConfig
from core.memory.paper import Checkpoint, Shape, Sheet, Tape
from core.models.config import TransformerConfig

RESIDUAL = "residual stream"

Rotation = tuple[Sheet, Sheet] | None
Parameters = dict[str, Sheet]
Shapes = tuple[tuple[str, Shape], ...]
Block = Callable[[Tape, Parameters, Sheet], Sheet]


@dataclass(frozen=True)
class PaperModel:
    """A model on paper: the shapes of its parameters in torch's order, and its forward up to the loss.

    ``buffers`` are the bytes of what it keeps beside parameters.
    """

    embeddings: Shapes
    block: Shapes
    head: Shapes
    loss: Callable[[Tape, Parameters, list[Parameters], Sheet, Sheet], Sheet]
    buffers: int = 0

    def casts(self) -> tuple[int, int]:
        """Entries of a block that autocast copies: those of matrices, and those of the biases added to products."""
        matrices = [name for name, shape in self.block if len(shape) == 2]
        linear = {name.removesuffix(".weight") for name in matrices}
        numels = {name: math.prod(shape) for name, shape in self.block}
        biases = [numel for name, numel in numels.items() if name.removesuffix(".bias") in linear]
        return sum(numels[name] for name in matrices), sum(biases)


def napkin(config: StepConfig) -> PaperModel:
    """``core.models.TransformerLM`` and torch's cross-entropy."""
    model = config.model
    return PaperModel(
        embedding_shapes(model),
        block_shapes(model),
        (*norm_shapes(model, "final_norm"), *head_shapes(model)),
        lambda t, w, blocks, tokens, labels: _loss(t, config, w, blocks, tokens, labels),
    )


def embedding_shapes(model: TransformerConfig) -> Shapes:
    positions = (("positions", (model.learned_positions, model.d_model)),) if model.learned_positions else ()
    return (("embedding", (model.vocab_size, model.d_model)), *positions)


def head_shapes(model: TransformerConfig) -> Shapes:
    return () if model.tied_head else (("head", (model.vocab_size, model.d_model)),)


def norm_shapes(model: TransformerConfig, name: str) -> Shapes:
    weight = ((f"{name}.weight", (model.d_model,)),)
    return (*weight, (f"{name}.bias", (model.d_model,))) if model.norm_bias else weight


def linear_shapes(name: str, rows: int, columns: int, bias: bool) -> Shapes:
    weight = ((f"{name}.weight", (rows, columns)),)
    return (*weight, (f"{name}.bias", (rows,))) if bias else weight


def block_shapes(model: TransformerConfig) -> Shapes:
    d, f, q, kv = model.d_model, model.d_ff, model.q_dim, model.kv_dim
    qkv_bias = model.bias if model.qkv_bias is None else model.qkv_bias
    assert model.head_dim is not None
    qk_norm = (("q_norm.weight", (model.head_dim,)), ("k_norm.weight", (model.head_dim,))) if model.qk_norm else ()
    return (
        *norm_shapes(model, "attention_norm"),
        *linear_shapes("q", q, d, qkv_bias),
        *linear_shapes("k", kv, d, qkv_bias),
        *linear_shapes("v", kv, d, qkv_bias),
        *linear_shapes("output", d, q, model.bias),
        *qk_norm,
        *norm_shapes(model, "mlp_norm"),
        *(linear_shapes("gate", f, d, model.bias) if model.gated_mlp else ()),
        *linear_shapes("up", f, d, model.bias),
        *linear_shapes("down", d, f, model.bias),
    )


def linear(t: Tape, w: Parameters, name: str, x: Sheet) -> Sheet:
    return layers.linear(t, x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def norm(t: Tape, w: Parameters, name: str, x: Sheet) -> Sheet:
    """LayerNorm where there is a bias, else RMSNorm."""
    weight, bias = w[f"{name}.weight"], w.get(f"{name}.bias")
    t.label = "norms"
    return rms_norm(t, x, weight) if bias is None else layers.layer_norm(t, x, weight, bias)


def rms_norm(t: Tape, x: Sheet, weight: Sheet) -> Sheet:
    x_fp32 = ops.cast(t, x, ops.FP32)
    mean_square = ops.mean_last(t, ops.square(t, x_fp32))
    normalized = ops.multiply(t, x_fp32, ops.rsqrt(t, ops.shift(t, mean_square)))
    return ops.multiply(t, weight, ops.cast(t, normalized, x.item))


def rotate(t: Tape, x: Sheet, rotation: tuple[Sheet, Sheet]) -> Sheet:
    cos, sin = rotation
    batch, heads, seq, width = x.shape
    halves = ops.view(t, x, (batch, heads, seq, 2, width // 2))
    first, second = layers.unbind(t, ops.permute(t, halves, (3, 0, 1, 2, 4)))
    return layers.concatenate(
        t,
        [
            ops.subtract(t, ops.multiply(t, first, cos), ops.multiply(t, second, sin)),
            ops.add(t, ops.multiply(t, second, cos), ops.multiply(t, first, sin)),
        ],
    )


def rotation(t: Tape, model: TransformerConfig, positions: Sheet, item: int) -> tuple[Sheet, Sheet]:
    """cos and sin of every position, from the few numbers that they are made of."""
    assert model.head_dim is not None
    half = (model.head_dim // 2,)
    counted = t.new(half, ops.INT64)
    counted_fp32 = t.new(half, ops.FP32)
    del counted
    exponents = t.new(half, ops.FP32)
    del counted_fp32
    positions_fp32 = t.new(positions.shape, ops.FP32)
    power, inverse = t.new(half, ops.FP32), t.new(half, ops.FP32)
    frequencies = t.new(half, ops.FP32)
    del power, inverse
    angles = t.new((*positions.shape, *half), ops.FP32)
    del positions_fp32, frequencies
    cos = ops.cast(t, t.new(angles.shape, ops.FP32), item)
    sin = ops.cast(t, t.new(angles.shape, ops.FP32), item)
    del exponents
    return cos, sin


def einsum(t: Tape, left: Sheet, right: Sheet) -> Sheet:
    """(batch, head, i, k) and (batch, head, k, j) to (batch, head, i, j), as torch's einsum: one batched product."""
    batch, heads, i, k = left.shape
    if k == 1:
        return ops.multiply(t, left, right)
    a = ops.view(t, left, (batch * heads, i, k))
    b = ops.view(t, right, (batch * heads, k, right.shape[3]))
    b, a = ops.autocast(t, b), ops.autocast(t, a)
    return ops.view(t, layers.matmul(t, a, b), (batch, heads, i, right.shape[3]))


def repeat_heads(t: Tape, x: Sheet, group: int) -> Sheet:
    batch, heads, seq, width = x.shape
    grouped = ops.view(t, x, (batch, heads, 1, seq, width))
    spread = ops.expand(t, grouped, (batch, heads, group, seq, width))
    return ops.view(t, spread, (batch, heads * group, seq, width))


def causal_attention(t: Tape, q: Sheet, k: Sheet, v: Sheet) -> Sheet:
    group, seq = q.shape[1] // k.shape[1], q.shape[2]
    k_all, v_all = repeat_heads(t, k, group), repeat_heads(t, v, group)
    scores = ops.scale(t, einsum(t, q, ops.permute(t, k_all, (0, 1, 3, 2))))
    ones = t.new((seq, seq), ops.BOOL)
    future = t.new((seq, seq), ops.BOOL)
    del ones
    weights = layers.softmax(t, layers.masked_fill(t, scores, future))
    return einsum(t, weights, v_all)


def attention(t: Tape, config: StepConfig, w: Parameters, x: Sheet, turn: Rotation) -> Sheet:
    model, (batch, seq, _width) = config.model, x.shape
    assert model.head_dim is not None
    assert model.num_kv_heads is not None
    t.label = "q, k and v"
    q = heads(t, linear(t, w, "q", x), model.num_heads, model.head_dim)
    k = heads(t, linear(t, w, "k", x), model.num_kv_heads, model.head_dim)
    v = heads(t, linear(t, w, "v", x), model.num_kv_heads, model.head_dim)
    if model.qk_norm:
        q, k = rms_norm(t, q, w["q_norm.weight"]), rms_norm(t, k, w["k_norm.weight"])
    if turn is not None:
        q, k = rotate(t, q, turn), rotate(t, k, turn)
    t.label = "attention"
    y = layers.fused_attention(t, q, k, v) if config.attention == "sdpa" else causal_attention(t, q, k, v)
    return linear(t, w, "output", ops.view(t, ops.permute(t, y, (0, 2, 1, 3)), (batch, seq, model.q_dim)))


def heads(t: Tape, x: Sheet, heads: int, width: int) -> Sheet:
    return ops.permute(t, ops.view(t, x, (*x.shape[:2], heads, width)), (0, 2, 1, 3))


def feed_forward(t: Tape, config: StepConfig, w: Parameters, x: Sheet) -> Sheet:
    t.label, name = "feed-forward", config.model.activation
    if config.model.gated_mlp:
        return linear(
            t, w, "down", ops.multiply(t, ops.activation(t, linear(t, w, "gate", x), name), linear(t, w, "up", x))
        )
    return linear(t, w, "down", ops.activation(t, linear(t, w, "up", x), name))


def block(t: Tape, config: StepConfig, w: Parameters, x: Sheet, turn: Rotation) -> Sheet:
    middle = residual(t, x, attention(t, config, w, norm(t, w, "attention_norm", x), turn))
    return residual(t, middle, feed_forward(t, config, w, norm(t, w, "mlp_norm", middle)))


def residual(t: Tape, x: Sheet, y: Sheet) -> Sheet:
    t.label = RESIDUAL
    return ops.add(t, x, y)


def run_blocks(
    t: Tape, blocks: list[Parameters], x: Sheet, one: Block, every: int | None, shared: tuple[Sheet, ...] = ()
) -> Sheet:
    """x through all blocks, checkpointed every so many; ``shared`` is what each is given beside x."""
    assert x.node is not None
    x.node.moment = (result.END_OF_BACKWARD, None)

    def told(number: int, x: Sheet) -> Sheet:
        if t.recomputing:
            return one(t, blocks[number], x)
        t.ledger.start(result.FORWARD, number)
        t.block = number
        y = one(t, blocks[number], x)
        t.block = None
        if number == len(blocks) - 1:
            t.ledger.start(result.HEAD)
        assert y.node is not None
        y.node.moment = (result.BACKWARD, number)
        return y

    def segment(x: Sheet, first: int, last: int) -> Sheet:
        for number in range(first, last):
            x = told(number, x)
        return x

    if every is None:
        return segment(x, 0, len(blocks))
    for first in range(0, len(blocks), every):
        x = checkpointed(t, segment, x, first, min(first + every, len(blocks)), shared)
    return x


def checkpointed(
    t: Tape, segment: Callable[[Sheet, int, int], Sheet], x: Sheet, first: int, last: int, shared: tuple[Sheet, ...]
) -> Sheet:
    t.checkpoint = Checkpoint(lambda: segment(x, first, last), (x, *shared))
    y = segment(x, first, last)
    t.checkpoint = None
    return y


def _loss(t: Tape, config: StepConfig, w: Parameters, blocks: list[Parameters], tokens: Sheet, labels: Sheet) -> Sheet:
    logits = _logits(t, config, w, blocks, tokens)
    assert logits.node is not None
    logits.node.moment = (result.HEAD_BACKWARD, None)
    batch, seq, vocab = logits.shape
    t.label = "loss"
    return layers.cross_entropy(t, ops.view(t, logits, (batch * seq, vocab)), labels)


def _logits(t: Tape, config: StepConfig, w: Parameters, blocks: list[Parameters], tokens: Sheet) -> Sheet:
    t.label = "embedding"
    x = layers.embedding(t, w["embedding"], tokens)
    positions = t.new((tokens.shape[1],), ops.INT64)
    turn: Rotation = None
    if "positions" in w:
        x = ops.add(t, x, layers.embedding(t, w["positions"], positions))
    else:
        turn = rotation(t, config.model, positions, x.item)

    def one(t: Tape, weights: Parameters, x: Sheet) -> Sheet:
        return block(t, config, weights, x, turn)

    y = norm(t, w, "final_norm", run_blocks(t, blocks, x, one, config.checkpointing, turn or ()))
    t.label = "head"
    return layers.linear(t, y, w.get("head", w["embedding"]))
