"""The repository of checkpoints and savepoints: manifests and files by content."""
