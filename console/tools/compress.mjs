/** Compresses the built files. The program carries only the compressed ones. */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { constants, gzipSync } from "node:zlib";

let total = 0;

function compress(folder) {
    for (const name of readdirSync(folder).sort()) {
        const path = join(folder, name);
        if (statSync(path).isDirectory()) {
            compress(path);
        } else if (!name.endsWith(".gz")) {
            const packed = gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION });
            writeFileSync(`${path}.gz`, packed);
            rmSync(path);
            total += packed.length;
            console.log(`${packed.length.toString().padStart(7)}  ${path}.gz`);
        }
    }
}

compress("dist");
console.log(`${total.toString().padStart(7)}  in all`);
