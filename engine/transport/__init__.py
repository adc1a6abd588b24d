"""The transport of elements between instances."""
