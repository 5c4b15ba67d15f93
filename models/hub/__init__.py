"""The Hugging Face hub: questions, downloads, and the cache that other programs share."""
