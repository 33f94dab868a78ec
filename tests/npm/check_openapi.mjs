// Two validators of OpenAPI documents over one document.
// node check_openapi.mjs FOLDER FILE: FOLDER has node_modules.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [folder, file] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = async (name) => import(require.resolve(name));
const { default: SwaggerParser } = await load("@apidevtools/swagger-parser");
const { Validator } = await load("@seriousme/openapi-schema-validator");

const document = JSON.parse(readFileSync(file, "utf8"));
const { valid, errors } = await new Validator().validate(structuredClone(document));
if (!valid) throw new Error(JSON.stringify(errors));
console.log("openapi-schema-validator: valid");
await SwaggerParser.validate(structuredClone(document));
console.log("swagger-parser: valid");
