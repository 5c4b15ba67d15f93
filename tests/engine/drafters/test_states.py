"""Drafting from hidden states: what is drafted is what the network makes of the target's states."""

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.core.model_parts import output_rows
from engine.drafters.head_network import head_drafter
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import proposed, read_prompt
from tests.support.engine.tiny import shallow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)


def pair():
    target = Decoder(shallow("llama"))
    bound = untrained(target.model)
    bound.head.moved = 0.2 * mx.random.normal(bound.head.moved.shape, key=KEY)
    return target, head_drafter(target, bound), bound


def chain(bound, target, tokens, length):
    """The same from nothing: one pass of the target, one of the head, and no caches; and a row for
    every token, of which those that are not kept are impossible where they are not in `tokens`."""
    rows = output_rows(target.model, mx.arange(target.vocabulary)) + bound.head.moved
    rows[bound.kept] = bound.head.output.weight
    impossible = mx.full((target.vocabulary,), -mx.inf)
    impossible[mx.concatenate([bound.kept, mx.array(tokens)])] = 0.0
    fresh = Decoder(target.model)
    states = fresh.record(bound.shape.layers)
    fresh.read(mx.array(tokens[:-1]))
    head, embed = bound.head, target.model.model.embed_tokens
    begun = [head.begin(states.between(0, len(tokens) - 1)[None])]
    after, drafted = list(tokens[1:]), []
    for _ in range(length):
        state = head(mx.concatenate(begun, axis=1), embed(mx.array([after])), "causal")
        logits = head.norm(state)[0, -1] @ rows.T + impossible
        token = int(mx.argmax(logits).item())
        begun.append(head.go_on(state[:, -1:]))
        after.append(token)
        drafted.append(token)
    return drafted


def test_it_says_what_its_network_says():
    target, drafter, bound = pair()
    read_prompt(target, drafter, TOKENS)
    assert proposed(drafter, TOKENS) == chain(bound, target, TOKENS, 4)


def test_what_is_in_the_text_can_be_said_without_a_row_of_its_own():
    target, drafter, bound = pair()
    bound.head.output.weight = bound.head.output.weight - 10.0 * bound.head.norm.weight
    odd, even = [3, 1, 5, 9, 7, 5, 11], [2, 4, 6, 8, 4, 6, 10]
    assert not {*odd} & {*bound.kept.tolist()}
    read_prompt(target, drafter, odd)
    said = {*proposed(drafter, odd)}
    target.rewind(0)
    drafter.rewind(0)
    read_prompt(target, drafter, even)
    assert said & {*odd}
    assert not {*proposed(drafter, even)} & {*odd}  # the other text is forgotten
