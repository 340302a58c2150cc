"""The harness of replayed jobs: recordings, a source that replays them, runs that are checked."""
