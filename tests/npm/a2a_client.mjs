// The official client of A2A against an agent: it finds the card, sends, streams, goes away, gets,
// follows and cancels: a2a_client.mjs FOLDER TOLD, which is JSON with `url`, `token`, `versions` and
// what to say: `quick`, `slow`, `asks`, `answer`. Prints what it saw of each version, as JSON.

import { pathToFileURL } from "node:url";

const [folder, told] = process.argv.slice(2);
const load = (path) =>
  import(pathToFileURL(`${folder}/node_modules/@a2a-js/sdk/dist/${path}/index.js`));
const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } =
  await load("client");
const { Role, TaskState } = await load(".");
const { url, token, versions, quick, slow, asks, answer } = JSON.parse(told);

const fetchImpl = (to, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${token}`);
  return fetch(to, { ...init, headers });
};
const legacyCompat = { enabled: true };
const cardResolver = new DefaultAgentCardResolver({ fetchImpl, legacyCompat });
const transports = [new JsonRpcTransportFactory({ fetchImpl, legacyCompat })];
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports, cardResolver }),
);

const state = (task) => TaskState[task.status.state].replace("TASK_STATE_", "");
const ask = (text, more = {}, configuration) => ({
  message: {
    messageId: crypto.randomUUID(),
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text } }],
    ...more,
  },
  configuration,
});

async function talk(card, version) {
  const supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolVersion === version,
  );
  const client = await factory.createFromAgentCard({ ...card, supportedInterfaces });
  const saw = { spoken: client.protocolVersion };

  const sent = await client.sendMessage(ask(quick));
  saw.sent = state(sent);
  saw.artifact = sent.artifacts[0].parts[0].content;

  const kinds = [];
  let last;
  for await (const { payload } of client.sendMessageStream(ask(quick))) {
    kinds.push(payload.$case);
    last = payload.value;
  }
  saw.streamed = [kinds[0], kinds.at(-1), state(last)];
  saw.got = state(await client.getTask({ id: sent.id }));

  const asked = await client.sendMessage(ask(asks));
  saw.asked = state(asked);
  const within = { taskId: asked.id, contextId: asked.contextId };
  const confirms = await client.sendMessage(ask(answer, within));
  saw.confirms = state(confirms);
  const answered = await client.sendMessage(ask("yes", within));
  saw.answered = [state(answered), answered.id === asked.id];

  // It goes away in the middle of a stream, comes back, and hears of the end.
  const away = new AbortController();
  let begun;
  try {
    for await (const { payload } of client.sendMessageStream(ask(slow), { signal: away.signal })) {
      // What has come along with the first event is read, too.
      begun ??= payload.value;
      away.abort();
    }
  } catch (error) {
    saw.left = error.name;
  }
  const followed = client.resubscribeTask({ id: begun.id });
  const first = await followed.next();
  saw.followed = first.value.payload.$case;
  saw.cancelled = state(await client.cancelTask({ id: begun.id }));
  for await (const { payload } of followed) last = payload.value;
  saw.ended = state(last);

  const refused = async (call) => {
    try {
      await call();
    } catch (error) {
      return error.name;
    }
  };
  saw.unknown = await refused(() => client.getTask({ id: "no-such-task" }));
  saw.over = await refused(() => client.cancelTask({ id: begun.id }));
  return saw;
}

const card = await cardResolver.resolve(url);
const saw = { name: card.name, skills: card.skills.map((skill) => skill.id) };
for (const version of versions) saw[version] = await talk(card, version);
console.log(JSON.stringify(saw));
