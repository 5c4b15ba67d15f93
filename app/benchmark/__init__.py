"""`python -m app --benchmark`: what the window's frames cost, and how soon it is there."""
