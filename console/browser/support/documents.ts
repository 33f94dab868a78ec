/** The policy of the guardian, and the documents that only the tests have. */
import { HOSTILE_MARKUP } from "./services";

/** A denial, two modifications with a difference, and an approval. */
export const POLICY = `version: 1
default: allow
rules:
  - id: private-texts
    on: toolCallRequest
    tool: CheckGrammar.*
    decision: deny
    message: Texts stay in the house.
    reason_codes: private_text
  - id: quiet-notifications
    on: toolCallRequest
    tool: SendNotification.*
    decision: modify
    message: Notifications make no sound.
    modify: {set: {body.priority: 2}}
  - id: tweets-need-a-person
    on: toolCallRequest
    tool: PostTweet.*
    decision: approve
    message: A person reads each tweet before it is posted.
    approval: {within: 30m}
  - id: no-addresses
    on: toolCallResult
    decision: modify
    message: Addresses of persons are removed.
    modify: {redact: [{pattern: email}]}
`;

interface Parts {
    name: string;
    description: string;
    version?: string;
    host: string;
    parameters?: string;
    step: string;
    operation: string;
    mapping: string;
}

/** A document of one request. The CLI fills in its checksum. */
export function documentOf(parts: Parts): string {
    return `a2s: 1.1.0
name: ${parts.name}
description: ${JSON.stringify(parts.description)}
domains: [${parts.host}]
version: "${parts.version ?? "1.0.0"}"
checksum: "<calculated_checksum>"
authors: [{name: Browser tests}]
parameters: ${parts.parameters ?? "[]"}
execution:
  type: sequence
  steps:
    - id: ${parts.step}
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: ${parts.name}, version: "1"}
        servers: [{url: "https://${parts.host}"}]
        paths:
${indent(parts.operation, 10)}
${indent(parts.mapping, 6)}
`;
}

function indent(text: string, width: number): string {
    return text.replace(/^(?=.)/gm, " ".repeat(width));
}

/** One request for each of up to 1,000 items. */
export const MANY_SENSORS = documentOf({
    name: "ReadManySensors",
    description: "Reads the present value of each of many sensors",
    host: "sensors.example.com",
    parameters: '[{name: sensors, description: "The numbers of the sensors, such as [1, 2]", type: array}]',
    step: "readSensor",
    operation: `/sensors/{sensor}:
  get:
    parameters: [{name: sensor, in: path, required: true, schema: {type: integer}}]
    responses: {200: {description: The value of the sensor}}`,
    mapping: `for_each: {in: "\${sensors}", as: sensor, max_items: 1000, max_concurrency: 8}
input_mapping: {pathParameters: {sensor: "\${sensor}"}}
output_mapping: {values: "$.value"}
on_error: continue`,
});

/** Texts that do harm where they are not shown as text. The registry refuses invisible characters in them. */
export const HOSTILE = documentOf({
    name: "ReadHostileText",
    description: `${HOSTILE_MARKUP} ${"long ".repeat(20)}`.trim(),
    host: "texts.example.com",
    parameters: `[{name: topic, description: ${JSON.stringify(`${HOSTILE_MARKUP} ${"long ".repeat(150)}`.trim())}, type: string, default: "<b>topic</b>"}]`,
    step: "readText",
    operation: `/texts/{topic}:
  get:
    parameters: [{name: topic, in: path, required: true, schema: {type: string}}]
    responses: {200: {description: The text}}`,
    mapping: `input_mapping: {pathParameters: {topic: "\${topic}"}}
output_mapping: {text: "$.text"}`,
});

/** A request that takes as long as the test wants. */
export const SLOW_REPORT = documentOf({
    name: "WriteSlowReport",
    description: "Writes the report of a quarter, which takes a long time",
    host: "reports.example.com",
    step: "writeReport",
    operation: `/reports:
  get:
    responses: {200: {description: The report}}`,
    mapping: 'output_mapping: {ready: "$.ready"}',
});

/** A request that must not be sent twice. */
export const ORDER_TEA = documentOf({
    name: "OrderTea",
    description: "Orders a pound of tea from the merchant",
    host: "tea.example.com",
    step: "placeOrder",
    operation: `/orders:
  post:
    responses: {200: {description: The order}}`,
    mapping: 'output_mapping: {order: "$.id"}',
});

/** A capability with two versions. */
export const READ_BOOK = ["1.0.0", "1.1.0"].map((version) =>
    documentOf({
        name: "ReadBook",
        description: version === "1.0.0" ? "Reads about a book" : "Reads the title and the length of a book",
        version,
        host: "books.example.com",
        step: "readBook",
        operation: `/books:
  get:
    responses: {200: {description: The book}}`,
        mapping:
            version === "1.0.0"
                ? 'output_mapping: {title: "$.title"}'
                : 'output_mapping: {title: "$.title", pages: "$.pages"}',
    }),
);

export const DOCUMENTS = [MANY_SENSORS, HOSTILE, SLOW_REPORT, ORDER_TEA, ...READ_BOOK];

/** A description of two operations. */
export const OPENAPI = `openapi: 3.0.3
info: {title: Harbour, version: "1.0.0", description: Tides and ships of harbours}
servers: [{url: "https://tides.example.com"}]
paths:
  /harbours/{harbour}/tides:
    get:
      operationId: listTidesOfHarbour
      summary: Lists the tides of a harbour today
      parameters: [{name: harbour, in: path, required: true, schema: {type: string}}]
      responses:
        "200":
          description: The tides
          content: {application/json: {schema: {type: object, properties: {tides: {type: array, items: {type: string}}}}}}
  /harbours/{harbour}/ships:
    get:
      operationId: listShipsOfHarbour
      summary: Lists the ships that lie in a harbour
      parameters: [{name: harbour, in: path, required: true, schema: {type: string}}]
      responses:
        "200":
          description: The ships
          content: {application/json: {schema: {type: object, properties: {ships: {type: array, items: {type: string}}}}}}
`;
