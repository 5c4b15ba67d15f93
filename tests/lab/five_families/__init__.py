"""Five families of chat templates, each through window, terminal and server."""
