"""What a step on paper allocates and frees, in order, written once and read at any batch size and length.

Every size of a step is a polynomial in the batch size B and the length T. A step is written down with B and T so large
that the digits of a size are its coefficients (Kronecker substitution): the order of events is the same for all B and T
of 2 or more, so the ledger of one step tells the bytes of every other.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.memory.result import CATEGORIES, Bytes, Moment

_DIGIT = 56  # bits of a coefficient: 2⁵³ entries of 8 bytes
SEQ = 1 << _DIGIT  # T: the digits of a size are its coefficients of 1, T and T²,
BATCH = 1 << 3 * _DIGIT  # and then those of B, B·T and B·T²
_MASK = SEQ - 1
_START = ""  # in the place of an event's category: a moment starts

Size = tuple[int, ...]  # the coefficients of 1, T, T², B, B·T, B·T²


def coefficients(size: int) -> Size:
    """The six coefficients of a size that was written with BATCH and SEQ.

    >>> coefficients(BATCH * (3 * SEQ + 5) + 7)
    (7, 0, 0, 5, 3, 0)
    """
    return tuple(size >> _DIGIT * place & _MASK for place in range(6))


def bytes_of(size: Size, batch_size: int, seq_len: int) -> int:
    """A size at a batch size and a length."""
    one, t, tt, b, bt, btt = size
    return one + (t + tt * seq_len) * seq_len + batch_size * (b + (bt + btt * seq_len) * seq_len)


class Ledger:
    """Storages made and freed, and the moments that they fall into, as they happen."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []  # a category and bytes, less than 0 where they are freed
        self.moments: list[tuple[str, int | None, int]] = []
        self.micro_batch = 0

    @property
    def block(self) -> int | None:
        """The block of the moment that is open."""
        return self.moments[-1][1] if self.moments else None

    def start(self, kind: str, block: int | None = None) -> None:
        """Close the moment that is open, if one is, and open the next."""
        self.moments.append((kind, block, self.micro_batch))
        self.events.append((_START, 0))

    def close(self) -> Script:
        """All that was written, to be read at any batch size and length."""
        known: dict[int, int] = {0: 0}
        events = []
        for category, size in self.events:
            if size < 0:
                events.append((category, ~known[-size]))
            else:
                events.append((category, known.setdefault(size, len(known))))
        return Script(tuple(coefficients(size) for size in known), tuple(events), tuple(self.moments))


@dataclass(frozen=True)
class Script:
    """The events of a step: each a category, and which of ``sizes`` is made, or freed where it is inverted."""

    sizes: tuple[Size, ...]
    events: tuple[tuple[str, int], ...]
    places: tuple[tuple[str, int | None, int], ...]

    def moments(self, batch_size: int = 1, seq_len: int = 1) -> tuple[Moment, ...]:
        """Live bytes by category in each moment: where they are highest, and at its end."""
        sizes = [bytes_of(one, batch_size, seq_len) for one in self.sizes]
        live, total = dict.fromkeys(CATEGORIES, 0), 0
        highest, highest_bytes = live, 0
        found: list[tuple[Bytes, Bytes]] = []
        for category, which in self.events:
            if which < 0:
                size = sizes[~which]
                live[category] -= size
                total -= size
            elif category:
                size = sizes[which]
                live[category] += size
                total += size
                if total > highest_bytes:
                    highest, highest_bytes = live.copy(), total
            else:
                found.append((highest, live.copy()))
                highest, highest_bytes = found[-1][1], total
        found.append((highest, live))
        return tuple(
            Moment(*place, _some(high), _some(end)) for place, (high, end) in zip(self.places, found[1:], strict=True)
        )


def _some(sizes: Bytes) -> Bytes:
    """The categories that have any."""
    return {name: size for name, size in sizes.items() if size}
