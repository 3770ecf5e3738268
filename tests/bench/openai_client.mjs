// One scenario of tests/bench/openai_js.py: `node openai_client.mjs SCENARIO BASE_URL API_KEY`. Prints what it saw as JSON.
import OpenAI from 'openai';

const [scenario, baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const model = 'gpt-test';
const ask = (content, more = {}) => ({ model, messages: [{ role: 'user', content }], ...more });
const tool = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const failure = (error) => ({ kind: error?.constructor?.name, status: error?.status ?? null, code: error?.code ?? null });
const failing = async (call) => { try { await call(); return { kind: 'none' }; } catch (error) { return failure(error); } };

async function plain(body, options) {
  const { data, response } = await client.chat.completions.create(body, options).withResponse();
  const { message, finish_reason } = data.choices[0];
  return { text: message.content, calls: message.tool_calls ?? null, finish: finish_reason, usage: data.usage?.total_tokens ?? null,
    cache: response.headers.get('cache-status') };
}

async function streamed(body, options) {
  const { data, response } = await client.chat.completions.create({ ...body, stream: true }, options).withResponse();
  const seen = { text: '', chunks: 0, calls: '', finish: null, usage: null, cache: response.headers.get('cache-status') };
  for await (const chunk of data) {
    seen.chunks += 1;
    const choice = chunk.choices[0];
    seen.text += choice?.delta?.content ?? '';
    for (const call of choice?.delta?.tool_calls ?? []) seen.calls += call.function?.arguments ?? '';
    seen.finish = choice?.finish_reason ?? seen.finish;
    seen.usage = chunk.usage?.total_tokens ?? seen.usage;
  }
  return seen;
}

const scenarios = {
  async chat() {
    const parts = [{ type: 'text', text: 'What is a cache? 你好 🙂' }];
    return [await plain(ask('What is a cache? 你好 🙂')), await plain(ask(parts, { n: 1, user: 'u' })), await streamed(ask('What is a cache? 你好 🙂'))];
  },
  async streams() {
    const body = ask('Stream it', { stream_options: { include_usage: true } });
    const told = [await streamed(body), await streamed(body), await plain(ask('Stream it'))];
    const helper = client.chat.completions.stream(ask('Stream it'));
    told.push({ text: await helper.finalContent() });
    return told;
  },
  async tools() {
    const body = ask('Weather in Zürich?', { tools: [tool] });
    return [await plain(body), await plain(body), await streamed(body), await streamed(body)];
  },
  async tool_loop() {
    // The upstream asks for the tool for ever: the helper's own bound ends it.
    const runner = client.chat.completions.runTools(
      ask('Weather?', { tools: [{ type: 'function', function: { ...tool.function, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` } }] }),
      { maxChatCompletions: 3 },
    );
    await runner.done().catch(() => {});
    return runner.messages.map((message) => message.role);
  },
  async embeddings() {
    const usual = await client.embeddings.create({ model: 'embed-1', input: ['a', 'b'] });
    const floats = await client.embeddings.create({ model: 'embed-1', input: 'a', encoding_format: 'float' });
    return [usual.data.map((row) => Array.from(row.embedding)), floats.data.map((row) => row.embedding)];
  },
  async models() {
    return (await client.models.list()).data.map((one) => one.id);
  },
  async error() {
    const kinds = [await failing(() => plain(ask('Fail'))), await failing(() => streamed(ask('Fail')))];
    return kinds;
  },
  async refused() {
    const other = new OpenAI({ baseURL, apiKey: 'csk_0_wrong', maxRetries: 0 });
    const empty = await failing(() => client.chat.completions.create({ model, messages: [] }));
    return [empty, await failing(() => other.chat.completions.create(ask('x')))];
  },
  async retried() {
    return plain(ask('Try again'), { maxRetries: 2 });
  },
  async timeout() {
    return [await failing(() => plain(ask('Slow'), { timeout: 400 })), await failing(() => streamed(ask('Slow'), { timeout: 400 }))];
  },
  async slow_upstream() {
    return [await failing(() => plain(ask('Slow upstream')))];
  },
  async aborted() {
    const leaving = new AbortController();
    setTimeout(() => leaving.abort(), 400);
    return [await failing(() => plain(ask('Leave'), { signal: leaving.signal }))];
  },
  async left() {
    const stream = await client.chat.completions.create(ask('Leave the stream', { stream: true }));
    for await (const chunk of stream) { if (chunk.choices[0]?.delta?.content) break; }
    return [stream.controller.signal.aborted];
  },
  async cut() {
    return [await failing(() => streamed(ask('Cut')))];
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
