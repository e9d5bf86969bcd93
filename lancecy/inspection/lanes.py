"""Draws lines of versions as columns of text: one row per version, and one where branches part.

::

    ●     main
    │ ●   dev
    │ ●   dev
    ├─╯
    ●     main
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

__all__ = ["Lanes"]

# By the lines that leave a cell: up, down, left, right.
_JOINTS = {
    "ud": "│",
    "udr": "├",
    "udl": "┤",
    "udlr": "┼",
    "ul": "╯",
    "ur": "╰",
    "ulr": "┴",
    "dr": "╭",
    "dl": "╮",
    "dlr": "┬",
    "lr": "─",
}


class Lanes:
    """The columns of a picture that is drawn from its top to its bottom.

    A line takes the first free column from its first row to its last.

    Parameters
    ----------
    first : hashable
        The line that has the first column, from its first row on.

    Examples
    --------
    >>> lanes = Lanes("main")
    >>> for row in (lanes.row("main"), lanes.row("dev"), lanes.joined("main", ["dev"]), lanes.row("main")):
    ...     print(row)
    ●
    │ ●
    ├─╯
    ●
    """

    def __init__(self, first: Hashable) -> None:
        self._columns: list[Hashable | None] = [first]
        self._begun: set[Hashable] = set()

    def row(self, line: Hashable, sign: str = "●") -> str:
        """A row with one version of a line."""
        mine = self._column(line)
        self._begun.add(line)
        cells = (
            sign if number == mine else "│" if self._is_drawn(number) else " "
            for number in range(len(self._columns))
        )
        return " ".join(cells).rstrip()

    def continued(self) -> str:
        """A row with all lines that go on."""
        return " ".join("│" if self._is_drawn(n) else " " for n in range(len(self._columns))).rstrip()

    def joined(self, parent: Hashable, children: Collection[Hashable]) -> str:
        """A row in which some lines end in another one, which goes on below."""
        target = self._column(parent)
        ends = {self._column(child) for child in children}
        left, right = min(target, *ends), max(target, *ends)
        text = ""
        for number in range(len(self._columns)):
            drawn = self._is_drawn(number)
            goes_on = number == target or (drawn and number not in ends)
            sides = (drawn, goes_on, left < number <= right, left <= number < right)
            letters = "".join(letter for letter, is_there in zip("udlr", sides, strict=True) if is_there)
            text += _JOINTS.get(letters, " ") + ("─" if sides[3] else " ")
        for child in children:
            self.end(child)
        self._begun.add(parent)
        return text.rstrip()

    def end(self, line: Hashable) -> None:
        """Free the column of a line."""
        self._columns[self._column(line)] = None
        self._begun.discard(line)
        while len(self._columns) > 1 and self._columns[-1] is None:
            self._columns.pop()

    def _column(self, line: Hashable) -> int:
        if line in self._columns:
            return self._columns.index(line)
        if None in self._columns:
            free = self._columns.index(None)
            self._columns[free] = line
            return free
        self._columns.append(line)
        return len(self._columns) - 1

    def _is_drawn(self, number: int) -> bool:
        return self._columns[number] in self._begun if self._columns[number] is not None else False
