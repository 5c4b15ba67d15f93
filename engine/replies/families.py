"""The table of families: the marks in which their models write tool calls and reasoning.

`engine.replies.reading` reads by these rows, `engine.replies.writing` writes and
`engine.replies.call_grammars` enforces by the first row of a family. Marks are as templates write
them; readers accept any white space in them. In marks {gap} is white space that may be
missing, {id} the id of a call, {type} the JSON type of a value, {text} whether a value is a text.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Form = Literal["object", "json", "tags", "nested", "python", "literals"]
_PIECE = re.compile(r"\{(?:gap|id|text|type)\}|(?:(?!\{(?:gap|id|text|type)\})\S)+")
# "[TOOL_CALLS]"; MiniMax's "]<]minimax[>[<tool_call>"; up to the last ">" before JSON; a word.
_TRIGGER = re.compile(r"\[\w+\]|\]<\]\w+\[>\[<\w+>|[^\s{\[]*>|[^\s{\[]+|.")


@dataclass(frozen=True, slots=True)
class CallRow:
    """The notation of calls: `begin`, the name, `named`, the arguments, `end`.

    With an `opening`, several calls are between it and `closing`, with `between` between them;
    without, each is alone. `unmarked`: a call has no mark of its own, so it is only read at the
    beginning of a reply, and only of a known tool. `form`, of the arguments:

    - "json": a JSON object after the name;
    - "object": the same, but name and arguments are fields of an object, in any order;
    - "tags": keys and values, with `key` before a key, between the two and after the value, which
      may be in CDATA if `quote` says so;
    - "nested": tags in tags, with `key` before the key in a first tag, after it, and before the
      key in a last tag;
    - "python": as in Python, "literals": as Gemma writes them, with `quote` around texts.
    """

    form: Form
    begin: str = ""
    named: str = ""
    end: str = ""
    opening: str = ""
    between: str = ""
    closing: str = ""
    key: tuple[str, str, str] = ("", "", "")
    quote: str = ""
    unmarked: bool = False

    @property
    def starts(self) -> str:
        """The text with which the calls begin."""
        return self.opening or self.begin

    @property
    def trigger(self) -> str:
        """The first mark, which shows that a call begins."""
        found = _TRIGGER.match(self.starts)
        return found[0] if found else ""

    @property
    def marks(self) -> tuple[str, ...]:
        return (
            *(self.opening, self.begin, self.named, self.end, self.between, self.closing),
            *(*self.key, self.quote),
        )


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """The marks before and after the reasoning."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """The notation of a family.

    `shown_by`: each a set of words that show the family if a template has all of them. `calls`: the
    first row is written and enforced, all are read. `skipped`: marks around text that are in no
    part of a reply; `header`: such a mark, only at the beginning and after other marks.
    """

    calls: tuple[CallRow, ...] = ()
    shown_by: tuple[tuple[str, ...], ...] = ()
    reasoning: ReasoningMarks | None = None
    skipped: tuple[str, ...] = ()
    header: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        found = [mark for row in self.calls for mark in row.marks]
        thought = (self.reasoning.opening, self.reasoning.closing) if self.reasoning else ()
        return (*found, *thought, *self.skipped, self.header)


@lru_cache(maxsize=256)
def pieces(mark: str) -> tuple[str, ...]:
    """The words of a mark, without white space, and its places such as "{id}"."""
    return tuple(_PIECE.findall(mark))


_OBJECT = CallRow("object", begin='{"name": "', named='", "arguments": ', end="}")
_HERMES = replace(_OBJECT, begin='<tool_call>\n{"name": "', end="}\n</tool_call>", between="\n")
_BARE = replace(_OBJECT, unmarked=True)  # as small models write it, without the marks
_FENCED = replace(_BARE, begin='```json\n{"name": "', end="}\n```")
_DOUBLED = replace(_BARE, begin='{{"name": "', end="}}")  # as Qwen2.5-Coder's template shows it
_LLAMA = replace(_OBJECT, named='", "parameters": ', between="; ", unmarked=True)
_GIGACHAT = replace(_OBJECT, begin='<|function_call|>{"name": "')
_GIGACHAT_3 = replace(_OBJECT, begin='<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "')


def _listed(opening: str, closing: str) -> CallRow:
    return replace(_OBJECT, between=", ", opening=opening, closing=closing)


_PHI = _listed("<|tool_call|>{gap}[", "]{gap}<|/tool_call|>")
_MISTRAL = _listed("[TOOL_CALLS]{gap}[", "]")
_MISTRAL_ARGS = CallRow("json", begin="[TOOL_CALLS]", named="[ARGS]")
_MISTRAL_IDS = replace(_MISTRAL_ARGS, named="[CALL_ID]{id}[ARGS]")
_MISTRALS = (
    _MISTRAL,
    _MISTRAL_ARGS,
    _MISTRAL_IDS,
    replace(_OBJECT, begin='[TOOL_CALLS]{"name": "'),
)
_APRIEL = replace(
    _MISTRAL, end=', "id": "{id}"}', opening="<tool_calls>{gap}[", closing="]{gap}</tool_calls>"
)
_COHERE = CallRow(
    "object",
    begin='{"tool_call_id": "{id}", "tool_name": "',
    named='", "parameters": ',
    end="}",
    opening="<|START_ACTION|>[\n    ",
    between=",\n    ",
    closing="\n]<|END_ACTION|>",
)
_COHERE_TEXTS = ("<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
_COHERE_TURNS = ("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
_COMMAND = replace(
    _COHERE,
    begin='{\n        "tool_name": "',
    named='",\n        "parameters": ',
    end="\n    }",
    opening="Action:\n```json\n[\n    ",
    closing="\n]\n```",
)
_DEEPSEEK = CallRow(
    "json",
    begin="<｜tool▁call▁begin｜>",
    named="<｜tool▁sep｜>",
    end="<｜tool▁call▁end｜>",
    opening="<｜tool▁calls▁begin｜>",
    closing="<｜tool▁calls▁end｜>",
)
_DEEPSEEK_R1 = replace(
    _DEEPSEEK,
    begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    named="\n```json\n",
    end="\n```<｜tool▁call▁end｜>",
    between="\n",
)
_KIMI = CallRow(
    "json",
    begin="<|tool_call_begin|>functions.",
    named=":{id}<|tool_call_argument_begin|>",
    end="<|tool_call_end|>",
    opening="<|tool_calls_section_begin|>",
    closing="<|tool_calls_section_end|>",
)
_SOLAR = CallRow(
    "json",
    begin="<|tool_call:begin|>{id}<|tool_call:name|>",
    named="<|tool_call:args|>",
    end="<|tool_call:end|>",
    opening="<|tool_calls|>",
    closing="<|calls|>",
)
_HARMONY = CallRow(
    "json",
    begin="<|channel|>commentary to=functions.",
    named=" <|constrain|>json<|message|>",
    end="<|call|>",
)
_QWEN = CallRow(
    "tags",
    begin="<tool_call>\n<function=",
    named=">\n",
    key=("<parameter=", ">\n", "\n</parameter>\n"),
    end="</function>\n</tool_call>",
    between="\n",
)
_QWEN_BARE = replace(_QWEN, begin="<function=")
_GLM = CallRow(
    "tags",
    begin="<tool_call>",
    named="{gap}",
    key=("<arg_key>", "</arg_key>{gap}<arg_value>", "</arg_value>{gap}"),
    end="</tool_call>",
    between="{gap}",
)
_HY = CallRow(
    "tags",
    begin="<tool_call:opensource>",
    named="<tool_sep:opensource>\n",
    key=(
        "<arg_key:opensource>",
        "</arg_key:opensource>\n<arg_value:opensource>",
        "</arg_value:opensource>\n",
    ),
    end="</tool_call:opensource>\n",
    opening="<tool_calls:opensource>\n",
    closing="</tool_calls:opensource>",
)
_MINIMAX = CallRow(
    "tags",
    begin='<invoke name="',
    named='">\n',
    key=('<parameter name="', '">', "</parameter>\n"),
    end="</invoke>\n",
    opening="<minimax:tool_call>\n",
    closing="</minimax:tool_call>",
)
_MINIMAX_3 = CallRow(
    "nested",
    begin=']<]minimax[>[<invoke name="',
    named='">',
    key=("]<]minimax[>[<", ">", "]<]minimax[>[</"),
    end="]<]minimax[>[</invoke>\n",
    opening="]<]minimax[>[<tool_call>\n",
    closing="]<]minimax[>[</tool_call>",
)
_DSML = CallRow(
    "tags",
    begin='<｜DSML｜invoke name="',
    named='">\n',
    key=('<｜DSML｜parameter name="', '" string="{text}">', "</｜DSML｜parameter>\n"),
    end="</｜DSML｜invoke>\n",
    opening="<｜DSML｜tool_calls>\n",
    closing="</｜DSML｜tool_calls>",
)
_DSML_OLD = replace(
    _DSML, opening="<｜DSML｜function_calls>\n", closing="</｜DSML｜function_calls>"
)
_MINICPM = CallRow(
    "tags",
    begin='<function name="',
    named='">',
    key=('<param name="', '">', "</param>"),
    quote="<![CDATA[",
    end="</function>",
    between="\n",
)
_ATEM = CallRow(
    "tags",
    begin='<atem:function_calls>\n<atem:invoke name="',
    named='">\n',
    key=('<atem:parameter name="', '">', "</atem:parameter>\n"),
    end="</atem:invoke>\n</atem:function_calls>",
)
_KIMI_3 = CallRow(
    "tags",
    begin='<|open|>call tool="',
    named='" index="{id}"<|sep|>',
    key=('<|open|>argument key="', '" type="{type}"<|sep|>', "<|close|>argument<|sep|>"),
    end="<|close|>call<|sep|>",
    opening="<|open|>tools<|sep|>",
    closing="<|close|>tools<|sep|>",
)
_LFM = CallRow(
    "python",
    named="(",
    end=")",
    opening="<|tool_call_start|>{gap}[",
    between=", ",
    closing="]{gap}<|tool_call_end|>",
)
_OLMO = replace(_LFM, opening="<function_calls>\n", between="\n", closing="\n</function_calls>")
_PYTHONIC = replace(_LFM, opening="[", closing="]", unmarked=True)
_GEMMA = CallRow("literals", begin="<|tool_call>call:", end="<tool_call|>", quote='<|"|>')
_FUNCTION_GEMMA = CallRow(
    "literals", begin="<start_function_call>call:", end="<end_function_call>", quote="<escape>"
)


def _gemma(row: CallRow) -> tuple[CallRow, ...]:
    """Gemma's notation, JSON between its marks, and a list of either between them."""
    mark = row.trigger
    alone = replace(_OBJECT, begin=f'{mark}{{"name": "', end="}" + row.end)
    in_json = _listed(f"{mark}[", "]" + row.end)
    listed = replace(in_json, form=row.form, begin="call:", named="", end="", quote=row.quote)
    return row, alone, in_json, listed


