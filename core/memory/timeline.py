"""Bytes counted by category through the moments of a step: the ledger that the meter and the napkin both keep."""

from __future__ import annotations

from core.memory.result import CATEGORIES, Moment


class Timeline:
    """Live bytes now, and for each moment that is closed: where they were highest, and where it ended.

    >>> timeline = Timeline()
    >>> timeline.start("forward", 0)
    >>> timeline.count("activation", 80); timeline.mark(); timeline.count("activation", -40)
    >>> timeline.stop()
    >>> timeline.moments[0].highest, timeline.moments[0].end
    ({'activation': 80}, {'activation': 40})
    """

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.micro_batch = 0
        self.live_bytes: dict[str, int] = dict.fromkeys(CATEGORIES, 0)
        self.total_bytes = 0
        self._open: tuple[str, int | None, int] | None = None
        self._highest, self._highest_bytes = dict[str, int](), 0

    @property
    def kind(self) -> str:
        """The kind of the moment that is open; "" where none is."""
        return "" if self._open is None else self._open[0]

    @property
    def block(self) -> int | None:
        """The block of the moment that is open."""
        return None if self._open is None else self._open[1]

    def count(self, category: str, size: int) -> None:
        """So many bytes more; fewer where the size is negative."""
        self.total_bytes += size
        self.live_bytes[category] += size

    def mark(self) -> None:
        """Note the live bytes, if there were never more in this moment."""
        if self.total_bytes > self._highest_bytes:
            self._highest, self._highest_bytes = self.live_bytes.copy(), self.total_bytes

    def start(self, kind: str, block: int | None = None) -> None:
        """Close the moment that is open, if one is, and open the next."""
        self.stop()
        self._open = kind, block, self.micro_batch
        self._highest, self._highest_bytes = self.live_bytes.copy(), self.total_bytes

    def stop(self) -> None:
        """Close the moment that is open, if one is."""
        if self._open is not None:
            highest = {name: size for name, size in self._highest.items() if size}
            self.moments.append(Moment(*self._open, highest, self.snapshot()))
        self._open = None

    def snapshot(self) -> dict[str, int]:
        """Live bytes by category now, none of them 0."""
        return {name: size for name, size in self.live_bytes.items() if size}
