// Uses an exported page as a reader does, and sends the server what it showed.
import { Translator } from "./nmt.js";

const send = (report) => fetch("result", { method: "POST", body: JSON.stringify(report) });
const until = async (condition) => {
  for (let value; ; await new Promise((resolve) => setTimeout(resolve, 50))) if ((value = await condition())) return value;
};
const blocked = [];

async function visit(text) {
  document.querySelector("iframe")?.remove();
  const frame = document.body.appendChild(document.createElement("iframe"));
  await new Promise((resolve) => { frame.onload = resolve; frame.src = "./"; });
  const page = frame.contentDocument, box = page.getElementById("text");
  page.addEventListener("securitypolicyviolation", (event) => blocked.push(event.blockedURI));
  await until(() => page.querySelector("#source option") || (page.querySelector("#status.error")?.textContent ?? "") !== "");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  await until(() => /^Translated/.test(page.getElementById("status").textContent) || page.querySelector("#status.error"));
  return page.getElementById("output").textContent || page.getElementById("status").textContent;
}

try {
  const lines = await (await fetch("lines.json")).json(), both = await Promise.all([Translator.load("./"), Translator.load("./")]);
  const [texts, others] = await Promise.all(both.map(async (each) => (await each.translate(lines)).map(({ text }) => text)));
  const { kernel } = both[0].about;
  for (const each of both) each.close();
  const typed = await visit("7 8 9");
  await navigator.serviceWorker.ready;
  await send({ leave: true });
  const away = await fetch("lines.json?again", { cache: "no-store" }).then(() => false, () => true);
  const offline = await visit("7 8 9");
  await send({ texts, others, kernel, typed, offline, away, blocked });
} catch (error) {
  await send({ error: `${error.message}\n${error.stack}` });
}
