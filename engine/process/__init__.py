"""The engine as a process of its own: its host, its protocol, and the clients' side of it."""
