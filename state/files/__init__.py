"""Durable files: written whole or not at all, on disks and object stores."""
