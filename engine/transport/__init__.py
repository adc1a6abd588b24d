"""How elements travel between instances."""
