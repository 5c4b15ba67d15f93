// What scenarios in JavaScript share: see steps.py.
"use strict";
const assert = require("node:assert/strict");

const SERVER = process.env.CLIENTS_SERVER;
const MODEL = process.env.CLIENTS_MODEL;
const QUESTION = [{ role: "user", content: "What is the capital of France?" }];
const WEATHER = {
  name: "weather",
  description: "The weather in a city",
  parameters: {
    type: "object",
    properties: { city: { type: "string", maxLength: 12 } },
    required: ["city"],
    additionalProperties: false,
  },
};

async function step(name, run) {
  let why = "";
  try {
    await run();
  } catch (error) {
    why = `${error.name}: ${error.message}`.slice(0, 500);
  }
  console.log(JSON.stringify({ step: name, passed: !why, why }));
}

module.exports = { assert, SERVER, MODEL, QUESTION, WEATHER, step };
