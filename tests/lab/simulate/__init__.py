"""`make simulate`: a draft-length policy played against recorded drafts and published costs.

`__main__.py` is the front door. Which drafted tokens were accepted is recorded from a real pair
(`traces.py`, `record.py`); what passes cost comes from published curves (`curves.py`) and made-up
conditions (`conditions.py`). All its figures are simulated: none is a speed that was measured.
"""
