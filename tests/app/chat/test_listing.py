"""The list of conversations is read when it is asked for, and everybody is told."""

from concurrent.futures import Future

from app.chat.listing import Listing
from app.conversations.store import Store
from models.errors import Problem


def test_everybody_has_the_list_before_who_asked_for_it_goes_on(tmp_path, until):
    with Store.open(tmp_path / "conversations.sqlite") as store:
        record, folder = store.create(title="One").result(), store.make_folder("Work").result()
        listing = Listing(store)
        told = []
        listing.changed.connect(lambda: told.append(done.done()))
        assert listing.find(record.id) is None
        done = listing.refresh()
        until(done.done)
        assert told == [False]
        assert (listing.conversations, listing.folders) == ((record,), (folder,))
        assert listing.find(record.id) == record
        assert listing.find(record.id + 1) is None
        store.delete(record.id).result()
        until(listing.refresh().done)
        assert listing.find(record.id) is None
        listing.close()
        listing.refresh()
        assert len(told) == 2


def test_what_cannot_be_read_is_told(tmp_path, until, monkeypatch):
    with Store.open(tmp_path / "conversations.sqlite") as store:
        listing = Listing(store)
        problems = []
        listing.failed.connect(problems.append)
        refused = Future()
        refused.set_exception(Problem("The disk is full.", "Make room."))
        monkeypatch.setattr(store, "listing", lambda: refused)
        until(listing.refresh().done)
        assert len(problems) == 1
