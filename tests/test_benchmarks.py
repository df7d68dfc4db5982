"""Benchmarks: what their tables say of what was measured."""

import numpy as np

from benchmarks.reliability import HEAD, LEVELS, NOMINAL, SETTINGS, Tally, rows_of


def tally(game, setting, stopped, shares):
    inside = [[np.full(len(LEVELS), share)] for share in shares]
    return Tally(game, *setting, stopped, inside, [1.0], [100])


def test_games_are_listed_by_their_point_estimate():
    """A game of 0.83 was said to be above 0.91 where its own interval reached that."""
    assert LEVELS[NOMINAL] == 0.95
    cells = []
    for setting in SETTINGS:
        for stopped in ("budget", "width"):
            cells.append(tally("good", setting, stopped, [0.95, 0.96, 0.95]))
            cells.append(tally("doubtful", setting, stopped, [1.0, 0.5, 1.0]))
            cells.append(tally("bad", setting, stopped, [0.9, 0.9, 0.9]))
    at, below = HEAD.index("worst game"), next(i for i, h in enumerate(HEAD) if "below" in h)
    for row in rows_of(cells):
        assert row[at] == "0.833 (doubtful)"
        assert row[below] == "doubtful, bad*"
