"""Text that a trained Transformer writes, token by token. Letters: T context, V vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from einops import rearrange

from core.checks import whole_number
from core.models import TransformerLM
from core.training import runs
from core.training.bpe import tokenizer_of
from core.training.checkpoints import load_checkpoint
from core.training.config import TrainConfig
from core.training.models import build_model
from core.words import _

MAX_SAMPLED = 10_000
MAX_PROMPT_CHARS = 2_000


def sample_tokens(
    model: TransformerLM,
    prompt: Sequence[int],
    count: int,
    *,
    temperature: float = 1.0,
    context_length: int | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """``count`` tokens after the prompt, each drawn from softmax(logits / temperature); 0 takes the likeliest.

    The model sees the last ``context_length`` tokens, its config's by default; an empty prompt is a new line.
    The same seed gives the same tokens. Raises ValueError.

    >>> model = build_model(TrainConfig(task="text", dim=16, num_layers=1))
    >>> list(sample_tokens(model, b"import", 3)) == list(sample_tokens(model, b"import", 3))
    True
    """
    count = whole_number(_("the number of tokens"), count, 1, MAX_SAMPLED)
    if isinstance(temperature, bool) or not (isinstance(temperature, (int, float)) and 0 <= temperature < math.inf):
        message = _("the temperature must be a number of at least 0, for example 1; received {value}")
        raise ValueError(message.format(value=repr(temperature)[:40]))
    length = context_length or model.config.context_length
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    tokens = list(prompt or b"\n")
    for _token in range(count):
        window = rearrange(torch.tensor(tokens[-length:], device=device), "seq -> 1 seq")
        with torch.no_grad():
            logits_V = model(window)[0, -1].float().cpu()
        if temperature == 0:
            token = int(logits_V.argmax())
        else:
            # In fp64, so that a temperature near 0 divides nothing into infinity.
            shares_V = ((logits_V.double() - logits_V.double().max()) / temperature).softmax(-1)
            token = int(torch.multinomial(shares_V, 1, generator=generator))
        tokens.append(token)
        yield token


def sample_text(
    config: TrainConfig,
    checkpoint: str | Path,
    prompt: str = "import ",
    count: int = 200,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    place: Path | None = None,
) -> str:
    """The prompt and what the model of a checkpoint writes after it; bytes that are no UTF-8 become �.

    ``place`` is the folder of a run that keeps its text, whose vocabulary it is.

    Raises ValueError for a run that writes no text, and for a checkpoint that does not fit it.
    """
    if config.task != "text":
        raise ValueError(_("only a run on text writes text; this one is the {task}").format(task=config.task))
    if len(prompt) > MAX_PROMPT_CHARS:
        message = _("the prompt may have {limit:,} characters; received {size:,}")
        raise ValueError(message.format(limit=MAX_PROMPT_CHARS, size=len(prompt)))
    with torch.random.fork_rng(devices=[]):  # the fresh weights that are replaced cost no generator its place
        model = build_model(config, device="cpu")
    assert isinstance(model, TransformerLM)
    load_checkpoint(checkpoint, model=model, rng=False)
    tokenizer = tokenizer_of(config.corpus, config.vocab_size, place)
    encoded = tokenizer.encode(prompt) or tokenizer.encode("\n")
    first = encoded if prompt else []
    tokens = sample_tokens(
        model, encoded, count, temperature=temperature, context_length=config.context_length, seed=seed
    )
    return tokenizer.decode([*first, *tokens])


def sample_run(
    run_id: str, prompt: str = "import ", count: int = 200, *, temperature: float = 1.0, seed: int = 0
) -> str:
    """The same of a run's last checkpoint. Raises ValueError where it has none yet."""
    info = runs.find_run(run_id)
    path = runs.run_folder(run_id) / "checkpoint.pt"
    if not path.exists():
        raise ValueError(
            _("this run has no checkpoint yet: the first comes at step {step:,}").format(step=info.checkpoint_every)
        )
    return sample_text(
        info.config, path, prompt, count, temperature=temperature, seed=seed, place=runs.run_folder(run_id)
    )
