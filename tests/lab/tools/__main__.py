"""`python -m tests.lab.tools`: other people's MCP servers in our host."""

from tests.lab.tools.servers import try_all

if __name__ == "__main__":
    print("\n".join(try_all()))
