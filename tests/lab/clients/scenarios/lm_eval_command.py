"""lm-evaluation-harness: texts, and the log probabilities of given answers."""

import json
from pathlib import Path

from steps import BASE, MODEL, TOKENIZER, command, step

TASKS = Path("tasks")
TASKS.mkdir()
QUESTIONS = (("The capital of France is", "Paris"), ("Two and two are", "four"))
lines = [json.dumps({"question": question, "answer": answer}) for question, answer in QUESTIONS]
(TASKS / "data.jsonl").write_text("\n".join(lines) + "\n")
COMMON = f"""dataset_path: json
dataset_kwargs: {{data_files: {{test: {TASKS.absolute()}/data.jsonl}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: " {{{{answer}}}}"
"""
(TASKS / "written.yaml").write_text(
    COMMON
    + """task: written
output_type: generate_until
generation_kwargs: {until: ["."], max_gen_toks: 8}
metric_list: [{metric: exact_match}]
"""
)
(TASKS / "likely.yaml").write_text(
    COMMON
    + """task: likely
output_type: multiple_choice
doc_to_choice: [" Paris", " four"]
metric_list: [{metric: acc}]
"""
)


def evaluate(task: str, model: str, path: str, *arguments: str) -> dict[str, float]:
    given = f"model={MODEL},base_url={BASE}/{path},tokenizer={TOKENIZER},num_concurrent=2"
    given += ",max_retries=1,tokenized_requests=" + str(path == "completions")
    command(
        "lm_eval",
        "run",
        *("--model", model, "--model_args", given),
        *("--include_path", str(TASKS), "--tasks", task, "--output_path", task),
        *arguments,
        OPENAI_API_KEY="x",
    )
    (found,) = Path(task).rglob("results*.json")
    results: dict[str, dict[str, float]] = json.loads(found.read_text())["results"]
    return results[task]


@step("completions: texts")
def _():
    evaluate("written", "local-completions", "completions")


@step("completions: the likelier of two answers")
def _():
    results = evaluate("likely", "local-completions", "completions")
    assert results["acc,none"] == 1, results


@step("chat: texts")
def _():
    TASKS.joinpath("written.yaml").write_text(
        TASKS.joinpath("written.yaml").read_text().replace("task: written", "task: chatted")
    )
    evaluate("chatted", "local-chat-completions", "chat/completions", "--apply_chat_template")
