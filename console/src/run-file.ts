import { mount } from "svelte";
import "./ui/tokens.css";
import "./ui/base.css";
import type { RunFile } from "./model/run-file";
import RunFilePage from "./views/RunFilePage.svelte";

const target = document.getElementById("app");
const data = document.getElementById("run")?.textContent;
if (target === null || !data) {
    throw new Error("the page has no run");
}
const file: RunFile = JSON.parse(data);
target.replaceChildren();
document.title = `${file.run.name} ${file.run.status} · A2S`;
mount(RunFilePage, { target, props: { file } });
