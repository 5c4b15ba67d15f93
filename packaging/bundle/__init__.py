"""What is put into Slipstream.app: launchers, Python, wheels, our own packages, licences."""
