"""What is put into Slipstream.app, and where: launchers, Python, wheels, our own, licences."""
