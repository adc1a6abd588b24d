"""How fast user functions run: row by row, batch by batch, with state."""
