/**
 * Puts script and style into the page of a run as a file. Its policy allows exactly these two by their
 * digests: what is in the data of a run cannot run, and nothing is loaded. The program replaces RUN_DATA.
 */
import { createHash } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";

const folder = "dist/run-file";
const read = (name) => readFileSync(`${folder}/${name}`, "utf8");
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
// The end tags of these elements end them, wherever they are.
const script = read("script.js").replaceAll("</script", "<\\/script");
const style = read("style.css").replaceAll("</style", "<\\/style");
const policy = `default-src 'none'; script-src ${digest(script)}; style-src ${digest(style)}; base-uri 'none'; form-action 'none'`;

const page = read("run-file.html")
    .replace(/<script [^>]*src=[^>]*><\/script>\s*/, "")
    .replace(/<link [^>]*stylesheet[^>]*>\s*/, "")
    .replace(
        "<title>",
        () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />\n    <title>`,
    )
    .replace("</head>", () => `<style>${style}</style>\n  </head>`)
    .replace(
        "</body>",
        () =>
            `<script type="application/json" id="run">RUN_DATA</script>\n    <script type="module">${script}</script>\n  </body>`,
    );
rmSync(folder, { recursive: true });
writeFileSync("dist/run.html", page);
console.log(`${page.length.toString().padStart(7)}  dist/run.html`);
