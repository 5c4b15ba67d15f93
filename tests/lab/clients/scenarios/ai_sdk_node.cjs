// Vercel's ai: OpenAI's API through its provider for compatible servers, and Ollama's through
// ollama-ai-provider, which speaks that API only.
"use strict";
const { generateText, generateObject, streamText, tool } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { createOllama } = require("ollama-ai-provider-v2");
const { z } = require("zod");
const { assert, SERVER, MODEL, step } = require("./steps.cjs");

const ours = { name: "slipstream", baseURL: `${SERVER}/v1`, supportsStructuredOutputs: true };
const MODELS = {
  OpenAI: createOpenAICompatible(ours)(MODEL),
  Ollama: createOllama({ baseURL: `${SERVER}/api` })(MODEL),
};
const prompt = "What is the capital of France?";
const schema = z.object({ city: z.string().max(12), more: z.record(z.string(), z.number()).optional() });

(async () => {
  for (const [name, model] of Object.entries(MODELS)) {
    const base = { model, prompt, temperature: 0, maxOutputTokens: 60, maxRetries: 0 };
    await step(`${name}: a text, streamed: the same`, async () => {
      const whole = await generateText(base);
      assert.ok(whole.text);
      assert.ok(whole.usage.outputTokens > 0);
      let text = "";
      for await (const part of streamText(base).textStream) text += part;
      assert.equal(text, whole.text);
    });
    await step(`${name}: an object through zod`, async () => {
      const { object } = await generateObject({ ...base, schema, maxOutputTokens: 200 });
      assert.equal(typeof object.city, "string");
    });
    await step(`${name}: a tool`, async () => {
      const asked = [];
      const weather = tool({
        description: "The weather in a city",
        inputSchema: z.object({ city: z.string().max(12) }),
        execute: async (given) => asked.push(given) && "sunny",
      });
      // Ollama's API has no choice among tools; OpenAI's makes one call of the named tool.
      const toolChoice = name === "OpenAI" ? { type: "tool", toolName: "weather" } : "auto";
      const answer = await generateText({ ...base, tools: { weather }, toolChoice });
      if (name === "OpenAI") assert.equal(typeof asked[0].city, "string");
      assert.ok(answer.finishReason);
    });
  }
})();
