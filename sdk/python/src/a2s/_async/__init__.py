"""The asynchronous surface."""
