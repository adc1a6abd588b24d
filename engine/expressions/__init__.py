"""How typed expressions become steps over Arrow arrays; `penstock.engine.compile_arrow` is the way in."""
