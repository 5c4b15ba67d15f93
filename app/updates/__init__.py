"""Newer versions: checked for once a day, shown to the person, and never installed."""
