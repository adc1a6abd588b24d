"""Speed of user functions: row by row, batch by batch, with state."""
