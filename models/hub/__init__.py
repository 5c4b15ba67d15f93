"""The Hugging Face hub: looking, fetching, and the cache that others fill too."""
