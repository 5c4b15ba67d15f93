// OpenAI's own library for JavaScript, whose accumulators are stricter than those for Python.
"use strict";
const OpenAI = require("openai");
const { zodResponseFormat } = require("openai/helpers/zod");
const { z } = require("zod");
const { assert, SERVER, MODEL, QUESTION, WEATHER, step } = require("./steps.cjs");

const client = new OpenAI({ baseURL: `${SERVER}/v1`, apiKey: "x", maxRetries: 0, timeout: 120000 });
const GREEDY = { model: MODEL, messages: QUESTION, temperature: 0, max_tokens: 12 };
const TOOL = { type: "function", function: WEATHER };
const ask = async (body) => (await client.chat.completions.create({ ...GREEDY, ...body })).choices[0];

(async () => {
  await step("a chat, streamed: the same text", async () => {
    const whole = await ask({});
    const stream = client.chat.completions.stream({ ...GREEDY, stream_options: { include_usage: true } });
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, whole.message.content);
    assert.equal(final.choices[0].finish_reason, whole.finish_reason);
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  });
  await step("a schema, through zod", async () => {
    const format = zodResponseFormat(z.object({ city: z.string().max(12) }), "city");
    const body = { ...GREEDY, max_tokens: 60, response_format: format };
    const found = (await client.chat.completions.parse(body)).choices[0].message.parsed;
    assert.deepEqual(Object.keys(found), ["city"]);
  });
  await step("a tool call, streamed: the same as whole", async () => {
    const body = { tools: [TOOL], tool_choice: "required", parallel_tool_calls: false, max_tokens: 60 };
    const call = (await ask(body)).message.tool_calls[0];
    const stream = client.chat.completions.stream({ ...GREEDY, ...body });
    const streamed = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
    assert.equal(streamed.length, 1);
    assert.equal(streamed[0].function.name, "weather");
    assert.deepEqual(JSON.parse(streamed[0].function.arguments), JSON.parse(call.function.arguments));
  });
  await step("the library runs the tool and sends the result", async () => {
    const asked = [];
    const tool = {
      type: "function",
      function: { ...WEATHER, parse: JSON.parse, function: (given) => asked.push(given) && "sunny" },
    };
    const choice = { type: "function", function: { name: "weather" } };
    const body = { ...GREEDY, max_tokens: 60, tools: [tool], tool_choice: choice };
    const run = client.chat.completions.runTools(body);
    await run.done();
    assert.equal(asked.length, 1);
    assert.equal(typeof asked[0].city, "string");
  });
  await step("responses, streamed", async () => {
    const body = { model: MODEL, input: QUESTION, temperature: 0, max_output_tokens: 16 };
    const whole = await client.responses.create(body);
    const stream = client.responses.stream(body);
    const final = await stream.finalResponse();
    assert.ok(whole.output_text);
    assert.equal(final.output_text, whole.output_text);
  });
  await step("what is wrong is refused, in words that the library reads", async () => {
    const error = await ask({ temperature: -1 }).then(() => null, (raised) => raised);
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    assert.equal(error.type, "invalid_request_error");
  });
})();
