"""One migrator: grow → warm → settle → plan → move → verify → release. A phase is a file.

::

    Steady ── wanted ──► Growing ──► Warming ──► Settling ──► Planning ──► Moving ──► Releasing
      ▲                                                          ▲ disturbed │            │
      │                                                          └───────────┴────────────┤
      └── done, abandoned ◄───────────────────────────────────────────────────────────────┘

It alone repeats what did not hold. Each phase says in one place what happens in it on every event.
"""
