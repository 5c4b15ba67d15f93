"""The models on this machine: listing them, finding them by name, deleting them."""
