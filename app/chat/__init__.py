"""The chat: messages as rendered Markdown, and where each of their tokens came from."""
