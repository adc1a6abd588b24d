"""Task managers as the head of a job sees them, and the delivery of messages between the two."""
