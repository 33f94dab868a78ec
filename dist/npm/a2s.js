#!/usr/bin/env node
// Starts the program of the platform package that npm installed beside this package.
"use strict";

const { spawn } = require("node:child_process");
const { optionalDependencies } = require("./package.json");

/** The packages whose program runs here, best first. */
function findCandidates() {
  const name = `@a2s/cli-${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return [name];
  // The musl build is static: it runs with every C library.
  const isGlibc = process.report.getReport().header.glibcVersionRuntime !== undefined;
  return isGlibc ? [name, `${name}-musl`] : [`${name}-musl`];
}

/** The path of the program, or undefined. */
function findProgram(candidates) {
  const file = process.platform === "win32" ? "a2s.exe" : "a2s";
  for (const name of candidates) {
    try {
      return require.resolve(`${name}/${file}`);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  return undefined;
}

/** Prints what happened and what to do, and ends with the code of a shell that finds no program. */
function fail(...lines) {
  console.error(["error: " + lines[0], ...lines.slice(1)].join("\n"));
  process.exit(127);
}

const candidates = findCandidates();
const program = findProgram(candidates);
if (program === undefined) {
  const published = candidates.filter((name) => name in optionalDependencies);
  if (published.length === 0) {
    fail(
      `@a2s/cli has no program for this platform: ${candidates.join(", ")} does not exist.`,
      `There are programs in: ${Object.keys(optionalDependencies).join(", ")}.`,
      "Build A2S from source with Rust for other platforms.",
    );
  }
  fail(
    `the package ${published[0]}, which has the program for this platform, is not installed.`,
    "npm leaves it out with `--omit=optional`, and when node_modules comes from another platform.",
    "Install again on this machine, with optional dependencies: npm install --include=optional @a2s/cli",
  );
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// A terminal sends Ctrl-C to the child as well. Two of them would end a service without its shutdown.
const onTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !onTerminal) child.kill(signal);
  });
}

child.on("error", (error) => fail(`${program} cannot be started: ${error.message}.`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends in the same way, so that the caller sees the signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
