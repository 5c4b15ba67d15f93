"""A cluster on one Linux machine: what drafting gains when passes cost a network too."""
