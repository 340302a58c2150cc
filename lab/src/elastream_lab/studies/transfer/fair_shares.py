"""How long state travels that is all sent at once, with no schedule: links are shared fairly.

Max-min fairness, to which TCP comes near: the link that is shortest for those who use it gives each
of them the same, what they leave of other links goes to the rest, and so on. When a transfer has
ended, what it had is shared again. Cost: O(transfers x links) for each transfer that ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

Link = tuple[str, Hashable]
"""Which way, and whose link."""


def fairly_shared_s(
    volumes: Sequence[tuple[Hashable, Hashable, float]],
    bytes_per_s: float | Mapping[Hashable, float],
) -> float:
    """Return when the last of the volumes (source, target, bytes) has arrived, in seconds.

    ``bytes_per_s`` is what every node's link carries, in and as much out, or a number for each.
    """
    left = [
        ((("out", source), ("in", target)), float(size)) for source, target, size in volumes if size
    ]
    widths = {
        link: bytes_per_s[link[1]] if isinstance(bytes_per_s, Mapping) else bytes_per_s
        for links, _ in left
        for link in links
    }
    now_s = 0.0
    while left:
        paces = _paces([links for links, _ in left], widths)
        first_s = min(size / pace for (_, size), pace in zip(left, paces, strict=True))
        now_s += first_s
        left = [
            (links, size - first_s * pace)
            for (links, size), pace in zip(left, paces, strict=True)
            if size > first_s * pace * (1 + 1e-9)
        ]
    return now_s


def _paces(transfers: Sequence[tuple[Link, Link]], widths: Mapping[Link, float]) -> list[float]:
    """Return how fast each goes while all of them run."""
    paces = [0.0] * len(transfers)
    free = dict(widths)
    rest = dict.fromkeys(range(len(transfers)))
    while rest:
        users: dict[Link, list[int]] = {}
        for each in rest:
            for link in transfers[each]:
                users.setdefault(link, []).append(each)
        share, tight = min(
            ((free[link] / len(using), using) for link, using in users.items()),
            key=lambda entry: entry[0],
        )
        for each in tight:
            paces[each] = share
            del rest[each]
            for link in transfers[each]:
                free[link] = max(0.0, free[link] - share)
    return paces
