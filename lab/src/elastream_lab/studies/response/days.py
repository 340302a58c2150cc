"""What the simulated cluster goes through: sizes, hour by hour, and how tasks are loaded.

Made days, or a month of the user's, as a trace with node counts. Of made posts the patterns are
hashed to tasks; the sixteen most frequent words are left out, as stop words are, for a single one
would be more than a node may hold. What the MTM-aware planner knows comes from other days.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np

from elastream.foresight.chain import ChainSettings, migration_chain, migrations, node_counts
from elastream.foresight.mtm.problem import MigrationChain
from elastream.model.errors import ProblemError
from elastream_lab.harness.made_posts import day_rate, make_posts
from elastream_lab.studies.migration_cost.load import Load
from elastream_lab.studies.response.settings import APPLICATIONS, ResponseStudy

_POSTS: Final = 3000
_VOCABULARY: Final = 4000
_STOP_WORDS: Final = 16
_DAYS: Final = 30
_HOURS: Final = 24
_TRAINING: Final = 1000
"""What the seed of the days that are learnt from is above that of those that are judged."""
_PARTS: Final = 1_000_000
"""Shares of state are reported as this many parts."""


@dataclass(frozen=True, slots=True)
class Loads:
    """How work and state lie on the tasks, as shares of all."""

    work: tuple[float, ...]
    state: tuple[float, ...]

    @property
    def state_parts(self) -> list[int]:
        """State as whole numbers."""
        return [round(_PARTS * share) for share in self.state]


@dataclass(frozen=True, slots=True)
class Days:
    """Hours with their sizes, those that are learnt from, and the tasks."""

    counts: tuple[int, ...]
    learnt: tuple[int, ...]
    sizes: range
    """From the fewest nodes to the most."""
    loads: Loads
    description: str
    """Where they come from."""

    def run(self, repeat: int, most: int) -> tuple[int, ...]:
        """Return the sizes of a run of at most this many migrations; each repeat goes on later."""
        all_sizes = migrations(self.counts)
        starts = max(1, len(all_sizes) - most)
        begin = (repeat - 1) * most % starts
        return all_sizes[begin : begin + most + 1]

    def chain(self, gamma: float) -> MigrationChain:
        """Return how sizes follow one another in the days that are learnt from."""
        return migration_chain(self.learnt, ChainSettings(gamma=gamma), sizes=self.sizes)


def made_days(study: ResponseStudy, application: str) -> Days:
    """Return days drawn from the seed."""
    least, most = study.nodes
    return Days(
        _counts(study, study.seed),
        _counts(study, study.seed + _TRAINING),
        range(least, most + 1),
        task_loads(application, study.tasks, study.seed),
        "made posts and days",
    )


def traced_days(study: ResponseStudy, judged: Load, learnt: Load) -> Days:
    """Return the days of a trace, and those of another to learn from."""
    if judged.sizes != learnt.sizes:
        raise ProblemError("train", "has another range of nodes than `trace`")
    if len(migrations(judged.nodes)) < 3:
        raise ProblemError("trace", "has fewer than two migrations")
    load = judged.folded(study.tasks)
    work, state = load.work.sum(axis=0), load.usual_state
    loads = Loads(
        tuple((work / work.sum()).tolist()), tuple((state / max(1, state.sum())).tolist())
    )
    return Days(judged.nodes, learnt.nodes, judged.sizes, loads, f"a trace: {judged.name}")


@lru_cache(maxsize=8)
def task_loads(application: str, tasks: int, seed: int) -> Loads:
    """Return the shares of each task, from made posts."""
    with tempfile.TemporaryDirectory(prefix="elastream-posts-") as folder:
        due_ms = np.zeros(_POSTS, dtype=np.int64)
        path = Path(folder) / "posts.arrow"
        made = make_posts(due_ms, path, seed=seed, vocabulary=_VOCABULARY)
        texts = [text for rows in made.slices(0, _POSTS) for text in rows["text"].to_pylist()]
    posts = [sorted(set(text.split())) for text in texts]
    often = Counter(word for post in posts for word in post).most_common(_STOP_WORDS)
    left_out = {word for word, _ in often}
    counts: Counter[str] = Counter()
    for post in posts:
        words = [word for word in post if word not in left_out]
        for size in range(1, APPLICATIONS[application].most_words + 1):
            counts.update(" ".join(pattern) for pattern in combinations(words, size))
    work, keys = [0] * tasks, [0] * tasks
    for pattern, times in counts.items():
        task = crc32(pattern.encode()) % tasks
        work[task] += times
        keys[task] += 1
    return Loads(tuple(each / sum(work) for each in work), tuple(each / sum(keys) for each in keys))


def _counts(study: ResponseStudy, seed: int) -> tuple[int, ...]:
    chance = np.random.default_rng(seed)
    totals: list[float] = []
    for _ in range(_DAYS):
        rate = day_rate(3, chance)
        busy = chance.uniform(0.8, 1.2)
        totals += [float(busy * hour.mean()) for hour in np.array_split(rate, _HOURS)]
    return node_counts(totals, *study.nodes)
