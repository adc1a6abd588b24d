"""Readers and writers: where rows enter and leave a job."""