Family = Literal[
    "none", "found", "harmony", "gemma", "function gemma", "glm", "lfm", "olmo", "minimax",
    "minimax m1", "minimax 3", "dsml", "dsml v3", "deepseek", "deepseek r1", "kimi", "kimi 3", "hy",
    "hunyuan", "solar", "atem", "minicpm", "apriel", "nemotron", "cohere", "command", "phi",
    "granite", "gigachat", "gigachat 3", "firefunction", "qwen xml", "mistral args", "mistral",
    "hermes", "pythonic", "llama",
]  # fmt: skip

FAMILIES: dict[Family, FamilyRow] = {
    "harmony": FamilyRow(
        (_HARMONY,),
        (("<|channel|>", "<|message|>", "<|start|>"),),
        skipped=("<|start|>", "<|end|>"),
    ),
    "gemma": FamilyRow(
        _gemma(_GEMMA), (("<|tool_call>", "<tool_call|>"),), skipped=("<channel|>", "<|channel>")
    ),
    "function gemma": FamilyRow(_gemma(_FUNCTION_GEMMA), (("<start_function_call>",),)),
    "glm": FamilyRow((_GLM,), (("<arg_key>", "<tool_call>"),)),
    "lfm": FamilyRow(
        (_LFM, _listed(_LFM.opening, _LFM.closing)),
        (("<|tool_call_start|>",), ("<|tool_list_start|>",), ("List of tools: ",)),
    ),
    "olmo": FamilyRow((_OLMO,), (("<function_calls>",),)),
    "minimax": FamilyRow((_MINIMAX,), (("<minimax:tool_call>", "<invoke name="),)),
    "minimax 3": FamilyRow((_MINIMAX_3,), (("]<]minimax[>[", "<invoke name="),)),
    "minimax m1": FamilyRow(
        (replace(_OBJECT, opening="<tool_calls>\n", between="\n", closing="\n</tool_calls>"),),
        (("<tool_calls>", "<end_of_sentence>"),),
    ),
    "dsml v3": FamilyRow((_DSML_OLD, _DSML), (("｜DSML｜", "function_calls"),)),
    "dsml": FamilyRow((_DSML, _DSML_OLD), (("｜DSML｜", "tool_calls"),)),
    "deepseek r1": FamilyRow((_DEEPSEEK_R1, _DEEPSEEK), (("<｜tool▁calls▁begin｜>", "```json"),)),
    "deepseek": FamilyRow((_DEEPSEEK,), (("<｜tool▁calls▁begin｜>",),)),
    "kimi": FamilyRow(
        tuple(
            replace(row, begin=begin)
            for row in (_KIMI, replace(_KIMI, opening=""))
            for begin in (_KIMI.begin, "<|tool_call_begin|>")
        ),
        (("<|tool_calls_section_begin|>",),),
        skipped=("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
    ),
    "kimi 3": FamilyRow(
        (_KIMI_3,),
        (("<|open|>", "<|close|>", "<|sep|>"),),
        ReasoningMarks("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    "hy": FamilyRow(
        (_HY,),
        (("<tool_sep", "<arg_key", "opensource"),),
        ReasoningMarks("<think:opensource>", "</think:opensource>"),
    ),
    "hunyuan": FamilyRow(
        (_listed(_APRIEL.opening, _APRIEL.closing),),
        (("<|extra_0|>", "<|extra_4|>"), ("<｜hy_Assistant｜>",)),
        skipped=("<answer>", "</answer>"),
    ),
    "solar": FamilyRow(
        (_SOLAR,),
        (("<|tool_call:begin|>", "<|tool_call:args|>"),),
        ReasoningMarks("<|think|>", "<|end|>"),
        ("<|begin|>assistant", "<|content|>", "<|end|>"),
    ),
    "atem": FamilyRow(
        (_ATEM,),
        (("<atem:function_calls>",),),
        ReasoningMarks("to=self<|message|>", "<|eom|>"),
        ("<|start|>assistant", "<|eom|>", "<|eot|>"),
        "to={id}<|message|>",
    ),
    "minicpm": FamilyRow((_MINICPM,), (('<function name="', "<param name="),)),
    "nemotron": FamilyRow((_listed("<TOOLCALL>{gap}[", "]{gap}</TOOLCALL>"),), (("<TOOLCALL>",),)),
    "cohere": FamilyRow(
        (_COHERE,),
        (("<|START_ACTION|>",),),
        skipped=(*_COHERE_TEXTS, *_COHERE_TURNS),
    ),
    "command": FamilyRow(
        (_COMMAND,), (("Action:", "```json", "<|CHATBOT_TOKEN|>"),), skipped=_COHERE_TURNS
    ),
    "phi": FamilyRow((_PHI,), (("<|tool_call|>", "<|/tool_call|>"),)),
    "granite": FamilyRow((_listed("<|tool_call|>{gap}[", "]"),), (("<|tool_call|>",),)),
    "gigachat": FamilyRow((_GIGACHAT,), (("<|function_call|>", "<|role_sep|>"),)),
    "gigachat 3": FamilyRow((_GIGACHAT_3,), (("function call", "<|role_sep|>"),)),
    "firefunction": FamilyRow((_listed("functools{gap}[", "]"),), (("functools[",),)),
    "apriel": FamilyRow((_APRIEL,), (("<tool_calls>", "</tool_calls>"),)),
    "qwen xml": FamilyRow((_QWEN, _QWEN_BARE, _HERMES), (("<tool_call>", "<function="),)),
    "mistral args": FamilyRow((_MISTRAL_ARGS, *_MISTRALS), (("[TOOL_CALLS]", "[ARGS]"),)),
    "mistral": FamilyRow(_MISTRALS, (("[TOOL_CALLS]",),)),
    "hermes": FamilyRow((_HERMES, _BARE, _FENCED, _DOUBLED), (("<tool_call>",),)),
    "pythonic": FamilyRow((_PYTHONIC,), (("[func_name1(",),)),
    "llama": FamilyRow(
        (
            _LLAMA,
            replace(_LLAMA, opening="<|python_tag|>", unmarked=False),
            CallRow("python", begin="<|python_tag|>", named="(", end=")"),
            _PYTHONIC,
        ),
        (("<|start_header_id|>", "tool_calls", '"parameters": '),),
    ),
}
"""In the order in which a template is compared with them."""
