"""What the memory of a step is told in: moments of one step, and in each the live bytes by category."""

from __future__ import annotations

from dataclasses import dataclass

from core.words import _

PARAMETER, GRADIENT, OPTIMIZER_STATE = "parameter", "gradient", "optimizer_state"
ACTIVATION, INPUT, BUFFER, TEMPORARY = "activation", "input", "buffer", "temporary"
CATEGORIES = (PARAMETER, GRADIENT, OPTIMIZER_STATE, ACTIVATION, INPUT, BUFFER, TEMPORARY)

EMBEDDING, FORWARD, HEAD = "embedding", "forward", "head and loss"
LOSS_BACKWARD, HEAD_BACKWARD, BACKWARD = "loss backward", "head's backward", "backward"
RECOMPUTATION = "recomputation"  # the part of a checkpointed block's backward that is forward, a second time
END_OF_BACKWARD, OPTIMIZER = "end of backward", "optimizer"

Bytes = dict[str, int]  # by category


@dataclass(frozen=True)
class Moment:
    """A stretch of a step: live bytes by category where they are highest in it, and where it ends.

    ``kind`` is one of the nine above, ``block`` the block's number where the stretch is a block's, ``micro_batch`` 0,
    or 1 for every micro-batch after the first, where gradients are there already.
    """

    kind: str
    block: int | None
    micro_batch: int
    highest: Bytes
    end: Bytes

    @property
    def highest_bytes(self) -> int:
        return sum(self.highest.values())

    @property
    def end_bytes(self) -> int:
        return sum(self.end.values())

    def name(self, num_layers: int) -> str:
        """What the moment is called: "last block's backward", "optimizer", …

        >>> Moment(BACKWARD, 11, 0, {}, {}).name(12), Moment(FORWARD, 3, 0, {}, {}).name(12)
        ("last block's backward", "block 4's forward")
        """
        if self.block is None:
            return _(self.kind)
        which = _("last block") if self.block == num_layers - 1 else _("first block") if self.block == 0 else ""
        which = which or _("block {n}").format(n=self.block + 1)
        return _("{which}'s {kind}").format(which=which, kind=_(self.kind))
