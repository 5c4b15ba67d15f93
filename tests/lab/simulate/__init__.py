"""`make simulate`: a policy of draft lengths played against recorded guesses and known costs.

`run.py` is the front door. Which guesses stood is recorded from a real pair (`traces.py`,
`record.py`); what passes cost comes from published curves (`curves.py`) and made-up conditions
(`conditions.py`). Everything it says is simulated: no figure of it is a speed that was measured.
"""
