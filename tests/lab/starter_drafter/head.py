"""The head in PyTorch, with the loss by which it learns: those of `engine.drafters.head_network`
and `engine.distil.head_learner`, where they are explained. A test compares the losses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from target import rotated, turns
from torch import Tensor, nn

STEPS = 5
STEP_WEIGHT = 0.8
HIDDEN_FROM = -1e4  # added to a score, it leaves nothing


class Head(nn.Module):
    """As `engine.drafters.head_network.Head`, with the names of its weights."""

    def __init__(self, shape: dict[str, Any], kept: Tensor) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("kept", kept)  # (rows,) the token of each row
        own, width = shape["hidden_size"], shape.get("target_size", shape["hidden_size"])
        self.fuse = matrix(len(shape["layers"]) * width, own)
        self.embed = matrix(width, own)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.get("depth", 1)))
        self.norm = nn.RMSNorm(own, eps=shape["rms_norm_eps"])
        self.output = matrix(own, shape["rows"])
        self.moved = nn.Parameter(torch.zeros(own))
        if "parallel" in shape:
            self.masks = nn.Parameter(0.02 * torch.randn(STEPS, own))
        else:
            self.carry = matrix(own, own)
        if "markov" in shape:
            self.before = matrix(width, shape["markov"])
            self.after = matrix(shape["markov"], shape["rows"])

    def begin(self, states: Tensor) -> Tensor:
        return self.fuse(self.normal(states).flatten(-2))

    def go_on(self, state: Tensor) -> Tensor:
        return self.carry(self.normal(state))

    def normal(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), None, self.shape["rms_norm_eps"])

    def logits(self, state: Tensor, before: Tensor, lent: Tensor, unmet: Tensor) -> Tensor:
        """(P, rows + E). `before`: embeddings of the tokens before those that are predicted;
        `lent` (E, hidden): rows of borrowed tokens, which do not count where they are `unmet`."""
        scores = F.linear(self.norm(state.float()), torch.cat([self.output.weight, lent]))
        rows = len(self.kept)
        if "markov" in self.shape:
            scores[:, :rows] += self.after(self.before(self.normal(before)))
        scores[:, rows:].masked_fill_(unmet, HIDDEN_FROM)
        return scores

    def lent(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """Rows for borrowed tokens: the target's, moved."""
        surplus = len(self.moved) - embedding.shape[-1]
        return F.pad(embedding[tokens].float(), (0, surplus)) + self.moved


