"""Newer versions: looked for once a day, shown to the person, and never installed by themselves."""
