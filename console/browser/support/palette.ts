/** Makes pictures of pages small: a PNG of a browser has 32 bits for each of a few hundred colours. */
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const MAX_COLORS = 256;

interface Picture {
    width: number;
    height: number;
    /** The colours of the pixels, as 0xRRGGBB. */
    pixels: Uint32Array;
}

/** Returns the same picture with at most 256 colours: rare ones become the nearest of these. */
export function withPalette(png: Buffer): Buffer {
    const { width, height, pixels } = decode(png);
    const counts = new Map<number, number>();
    for (const color of pixels) {
        counts.set(color, (counts.get(color) ?? 0) + 1);
    }
    const palette = choosePalette(counts);
    const indexes = new Map([...counts.keys()].map((color) => [color, nearest(color, palette)]));
    const rows = Buffer.alloc((width + 1) * height);
    for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) {
            rows[y * (width + 1) + 1 + x] = indexes.get(pixels[y * width + x] ?? 0) ?? 0;
        }
    }
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width, 0);
    header.writeUInt32BE(height, 4);
    // 8 bits, a palette, and the defaults.
    header.set([8, 3, 0, 0, 0], 8);
    const table = Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
    const parts = [
        chunk("IHDR", header),
        chunk("PLTE", table),
        chunk("IDAT", deflateSync(rows, { level: 9 })),
        chunk("IEND", Buffer.alloc(0)),
    ];
    return Buffer.concat([SIGNATURE, ...parts]);
}

/** Chooses one colour after the other: the one that the colours so far would show worst. */
function choosePalette(counts: Map<number, number>): number[] {
    const open = [...counts].map(([color, count]) => ({ color, count, distance: 3 * 255 ** 2 }));
    const palette: number[] = [];
    while (palette.length < Math.min(MAX_COLORS, counts.size)) {
        const worst = open.reduce((a, b) => (b.count * b.distance > a.count * a.distance ? b : a));
        palette.push(worst.color);
        for (const one of open) {
            one.distance = Math.min(one.distance, distanceOf(one.color, worst.color));
        }
    }
    return palette;
}

function nearest(color: number, palette: number[]): number {
    return palette.reduce(
        (best, other, at) => (distanceOf(color, other) < distanceOf(color, palette[best] ?? 0) ? at : best),
        0,
    );
}

function distanceOf(a: number, b: number): number {
    const [red, green, blue] = [
        (a >> 16) - (b >> 16),
        ((a >> 8) & 255) - ((b >> 8) & 255),
        (a & 255) - (b & 255),
    ];
    return red ** 2 + green ** 2 + blue ** 2;
}

function chunk(type: string, data: Buffer): Buffer {
    const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
    const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    checksum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, checksum]);
}

/** Reads a PNG of a browser: 8 bits, with or without transparency, not interlaced. */
function decode(png: Buffer): Picture {
    const parts: Buffer[] = [];
    let [width, height, size] = [0, 0, 4];
    for (let at = SIGNATURE.length; at < png.length; ) {
        const length = png.readUInt32BE(at);
        const type = png.toString("latin1", at + 4, at + 8);
        const data = png.subarray(at + 8, at + 8 + length);
        if (type === "IHDR") {
            [width, height, size] = [data.readUInt32BE(0), data.readUInt32BE(4), data[9] === 2 ? 3 : 4];
        } else if (type === "IDAT") {
            parts.push(data);
        }
        at += length + 12;
    }
    const bytes = inflateSync(Buffer.concat(parts));
    const stride = width * size;
    const pixels = new Uint32Array(width * height);
    let above = new Uint8Array(stride);
    for (let y = 0; y < height; y += 1) {
        const start = y * (stride + 1);
        const row = unfilter(bytes[start] ?? 0, bytes.subarray(start + 1, start + 1 + stride), above, size);
        for (let x = 0; x < width; x += 1) {
            const [red = 0, green = 0, blue = 0] = row.subarray(x * size, x * size + 3);
            pixels[y * width + x] = (red << 16) | (green << 8) | blue;
        }
        above = row;
    }
    return { width, height, pixels };
}

/** Takes the filter of a row back: it states how each byte differs from those before and above it. */
function unfilter(kind: number, row: Uint8Array, above: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
    const result = new Uint8Array(row.length);
    for (let at = 0; at < row.length; at += 1) {
        const left = at < size ? 0 : (result[at - size] ?? 0);
        const corner = at < size ? 0 : (above[at - size] ?? 0);
        const up = above[at] ?? 0;
        const expected = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][kind] ?? 0;
        result[at] = (row[at] ?? 0) + expected;
    }
    return result;
}

function paeth(left: number, up: number, corner: number): number {
    const guess = left + up - corner;
    const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
    return a <= b && a <= c ? left : b <= c ? up : corner;
}
