"""Several Macs that hold a target together, in the window: chosen, checked, set up and used."""
