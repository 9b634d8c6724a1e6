"""The memory of one training step, predicted or measured: bytes by category, the peak and its moment, the terms."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.claims import Conditions, Term
from core.memory import result
from core.memory.config import StepConfig
from core.memory.result import Moment
from core.words import _

if TYPE_CHECKING:
    from core.memory.huggingface import HuggingFaceStep

NAMES = {
    result.PARAMETER: _("parameters"),
    result.GRADIENT: _("gradients"),
    result.OPTIMIZER_STATE: _("optimizer state"),
    result.ACTIVATION: _("activations"),
    result.INPUT: _("inputs"),
    result.BUFFER: _("buffers"),
    result.TEMPORARY: _("temporaries"),
}


@dataclass(frozen=True)
class StepMemory:
    """A steady step: its second, when the optimizer's state is there.

    ``moments`` is the timeline; of accumulated micro-batches it has the first and one that stands for all others.
    ``activation_terms`` make up ``activation_bytes``, what autograd keeps for backward when the loss is known.
    ``allocator_terms`` is what a GPU's allocator takes (see ``core.memory.cuda``), empty elsewhere. ``config`` is what
    was asked for, None where the model is no Transformer; ``conditions`` is None for a prediction.
    """

    num_layers: int
    moments: tuple[Moment, ...]
    activation_terms: tuple[Term, ...] = ()
    parameter_terms: tuple[Term, ...] = ()
    state_terms: tuple[Term, ...] = ()
    allocator_terms: tuple[Term, ...] = ()
    config: StepConfig | HuggingFaceStep | None = None
    conditions: Conditions | None = None

    @property
    def parameter_bytes(self) -> int:
        return self._at_start(result.PARAMETER)

    @property
    def gradient_bytes(self) -> int:
        """All gradients, when the optimizer needs them."""
        return self.moments[-1].highest.get(result.GRADIENT, 0)

    @property
    def optimizer_state_bytes(self) -> int:
        return self._at_start(result.OPTIMIZER_STATE)

    @property
    def activation_bytes(self) -> int:
        """What autograd keeps for backward: all that is live when the loss is known beside states and inputs."""
        return next(one for one in self.moments if one.kind == result.HEAD).end.get(result.ACTIVATION, 0)

    @property
    def input_bytes(self) -> int:
        """Tokens and labels, 8 bytes each."""
        return self._at_start(result.INPUT)

    @property
    def buffer_bytes(self) -> int:
        """What the model keeps beside its parameters (Hugging Face's Llama: its rotations' frequencies)."""
        return self._at_start(result.BUFFER)

    @functools.cached_property
    def peak(self) -> Moment:
        """The moment with most live bytes."""
        return max(self.moments, key=lambda moment: moment.highest_bytes)

    @property
    def peak_bytes(self) -> int:
        return self.peak.highest_bytes

    @property
    def peak_moment(self) -> str:
        """The peak's moment by name; a recomputation is a part of its block's backward."""
        return self.name(self.peak)

    def name(self, moment: Moment) -> str:
        """What a moment is called: "loss backward", "last block's backward", "optimizer", …"""
        if moment.kind == result.RECOMPUTATION:
            moment = Moment(result.BACKWARD, moment.block, moment.micro_batch, moment.highest, moment.end)
        return moment.name(self.num_layers)

    @property
    def terms(self) -> Mapping[str, tuple[Term, ...]]:
        """The named terms of each number: they add up to it exactly."""
        highest = self.peak.highest
        whole = {name: (Term(NAMES[name], size),) for name, size in highest.items()}
        sizes = {
            "parameter_bytes": self.parameter_terms or whole[result.PARAMETER],
            "gradient_bytes": self.parameter_terms or (Term(NAMES[result.GRADIENT], self.gradient_bytes),),
            "optimizer_state_bytes": self.state_terms
            or (Term(NAMES[result.OPTIMIZER_STATE], self.optimizer_state_bytes),),
            "activation_bytes": self.activation_terms,
            "input_bytes": (Term(_("tokens"), self.input_bytes // 2), Term(_("labels"), self.input_bytes // 2)),
        }
        peak = tuple(Term(NAMES[name], highest[name]) for name in result.CATEGORIES if name in highest)
        return sizes | {"peak_bytes": peak}

    def _at_start(self, category: str) -> int:
        return self.moments[0].highest.get(category, 0)
