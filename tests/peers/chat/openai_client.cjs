// The npm client openai, like in an application, with the sidecar as its base URL.
//
// openai_client.cjs ORIGIN TOKEN: the token may also decide approvals. The sidecar uses the model of
// tests/integration/chat/clients.rs, which follows instructions. Exits with an error if a response is
// wrong.
'use strict';

const assert = require('node:assert/strict');
const OpenAI = require('openai');
const { zodResponseFormat } = require('openai/helpers/zod');
const { z } = require('zod');

const [origin, token] = process.argv.slice(2);
const baseURL = `${origin}/v1`;
const client = new OpenAI({ baseURL, apiKey: token });
const SUM = 'calculator {"expression": "6 * 7"}';
const PIZZA = {
  type: 'function',
  function: {
    name: 'order_pizza',
    parameters: { type: 'object', properties: { size: { type: 'integer' } } },
  },
};
const said = (content) => [{ role: 'user', content }];
const create = (body, options) => client.chat.completions.create({ model: 'demo', ...body }, options);
const words = (answer) => answer.choices[0].message.content;

// Returns the error of that kind that a request throws.
async function refusal(kind, request) {
  const error = await request.then(
    () => assert.fail(`no ${kind.name}`),
    (error) => error,
  );
  assert(error instanceof kind, error);
  return error;
}

async function models() {
  const listed = [];
  for await (const model of client.models.list()) listed.push(model.id);
  assert.deepEqual(listed, ['demo', 'small/er']);
  for (const name of listed) assert.equal((await client.models.retrieve(name)).id, name);
  const error = await refusal(OpenAI.NotFoundError, client.models.retrieve('gone'));
  assert.equal(error.code, 'model_not_found');
}

async function answers() {
  const answer = await create({ messages: said(SUM) });
  assert.equal(words(answer), 'The tools say: 42');
  assert.equal(answer.usage.total_tokens, 30);
  const stream = await create({ messages: said(SUM), stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, 'The tools say: 42');
  assert.equal(usage.total_tokens, 30);
}

async function ownTools() {
  const messages = said('order_pizza {"size": 3}');
  const [choice] = (await create({ messages, tools: [PIZZA] })).choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  const [call] = choice.message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { size: 3 });
  const result = { role: 'tool', tool_call_id: call.id, content: 'It is in the oven.' };
  const after = await create({ messages: [...messages, choice.message, result], tools: [PIZZA] });
  assert.equal(words(after), 'The tools say: It is in the oven.');
  const forced = { type: 'function', function: { name: 'order_pizza' } };
  const chosen = await create({ messages, tools: [PIZZA], tool_choice: forced });
  assert(chosen.choices[0].message.tool_calls);
  const without = await create({ messages, tools: [PIZZA], tool_choice: 'none' });
  assert(!without.choices[0].message.tool_calls);

  // The client runs the tool itself, and repeats the request until the answer has text.
  const sizes = [];
  const tool = {
    type: 'function',
    function: { ...PIZZA.function, parse: JSON.parse, function: ({ size }) => sizes.push(size) && 'Ordered.' },
  };
  const two = said('order_pizza {"size": 1}\norder_pizza {"size": 2}');
  const runner = client.chat.completions.runTools({ model: 'demo', messages: two, tools: [tool], stream: true });
  assert.equal(await runner.finalContent(), 'The tools say: Ordered.; Ordered.');
  assert.deepEqual(sizes, [1, 2]);
}

async function structured() {
  const departure = z.object({ city: z.string(), hour: z.number() });
  const answer = await client.chat.completions.parse({
    model: 'demo',
    messages: said('When does it leave?'),
    response_format: zodResponseFormat(departure, 'departure'),
  });
  assert.deepEqual(answer.choices[0].message.parsed, { city: 'Tokyo', hour: 9 });
}

async function errors() {
  const stranger = new OpenAI({ baseURL, apiKey: 'wrong-wrong-wrong-wrong' });
  const unknown = await refusal(OpenAI.AuthenticationError, stranger.models.list());
  assert.equal(unknown.code, 'invalid_api_key');
  const gone = await refusal(OpenAI.NotFoundError, create({ model: 'gone', messages: said('Hi') }));
  assert.equal(gone.code, 'model_not_found');
  const busy = await refusal(
    OpenAI.RateLimitError,
    create({ messages: said('refuse node') }, { maxRetries: 0 }),
  );
  assert.equal(busy.headers.get('retry-after'), '1');
  assert.equal(words(await create({ messages: said('refuse node again') })), 'You said: refuse node again');
  await refusal(
    OpenAI.APIConnectionTimeoutError,
    create({ messages: said('wait') }, { timeout: 500, maxRetries: 0 }),
  );
}

async function approvals() {
  const request = { messages: said('get_time {"timezone": "UTC"}') };
  const error = await refusal(OpenAI.PermissionDeniedError, create(request));
  assert.equal(error.code, 'approval_required');
  const ask = async (method, path) => {
    const answer = await fetch(origin + path, { method, headers: { authorization: `Bearer ${token}` } });
    assert(answer.ok, answer.status);
    return answer.json();
  };
  const { approvals: waiting } = await ask('GET', '/api/v1/approvals?status=pending');
  for (const { id } of waiting) {
    if (error.message.includes(id)) await ask('POST', `/api/v1/approvals/${id}/approve`);
  }
  const headers = { 'x-pillion-chat': error.headers.get('x-pillion-chat') };
  assert.match(words(await create(request, { headers })), /^The tools say: /);
}

async function main() {
  for (const step of [models, answers, ownTools, structured, errors, approvals]) await step();
  console.log('openai: all as it should be');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
