"""Task managers as actors of Ray, which starts, places, watches and ends them; no row goes by it."""
