"""One migrator: grow → warm → settle → plan → copy → move → verify → release. A phase is a file.

::

    Steady ─ wanted ─► Growing ─► Warming ─► Settling ─► Planning ─► Copying ⇄ Moving ─► Releasing
      ▲                                                     ▲ disturbed │         │          │
      │                                                     └───────────┴─────────┴──────────┤
      └── done, abandoned ◄──────────────────────────────────────────────────────────────────┘

It alone repeats what did not hold. Each phase says in one place what happens in it on every event.
"""
