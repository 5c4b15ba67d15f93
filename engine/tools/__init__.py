"""Tools that a model may call: MCP servers, in a process of their own without MLX and without Qt.

`configuration` reads the servers that the user has set up, `host` runs them, `protocol` is its
language, `client` its asking side. A server is a program (`programs`), an address (`http`), or the
tools that come along (`own`, `calculator`); `limits` and `results` limit its messages, `log` its
complaints; `reason` finds the line of them that says why it ended. `calling` has the calls of an
answer, by the rules of `turn`, which checks their `arguments`; `steps` has the values of an answer
that calls tools.
"""
