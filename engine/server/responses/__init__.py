"""OpenAI's newer API: POST /v1/responses."""
