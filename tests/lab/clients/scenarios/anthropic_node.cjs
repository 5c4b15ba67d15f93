// Anthropic's own library for JavaScript.
"use strict";
const { Anthropic, BadRequestError } = require("@anthropic-ai/sdk");
const { assert, SERVER, MODEL, QUESTION, WEATHER, step } = require("./steps.cjs");

const client = new Anthropic({ baseURL: SERVER, apiKey: "x", maxRetries: 0, timeout: 120000 });
const GREEDY = { model: MODEL, messages: QUESTION, max_tokens: 12, temperature: 0 };
const TOOL = { name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.parameters };

(async () => {
  await step("a message, streamed: the same text", async () => {
    const whole = await client.messages.create(GREEDY);
    const final = await client.messages.stream(GREEDY).finalMessage();
    assert.ok(whole.content[0].text);
    assert.deepEqual(final.content, whole.content);
    assert.equal(final.stop_reason, whole.stop_reason);
  });
  await step("a tool call, streamed: the same as whole", async () => {
    const body = { ...GREEDY, max_tokens: 60, tools: [TOOL], tool_choice: { type: "any", disable_parallel_tool_use: true } };
    const called = (message) => message.content.find((block) => block.type === "tool_use");
    const whole = called(await client.messages.create(body));
    const streamed = called(await client.messages.stream(body).finalMessage());
    assert.deepEqual(Object.keys(whole.input), ["city"]);
    assert.deepEqual(streamed.input, whole.input);
  });
  await step("counting", async () => {
    const counted = await client.messages.countTokens({ model: MODEL, messages: QUESTION });
    assert.ok(counted.input_tokens > 0);
  });
  await step("what is wrong is refused, in words that the library reads", async () => {
    const asked = client.messages.create({ ...GREEDY, messages: [] });
    const error = await asked.then(() => null, (raised) => raised);
    assert.ok(error instanceof BadRequestError, String(error));
    assert.equal(error.error.error.type, "invalid_request_error");
  });
})();
