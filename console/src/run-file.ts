import { mount } from "svelte";
import "./ui/tokens.css";
import "./ui/base.css";
import type { RunFile } from "./model/run-file";
import RunFilePage from "./views/RunFilePage.svelte";

/** Returns the only element with an id. A page with two was changed: one of them could show a forged run. */
function only(id: string): Element {
    const [element, ...others] = document.querySelectorAll(`#${id}`);
    if (element === undefined || others.length > 0) {
        throw new Error(`the page does not have exactly one element ${id}`);
    }
    return element;
}

const target = only("app");
const data = only("run").textContent ?? "";
const file: RunFile = JSON.parse(data);
target.replaceChildren();
document.title = `${file.run.name} ${file.run.status} · A2S`;
mount(RunFilePage, { target, props: { file } });
