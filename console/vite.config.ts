import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const server = process.env["A2S_URL"] ?? "http://127.0.0.1:8740";
const token = process.env["A2S_TOKEN"];
const proxied = {
    target: server,
    changeOrigin: true,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
};

/** The SDK is built in from its source: the console has no other client. */
export const SDK = fileURLToPath(new URL("../sdk/typescript/src/index.ts", import.meta.url));

export default defineConfig({
    plugins: [svelte()],
    resolve: {
        alias: { "@a2s/core": SDK },
    },
    build: {
        target: "es2022",
        assetsDir: "assets",
        // The content security policy allows no inline files but pictures.
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
    },
    server: {
        proxy: {
            "/v1": proxied,
            "/session": proxied,
            "/docs": proxied,
            "/errors": proxied,
            "/openapi.json": proxied,
        },
    },
});
