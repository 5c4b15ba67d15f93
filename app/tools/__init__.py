"""Tools in the window: the process that runs them, and the panel in which the user sets them up."""
