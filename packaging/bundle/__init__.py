"""Puts Slipstream.app together: launchers, Python, wheels, our own packages, licences."""
