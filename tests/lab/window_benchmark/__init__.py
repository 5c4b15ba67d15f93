"""`make benchmark-window`: what the window's frames cost, and how soon it is there."""
