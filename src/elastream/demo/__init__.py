"""The main job: words of posts, counted in a stream that scales out and in by itself."""
