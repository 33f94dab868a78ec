"""Adapters for agent frameworks: each module needs the extra of its name."""
