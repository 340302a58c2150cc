"""One migrator: grow → warm → settle → plan → copy → move → verify → release.

::

    Steady ─► Growing ─► Warming ─► Settling ─► Planning ─► Copying ⇄ Moving ─► Releasing
      ▲          │                                 ▲  │        │        │           │
      │          │                    planned anew └──┼────────┴────────┴───────────┤
      └──────────┴────────────────────────────────────┴─── done, abandoned ─────────┘

Phases with nothing to do are passed over.

``Phase.on`` says in one place what happens in a phase on every event. It returns the state, the
instructions, and what is next:

- ``None``: the phase of the returned state goes on. It waits for the next event.
- a value of :mod:`elastream.core.next`, such as ``Begin("planning", change)``: this phase is over.
  Only the step (:mod:`elastream.core.step`) knows which ``begin_…`` function the value stands for.
  That one returns the same three things: it enters its phase, or names what is next.

So no phase imports another one. A change ends in :mod:`elastream.core.migrator.ending`: done,
abandoned, or planned again. The migrator alone repeats what did not hold.
"""
