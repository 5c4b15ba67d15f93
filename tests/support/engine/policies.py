"""Made-up pairs and rounds for tests of draft-length policies."""

from hypothesis import strategies as st

from engine.draft_length import (
    LONGEST,
    DraftCandidate,
    MeasuredRound,
)

HEAD = DraftCandidate("head", LONGEST)

MEASURED = st.tuples(
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from([0.0, 1e-9, 1e-3, 0.05, 10.0]),
    st.sampled_from([0.0, 1e-9, 1e-3, 0.05, 10.0]),
).map(lambda m: MeasuredRound(m[0], min(m[1], m[0]), m[2] if m[0] else 0.0, m[3], drafter="head"))
