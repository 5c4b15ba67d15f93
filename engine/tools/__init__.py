"""Tools that a model may call: MCP servers, in a process of their own without MLX and without Qt.

`configuration` reads the servers that a person has set up, `host` runs them, `protocol` is its
language, `client` its asking side. A server is a program (`programs`), an address (`http`), or the
tools that come along (`own`, `calculator`); `results` bounds what it sends, `log` its complaints.
`turn` has the rules of calls, `steps` the values of an answer that calls tools.
"""
