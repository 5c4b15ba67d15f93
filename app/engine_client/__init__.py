"""The engine as a process of its own: started, watched, restarted, and what it owes."""
