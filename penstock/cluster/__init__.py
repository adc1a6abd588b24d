"""A job whose head is an actor of Ray: its driver, the head actor, and calls to it from elsewhere."""
