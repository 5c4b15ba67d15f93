"""A real follower with somebody between it and rank 0, for tests. Run as a file, with what is done:

"stranger", "stranger that sends": another program takes its place at rank 0's address first;
"drop KIND": what it is told of that kind is lost.
"""

import json
import socket
import subprocess
import sys
import threading
import time


def main(deed: str) -> None:
    command = [sys.executable, "-m", "engine", "follow"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stdout) as follower:
        assert follower.stdin is not None
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message["kind"] == "join" and deed.startswith("stranger"):
                place = message["addresses"][0][0].split(":")
                sends = deed.endswith("sends")
                threading.Thread(target=intrude, args=(*place, sends), daemon=True).start()
                time.sleep(1.0)  # the stranger is first
            if deed != f"drop {message['kind']}":
                follower.stdin.write(line)
                follower.stdin.flush()
        follower.kill()


def intrude(host: str, port: str, sends: bool) -> None:
    while True:
        try:
            stranger = socket.create_connection((host, int(port)))
        except OSError:
            time.sleep(0.01)
            continue
        if sends:
            stranger.sendall(b"\x01" * (1 << 16))
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1])
