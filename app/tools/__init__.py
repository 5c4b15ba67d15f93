"""Tools in the window: the process that runs them, and the panel in which a person sets them up."""
