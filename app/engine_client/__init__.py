"""The engine as a process of its own: started, watched and restarted."""