class Block(nn.Module):
    """A layer of Llama that sees the target's states, and one state of each step of its own."""

    def __init__(self, shape: dict[str, Any]) -> None:
        super().__init__()
        hidden, between = shape["hidden_size"], shape["intermediate_size"]
        self.heads, self.pairs = shape["num_attention_heads"], shape["num_key_value_heads"]
        self.width = shape["head_dim"]
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        self.self_attn.q_proj = matrix(hidden, self.heads * self.width)
        self.self_attn.k_proj = matrix(hidden, self.pairs * self.width)
        self.self_attn.v_proj = matrix(hidden, self.pairs * self.width)
        self.self_attn.o_proj = matrix(self.heads * self.width, hidden)
        self.mlp.gate_proj, self.mlp.up_proj = matrix(hidden, between), matrix(hidden, between)
        self.mlp.down_proj = matrix(between, hidden)
        self.input_layernorm = nn.RMSNorm(hidden, eps=shape["rms_norm_eps"])
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=shape["rms_norm_eps"])

    def projected(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of `x` (rows, n, hidden)."""
        y, own = self.input_layernorm(x.float()), self.self_attn

        def split(matrix: nn.Linear) -> Tensor:
            return matrix(y).unflatten(-1, (-1, self.width)).transpose(1, 2)

        q, k, v = split(own.q_proj), split(own.k_proj), split(own.v_proj)
        return rotated(q, turns) * self.width**-0.5, rotated(k, turns), v

    def attended(
        self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor,
        own: list[tuple[Tensor, Tensor]],
    ) -> Tensor:  # fmt: skip
        """`keys` of the target's states under `mask` (n, n), and of each step of its `own` the
        one key that belongs to each query."""
        rows, _, n, width = q.shape
        group = self.heads // self.pairs
        q = q.view(rows, self.pairs, group, n, width)
        scores = torch.matmul(q.flatten(2, 3), keys.transpose(2, 3))
        scores = scores.view(rows, self.pairs, group, n, n) + mask
        single = [(q * k[:, :, None]).sum(-1, keepdim=True) for k, _ in own]
        weights = torch.cat([scores, *single], -1).softmax(-1).to(values.dtype)
        seen = torch.matmul(weights[..., :n].flatten(2, 3), values)
        seen = seen.view(rows, self.pairs, group, n, width)
        for i, (_, v) in enumerate(own):
            seen = seen + weights[..., n + i, None] * v[:, :, None]
        seen = seen.reshape(rows, self.heads, n, width).transpose(1, 2).reshape(rows, n, -1)
        return self.self_attn.o_proj(seen)

    def thought(self, x: Tensor) -> Tensor:
        """The layer's second half."""
        y, own = self.post_attention_layernorm(x.float()), self.mlp
        return x + own.down_proj(F.silu(own.gate_proj(y)) * own.up_proj(y))


def matrix(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


@dataclass
class Batch:
    """Sequences side by side, padded on the right to n positions; P places are predicted from.

    Place j of a sequence x stands for the state of x[j] with x[j + 1], and predicts x[j + 2].
    `after` (rows, n) holds x[j + 1]. `predicting` (P,) are places in rows * n, `rank` (P,) how far
    behind its answer's first each one is. `borrowed` (E,) are tokens of the sequences that have no
    row, `unmet` (P, E) where they are not in the text yet. The target thought `thoughts`
    (P, rows + E) of the head's rows and of these there,
    as logits of which `total` (P,) is the logarithm of the sum over all tokens.
    """

    states: Tensor
    after: Tensor
    predicting: Tensor
    rank: Tensor
    borrowed: Tensor
    unmet: Tensor
    thoughts: Tensor
    total: Tensor


class Difference(torch.autograd.Function):
    """What `compared` finds, with its gradient, which is made on the way."""

    @staticmethod
    def forward(
        context: Any, logits: Tensor, thoughts: Tensor, total: Tensor, which: Tensor, greed: float
    ) -> Tensor:
        if logits.is_cuda:
            from kernels import compare  # Triton is there where a GPU is
        else:
            from cpu_kernels import compare
        found, gradient = compare(logits, thoughts, total, which, greed)
        context.save_for_backward(gradient)
        return found.mean()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        (own,) = context.saved_tensors
        return own * (gradient / len(own)).to(own.dtype), None, None, None, None


def compared(
    logits: Tensor, thoughts: Tensor, total: Tensor, which: Tensor, greed: float
) -> tuple[Tensor, Tensor]:
    """How far softmax(`logits`) (P, rows) = q is from the target's p = exp(thoughts - total).

    (1 - greed) times the cross entropy, less greed times the chance sum(min(p, q)) that a draft
    is accepted; and the gradient by `logits`. `which` (P,) rows of `thoughts` are meant.
    """
    p = (thoughts[which] - total[which, None]).exp()
    log_q = logits.float().log_softmax(-1)
    q = log_q.exp()
    below = (q < p).float()
    found = -(1 - greed) * (p * log_q).sum(-1) - greed * torch.minimum(p, q).sum(-1)
    entropy = q * p.sum(-1, keepdim=True) - p
    missed = q * ((q * below).sum(-1, keepdim=True) - below)
    return found, ((1 - greed) * entropy + greed * missed).to(logits.dtype)


def loss(
    head: Head, batch: Batch, embedding: Tensor, greed: float = 0.0, steps: int = STEPS
) -> list[Tensor]:
    """As `engine.distil.head_learner.loss`, of each step."""
    rows, n = batch.after.shape
    shape, parts = head.shape, []
    around = turns(
        torch.arange(n, device=batch.after.device), shape["head_dim"], shape["rope_theta"]
    )
    embedded = F.embedding(batch.after, embedding)
    known, begun = head.embed(head.normal(embedded)), head.begin(batch.states)
    lent, thoughts = head.lent(batch.borrowed, embedding), batch.thoughts
    if thoughts.shape[1] > shape["rows"] + len(lent):  # another head has more rows
        last = thoughts[:, thoughts.shape[1] - len(lent) :]
        thoughts = torch.cat([thoughts[:, : shape["rows"]], last], -1)
    seen: list[tuple[Tensor, Tensor]] = []
    own: list[list[tuple[Tensor, Tensor]]] = [[] for _ in head.blocks]
    for step in range(steps):
        x = begun + known
        if step and "parallel" in shape:
            x = head.masks[step].expand(rows, n, -1)
        mask = torch.full((n, n), HIDDEN_FROM, device=x.device).triu(1 - step)
        for i, block in enumerate(head.blocks):
            q, k, v = block.projected(x, around)
            if step == 0:
                seen.append((k, v))
            else:
                own[i].append((k, v))
            lagging = [(shifted(k, step - 1 - j), shifted(v, step - 1 - j))
                       for j, (k, v) in enumerate(own[i])]  # fmt: skip
            x = x + block.attended(q, *seen[i], mask.to(q.dtype), lagging)
            if i + 1 < len(head.blocks):
                x = block.thought(x)
            else:  # nothing else is looked at
                state = block.thought(x.flatten(0, 1)[batch.predicting])
        counted = (batch.rank >= step).nonzero()[:, 0]
        before = embedded.flatten(0, 1)[batch.predicting[counted]]
        logits = head.logits(state[counted], before, lent, batch.unmet[counted])
        parts.append(Difference.apply(logits, thoughts, batch.total, counted, greed))
        if "parallel" not in shape:
            spread = torch.zeros(rows * n, state.shape[-1], dtype=state.dtype, device=x.device)
            spread = spread.index_copy(0, batch.predicting, state).view(rows, n, -1)
            begun = head.go_on(F.pad(spread, (0, 0, 1, 0))[:, :-1])
    return parts


def shifted(x: Tensor, by: int) -> Tensor:
    """What stood at place j of (rows, heads, n, width) stands at j + by."""
    return F.pad(x, (0, 0, by, 0))[:, :, : x.shape[2]]


def weighed(parts: list[Tensor]) -> Tensor:
    return sum((STEP_WEIGHT**step * part for step, part in enumerate(parts)), torch.zeros(()))


def chains(head: Head, batch: Batch, embedding: Tensor) -> Iterator[Tensor]:
    """The logits (P, rows + E) of the first, second, ... token that is drafted from each place."""
    (rows, n), shape, after = batch.after.shape, head.shape, batch.after
    begun = head.begin(batch.states)
    mask = torch.full((n, n), HIDDEN_FROM, device=after.device).triu(1)
    lent, tokens = head.lent(batch.borrowed, embedding), torch.cat([head.kept, batch.borrowed])
    seen: list[tuple[Tensor, Tensor]] = []
    own: list[list[tuple[Tensor, Tensor]]] = [[] for _ in head.blocks]
    for step in range(STEPS):
        places = torch.arange(step, n + step, device=after.device)
        around = turns(places, shape["head_dim"], shape["rope_theta"])
        embedded = F.embedding(after, embedding)
        x = begun + head.embed(head.normal(embedded))
        if step and "parallel" in shape:
            x = head.masks[step].expand_as(x)
        for i, block in enumerate(head.blocks):
            q, k, v = block.projected(x, around)
            if step == 0:
                seen.append((k, v))
            else:
                own[i].append((k, v))
            x = block.thought(x + block.attended(q, *seen[i], mask.to(q.dtype), own[i]))
        state, before = (y.flatten(0, 1)[batch.predicting] for y in (x, embedded))
        logits = head.logits(state, before, lent, batch.unmet)
        yield logits
        drafted = tokens[logits.argmax(-1)]
        after = after.flatten().index_copy(0, batch.predicting, drafted).view(rows, n)
        begun = x if "parallel" in shape else head.go_on(x)
