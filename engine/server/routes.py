"""Which endpoint is where."""

from engine.server.app import Routes
from engine.server.exchange import Call, Reply, json_reply
from engine.server.service import Service


async def root(service: Service, call: Call) -> Reply:
    """That a server is here; some clients look."""
    return json_reply({"name": "Slipstream"})


async def health(service: Service, call: Call) -> Reply:
    """Whether requests can be answered now. Needs no key, and tells nothing else."""
    _ = service.loaded
    return json_reply({"status": "ok"})


ROUTES: Routes = {
    "/": {"GET": root},
    "/health": {"GET": health},
}
