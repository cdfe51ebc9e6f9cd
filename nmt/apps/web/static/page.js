// The page: translates at each pause in typing, with the model beside it.
import { Translator } from "./nmt.js";

const $ = (id) => document.getElementById(id);
const PAUSE = 200; // ms without a keystroke before a translation
let translator = null, busy = false, wanted = null, timer = 0;

const stored = (name, value) => {
  try {
    if (value === undefined) return localStorage.getItem(name) || "";
    localStorage.setItem(name, value);
  } catch { /* the browser stores nothing */ }
  return "";
};

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light mode" : "Dark mode"; // what a click turns on
}

function say(message, isError = false) {
  $("status").textContent = message;
  $("status").classList.toggle("error", isError);
}

function show({ text, finished = true, truncated = false, loop_retried: retried = false, alternatives = [] }) {
  $("output").textContent = text;
  $("copy").disabled = !text;
  const flags = [!finished && "The translation was cut at its maximum length.", truncated && "The end of a long sentence is not translated.",
    retried && "The model repeated itself, so it translated again."].filter(Boolean);
  $("flags").textContent = flags.join(" ");
  $("flags").hidden = !flags.length;
  $("others").hidden = !alternatives.length;
  $("alternatives").replaceChildren(...alternatives.map((each) => {
    const item = document.createElement("li");
    item.textContent = each.text;
    return item;
  }));
}

// One translation at a time, always of the latest text.
async function translate() {
  if (!translator) return;
  wanted = $("text").value;
  if (busy) return;
  busy = true;
  while (wanted !== null) {
    const text = wanted;
    wanted = null;
    $("output").classList.add("waiting");
    const start = performance.now();
    try {
      show(await translator.translate(text));
      say(text.trim() ? `${((performance.now() - start) / 1000).toFixed(2)} s` : "");
    } catch (error) {
      say(error.message, true);
    }
    $("output").classList.remove("waiting");
  }
  busy = false;
}

function changed(wait = PAUSE) {
  const area = $("text");
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
  $("count").textContent = area.value ? [...area.value].length.toLocaleString("en") : "";
  clearTimeout(timer);
  timer = setTimeout(translate, wait);
}

async function start() {
  try {
    translator = await Translator.load("./", {
      onProgress: (bytes, total) => say(`Loading the model … ${Math.round((100 * bytes) / total)}% of ${(total / 1e6).toFixed(1)} MB`),
    });
  } catch (error) {
    say(error.message, true);
    return;
  }
  const { name, license, card, src, tgt, kernel } = translator.about;
  document.title = $("title").textContent = `${src.name} → ${tgt.name}`;
  $("text").lang = src.code;
  $("output").lang = tgt.code;
  $("about").textContent = `${name} (${license ? `license: ${license}` : "no license is named"}); computed with ${kernel}`;
  $("card").textContent = card.replace(/^---\n.*?\n---\n/s, "");
  say("");
  changed(0);
}

setTheme(stored("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").onclick = () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  stored("theme", document.documentElement.dataset.theme);
};
$("text").oninput = () => changed();
$("clear").onclick = () => {
  $("text").value = "";
  changed(0);
  $("text").focus();
};
$("copy").onclick = () => navigator.clipboard.writeText($("output").textContent).then(() => say("Copied"), () => say("This browser does not let pages copy", true));
addEventListener("keydown", (event) => event.altKey && event.code === "KeyC" && ($("copy").click(), event.preventDefault()));
navigator.serviceWorker?.register("sw.js").catch(() => {}); // without it, the page only works online
start();
