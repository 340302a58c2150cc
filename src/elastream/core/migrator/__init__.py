"""One migrator: grow → warm → settle → plan → copy → move → verify → release. A phase is a file.

::

    Steady ─► Growing ─► Warming ─► Settling ─► Planning ─► Copying ⇄ Moving ─► Releasing
      ▲          │                                 ▲  │        │        │           │
      │          │                    planned anew └──┼────────┴────────┴───────────┤
      └──────────┴────────────────────────────────────┴─── done, abandoned ─────────┘

Phases with nothing to do are passed over.

``Phase.on`` says in one place what happens in a phase on every event: "phase X, event Y?" is
answered by the ``on`` of file X. It returns the state, the instructions, and what is next:

- ``None``: the phase of the returned state goes on. It waits for the next event.
- a value of :mod:`elastream.core.next`, such as ``BeginPlanning(change)``: this phase is over. The
  step (:mod:`elastream.core.step`) looks up what the value begins, and calls it with the state.
  That is a ``begin_…`` function at the end of a file here. It returns the same three things: it
  enters its phase, or names what is next where there is nothing to wait for.

So no phase imports another one. A change ends in :mod:`elastream.core.migrator.ending`: done,
abandoned, or planned again. The migrator alone repeats what did not hold.
"""
