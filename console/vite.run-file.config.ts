import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { SDK } from "./vite.config.ts";

/** The page of a run as a file: one script and one style sheet, which `tools/inline.mjs` puts into the page. */
export default defineConfig({
    plugins: [svelte()],
    resolve: { alias: { "@a2s/core": SDK } },
    publicDir: false,
    build: {
        target: "es2022",
        outDir: "dist/run-file",
        assetsInlineLimit: 0,
        modulePreload: false,
        cssCodeSplit: false,
        rollupOptions: {
            input: "run-file.html",
            output: { entryFileNames: "script.js", assetFileNames: "style.[ext]" },
        },
    },
});
