"""A target that several Macs hold together: rank 0 decides, the other ranks obey its work orders.

`share.py` cuts a model to a rank's part; `orders.py` has the work orders; `leader.py` reads with
the whole group as a `Decoder` does alone; `follower.py` obeys. Drafters, sampling, grammars, text
and events are rank 0's alone, and know nothing of this.
"""
