"""The shape of a decoder-only Transformer, its parameters to the last one, and published models as shapes.

Letters: L layers, D model width, H heads, K key-value heads, Q head size, F feed-forward width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.checks import whole_number
from core.words import _

MAX_WIDTH = 2**24


@dataclass(frozen=True)
class TransformerShape:
    """A decoder-only Transformer with a norm before attention, before the feed-forward and before the head.

    ``num_kv_heads`` is ``num_heads`` and ``head_dim`` is ``d_model / num_heads`` where they are left out.
    ``gated_mlp`` has three matrices (SwiGLU), otherwise two. ``tied_head`` shares the head with the embedding.
    ``learned_positions`` is the longest context of a table of positions, 0 for rotary ones (no parameters). ``bias``
    is that of every linear layer but the head; ``qkv_bias`` sets it apart for q, k and v. ``norm_bias`` is LayerNorm's
    shift; RMSNorm has none.

    Raises ValueError for what cannot be a Transformer, with the value received and what would be right.

    >>> TransformerShape("tiny", num_layers=2, d_model=64, num_heads=4, d_ff=256, vocab_size=1000).num_params
    259392
    """

    name: str
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    vocab_size: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    gated_mlp: bool = True
    tied_head: bool = False
    learned_positions: int = 0
    bias: bool = False
    qkv_bias: bool | None = None
    norm_bias: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("num_layers", "d_model", "num_heads", "d_ff", "vocab_size"):
            object.__setattr__(self, field, whole_number(field, getattr(self, field), 1, MAX_WIDTH))
        positions = whole_number("learned_positions", self.learned_positions, 0, MAX_WIDTH)
        object.__setattr__(self, "learned_positions", positions)
        if self.head_dim is None and self.d_model % self.num_heads:
            message = _("d_model must be a multiple of num_heads, or head_dim given; received {d:,} and {h:,}")
            raise ValueError(message.format(d=self.d_model, h=self.num_heads))
        head_dim = self.d_model // self.num_heads if self.head_dim is None else self.head_dim
        object.__setattr__(self, "head_dim", whole_number("head_dim", head_dim, 1, MAX_WIDTH))
        kv_heads = self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        object.__setattr__(self, "num_kv_heads", whole_number("num_kv_heads", kv_heads, 1, self.num_heads))
        if self.num_heads % kv_heads:
            right = ", ".join(f"{one}" for one in range(1, self.num_heads + 1) if self.num_heads % one == 0)
            message = _("num_kv_heads must divide num_heads {h:,}: one of {right}; received {k:,}")
            raise ValueError(message.format(h=self.num_heads, right=right, k=kv_heads))

    @property
    def q_dim(self) -> int:
        """H·Q, the width of all queries: D unless ``head_dim`` says otherwise."""
        assert self.head_dim is not None
        return self.num_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        """K·Q, the width of all keys, and of all values."""
        assert self.num_kv_heads is not None
        assert self.head_dim is not None
        return self.num_kv_heads * self.head_dim

    @property
    def num_mlp_matrices(self) -> int:
        return 3 if self.gated_mlp else 2

    @property
    def num_embedding_params(self) -> int:
        """Token embedding and learned positions."""
        return (self.vocab_size + self.learned_positions) * self.d_model

    @property
    def num_head_params(self) -> int:
        """The head's own matrix; 0 where it is the embedding."""
        return 0 if self.tied_head else self.vocab_size * self.d_model

    @property
    def num_layer_params(self) -> int:
        """One block: q, k, v and output projections, feed-forward, two norms."""
        qkv_bias = self.bias if self.qkv_bias is None else self.qkv_bias
        qkv_dim = self.q_dim + 2 * self.kv_dim
        attention = self.d_model * (qkv_dim + self.q_dim) + qkv_bias * qkv_dim + self.bias * self.d_model
        mlp_bias = (self.num_mlp_matrices - 1) * self.d_ff + self.d_model
        mlp = self.num_mlp_matrices * self.d_model * self.d_ff + self.bias * mlp_bias
        return attention + mlp + 2 * self._norm_params

    @property
    def num_non_embedding_params(self) -> int:
        """All but token embedding, positions and head: the N of Kaplan et al. 2020, with norms and biases."""
        return self.num_layers * self.num_layer_params + self._norm_params

    @property
    def num_params(self) -> int:
        """Every parameter, a tied head counted once.

        >>> PRESETS["GPT-2 small"].num_params, PRESETS["Llama 3 70B"].num_params
        (124439808, 70553706496)
        """
        return self.num_embedding_params + self.num_non_embedding_params + self.num_head_params

    @property
    def _norm_params(self) -> int:
        return self.d_model * (1 + self.norm_bias)


def _gpt2(size: str, num_layers: int, d_model: int, num_heads: int) -> TransformerShape:
    return TransformerShape(
        f"GPT-2 {size}",
        num_layers,
        d_model,
        num_heads,
        d_ff=4 * d_model,
        vocab_size=50257,
        gated_mlp=False,
        tied_head=True,
        learned_positions=1024,
        bias=True,
        norm_bias=True,
        source=_("Radford et al. 2019, table 2; openai/gpt-2, hparams.json"),
    )


def _llama(name: str, num_layers: int, d_model: int, heads: tuple[int, int], d_ff: int, vocab: int) -> TransformerShape:
    paper = "Touvron et al. 2023b" if "2" in name.split()[1] else "Grattafiori et al. 2024, table 3"
    source = _("{paper}; the model's config.json").format(paper=paper)
    return TransformerShape(name, num_layers, d_model, heads[0], d_ff, vocab, num_kv_heads=heads[1], source=source)


_SHAPES = (
    _gpt2("small", 12, 768, 12),
    _gpt2("medium", 24, 1024, 16),
    _gpt2("large", 36, 1280, 20),
    _gpt2("XL", 48, 1600, 25),
    TransformerShape(
        "CS336 assignment 1, GPT-2 XL's shape",
        num_layers=48,
        d_model=1600,
        num_heads=25,
        d_ff=6400,
        vocab_size=50257,
        source=_("CS336 spring 2025, assignment 1, §3: SwiGLU, RoPE, RMSNorm, no biases, head of its own"),
    ),
    _llama("Llama 2 7B", 32, 4096, (32, 32), 11008, 32000),
    _llama("Llama 2 13B", 40, 5120, (40, 40), 13824, 32000),
    _llama("Llama 2 70B", 80, 8192, (64, 8), 28672, 32000),
    _llama("Llama 3 8B", 32, 4096, (32, 8), 14336, 128256),
    _llama("Llama 3 70B", 80, 8192, (64, 8), 28672, 128256),
)
PRESETS = {shape.name: shape for shape in _SHAPES}
