"""Do other people's clients get along with `slipstream serve`? `make clients` asks them."""
