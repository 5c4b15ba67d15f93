// Ollama's own library for JavaScript.
"use strict";
const { Ollama } = require("ollama");
const { assert, SERVER, MODEL, QUESTION, WEATHER, step } = require("./steps.cjs");

const client = new Ollama({ host: SERVER });
const GREEDY = { model: MODEL, messages: QUESTION, options: { temperature: 0, num_predict: 12 } };

(async () => {
  await step("the models that are here, and what is said of one", async () => {
    assert.deepEqual((await client.list()).models.map((one) => one.model), [MODEL]);
    assert.equal((await client.ps()).models.length, 1);
    assert.ok((await client.show({ model: MODEL })).capabilities.includes("completion"));
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
  });
  await step("a chat, streamed: the same text", async () => {
    const whole = await client.chat(GREEDY);
    let text = "";
    let last;
    for await (const part of await client.chat({ ...GREEDY, stream: true })) {
      text += part.message.content;
      last = part;
    }
    assert.equal(text, whole.message.content);
    assert.equal(last.done, true);
    assert.ok(last.eval_count > 0);
  });
  await step("a text, streamed: the same text", async () => {
    const body = { model: MODEL, prompt: "Why is the sky blue?", options: GREEDY.options };
    const whole = await client.generate(body);
    let text = "";
    for await (const part of await client.generate({ ...body, stream: true })) text += part.response;
    assert.equal(text, whole.response);
  });
  await step("a schema, and tools", async () => {
    const options = { temperature: 0, num_predict: 60 };
    const held = await client.chat({ ...GREEDY, format: WEATHER.parameters, options });
    assert.deepEqual(Object.keys(JSON.parse(held.message.content)), ["city"]);
    const tools = [{ type: "function", function: WEATHER }];
    assert.ok((await client.chat({ ...GREEDY, tools })).done);
  });
  await step("a stream that the client leaves is over", async () => {
    const stream = await client.chat({ ...GREEDY, stream: true });
    setTimeout(() => client.abort(), 20);
    await assert.rejects(async () => {
      for await (const part of stream) void part;
    });
    assert.ok((await client.chat(GREEDY)).done);
  });
  await step("what is wrong is refused, in words that the library reads", async () => {
    await assert.rejects(client.embed({ model: MODEL, input: "a" }), /Embeddings/);
    await assert.rejects(client.chat({ ...GREEDY, format: "xml" }), /format/);
  });
})();
