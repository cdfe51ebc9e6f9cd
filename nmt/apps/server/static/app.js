"use strict";
// The page of `nmt serve` and `nmt export web`: asks backend.js at each pause in typing, and shows the response sentence by
// sentence.
const $ = (id) => document.getElementById(id);
const [source, target, text, output, echo] = ["source", "target", "text", "output", "echo"].map($);
const PAUSE = 250; // ms without a keystroke before a request
const UNSURE = 0.4; // words with a lower probability are marked
const SHORT = 400; // maximum characters for which alternatives are requested
const AUTO = "auto";
let languages = [], glossaries = [], flags = {}, terms = {}, limit = 0, running = null, sending = null, timer = 0, units = [], detected = "";

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

function nameOf(code) {
  const known = languages.find((language) => language.code === code);
  try {
    const name = new Intl.DisplayNames(["en"], { type: "language" }).of(code);
    if (name && name !== code) return name;
  } catch { /* the browser does not know this code */ }
  return known ? known.name : code;
}

function fill(select, codes, chosen) {
  select.replaceChildren(...codes.map((code) => new Option(code === AUTO ? "Detect" : nameOf(code), code)));
  select.value = codes.includes(chosen) ? chosen : codes[0];
}

const sources = () => languages.filter((language) => language.targets.length);
const sourceCode = () => (source.value === AUTO ? detected : source.value);

function fillTargets(chosen) {
  const own = languages.find((language) => language.code === sourceCode());
  const all = own ? own.targets : [...new Set(sources().flatMap((language) => language.targets))];
  fill(target, all, chosen || target.value);
  $("glossary-box").hidden = !obeysTerms();
  const back = languages.find((language) => language.code === target.value);
  $("swap").disabled = !back || !back.targets.length;
}

function swap() {
  if ($("swap").disabled) return;
  const [from, into] = [sourceCode() || sources()[0].code, target.value];
  const translated = units.map((unit) => unit.before + unit.text + unit.after).join("");
  source.value = into;
  fillTargets(from);
  if (translated) text.value = translated;
  changed(0);
}

function changed(wait = PAUSE) {
  const size = [...text.value].length;
  $("count").textContent = limit ? `${size.toLocaleString("en")} / ${limit.toLocaleString("en")}` : String(size);
  mark([]);
  clearTimeout(timer);
  if (running) running.abort();
  running = null;
  if (!languages.length) return; // still loading, or an error that must stay
  if (!text.value.trim()) {
    show([]);
    say("");
    detected = "";
    fillTargets();
  } else if (limit && size > limit) {
    say(`Too long: at most ${limit.toLocaleString("en")} characters`, true);
  } else {
    timer = setTimeout(translate, wait);
  }
}

// Models follow a glossary if the server says so: by training, or because its engine can require terms.
const obeysTerms = () => glossaries.some(([from, into]) => into === target.value && [from, AUTO].includes(source.value));

function readTerms() {
  const found = new Map(), faults = [];
  for (const [index, line] of $("glossary").value.split(/\r\n|\r|\n/).entries()) {
    if (!line.trim() || line.startsWith("#")) continue;
    const [before, after] = line.includes("\t") ? line.split("\t") : line.split(/=(.*)/s);
    const [term, translation] = [before, after || ""].map((cell) => cell.trim().replace(/\s+/g, " "));
    if (!term || !translation) faults.push(`line ${index + 1}: write a term, a tab or =, and its translation`);
    else if (found.has(term) && found.get(term) !== translation) faults.push(`line ${index + 1}: ${term} has two translations`);
    else found.set(term, translation);
  }
  terms = Object.fromEntries(found);
  $("glossary-status").textContent = faults.length ? `Left out: ${faults.join("; ")}` : found.size ? `Terms: ${found.size}` : "";
  $("glossary-status").classList.toggle("error", faults.length > 0);
  stored("glossary", $("glossary").value);
}

async function readTermsFile() {
  const [file] = $("glossary-file").files;
  if (!file) return;
  $("glossary").value = await file.text();
  readTerms();
  changed(0);
}

// Not every target is one of the detected language: offers those that are. Returns a note if the chosen one is not.
async function detect(q, signal) {
  const all = sources().map((language) => language.targets.join());
  if (source.value !== AUTO || all.every((targets) => targets === all[0])) return "";
  detected = await backend.detect(q, signal);
  const chosen = target.value;
  fillTargets(chosen);
  if ([target.value, detected].includes(chosen)) return "";
  return ` into ${nameOf(target.value)}: no model translates it into ${nameOf(chosen)}`;
}

// What the flags of a text say, as the server words it.
function warn(id, parts) {
  const said = Object.entries(flags).flatMap(([name, meaning]) => {
    const values = parts.flatMap((part) => (part && part[name]) || []);
    const missing = [...new Set(values.filter((value) => value !== true))];
    return values.length ? [missing.length ? `${meaning}: ${missing.join(", ")}` : meaning] : [];
  });
  $(id).textContent = said.length ? `Check the translation: ${said.join("; ")}.` : "";
  $(id).hidden = !said.length;
}

async function translate() {
  const request = (running = new AbortController());
  const q = text.value, found = [];
  const alternatives = q.length <= SHORT ? 3 : 0;
  output.classList.add("waiting");
  try {
    const note = await detect(q, request.signal);
    const body = { q, source: source.value, target: target.value, details: true, alternatives, ...(obeysTerms() && { glossary: terms }) };
    for await (const line of backend.translate(body, request.signal)) {
      if (line.error) throw new Error(line.error);
      if (line.detectedLanguage) detected = line.detectedLanguage.language;
      if (line.text !== undefined) {
        found.push(line);
        show(found);
      }
    }
    show(found);
    const missed = found.flatMap((line) => line.terms_missed || []).map((term) => term.join(" = "));
    const done = source.value === AUTO ? `Translated from ${nameOf(detected)}${note}` : "Translated";
    say(missed.length ? `${done}, without ${[...new Set(missed)].join(", ")}` : done);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message || "The server is not responding", true);
  } finally {
    if (running === request) output.classList.remove("waiting");
  }
}

function show(found) {
  units = found;
  output.lang = target.value;
  text.lang = sourceCode();
  output.replaceChildren(...found.flatMap(nodesOf));
  warn("flags", found.map((unit) => unit.flags));
  const memory = found.length && found[0].memory;
  $("memory").textContent = memory
    ? `Translation memory, ${Math.floor(100 * memory.similarity)}% similar: ${memory.source} → ${memory.target}` : "";
  $("memory").hidden = !memory;
  const sizes = found.map((unit) => (unit.expected_chrf === undefined ? 0 : unit.text.length + 1));
  const expected = found.reduce((sum, unit, number) => sum + (sizes[number] && sizes[number] * unit.expected_chrf), 0);
  const size = sizes.reduce((sum, each) => sum + each, 0);
  $("expected").textContent = size ? `Expected quality: ${Math.round(expected / size)} of 100 (chrF)` : "";
  $("expected").hidden = !size;
  $("legend").hidden = !found.some((unit) => unit.details);
  const others = found.length === 1 ? found[0].alternatives : [];
  $("alternatives").replaceChildren(...others.filter((other) => other !== found[0].text).map(choice));
  $("others").hidden = !$("alternatives").childElementCount;
  $("copy").disabled = $("suggest").disabled = !found.length;
  $("correction").value = found.map((unit) => unit.before + unit.text + unit.after).join("");
  $("correction").lang = target.value;
}

function nodesOf(unit, number) {
  if (!unit.details) return [unit.before + unit.text + unit.after];
  const words = unit.details.target.map((word, index) => {
    const span = document.createElement("span");
    span.className = "word";
    span.textContent = word;
    if (unit.details.confidence[index] < UNSURE) {
      span.classList.add("unsure");
      span.title = `The model's confidence in this word: ${Math.round(100 * unit.details.confidence[index])}%`;
    }
    span.dataset.unit = number;
    span.dataset.index = index;
    return span;
  });
  return [unit.before, ...words, unit.after];
}

function choice(other) {
  const item = document.createElement("li"), button = document.createElement("button");
  button.type = "button";
  button.lang = target.value;
  button.dir = "auto";
  button.textContent = other;
  button.addEventListener("click", () => {
    const [unit] = units;
    const alternatives = [unit.text, ...unit.alternatives.filter((each) => each !== other)];
    show([{ ...unit, text: other, alternatives, details: undefined, flags: undefined, expected_chrf: undefined }]);
    $("output").focus();
  });
  item.append(button);
  return item;
}

// Highlights source words of a unit behind the text: [unit number, word numbers].
function mark(linked) {
  const [number, words] = linked;
  echo.dir = getComputedStyle(text).direction;
  if (number === undefined || !units[number].details) {
    echo.textContent = text.value + "\n";
    return;
  }
  const unitText = (unit) => (unit.details ? unit.details.source.join("") : null);
  let start = 0;
  for (let each = 0; each <= number; each++) {
    const own = unitText(units[each]);
    start = own === null ? -1 : text.value.indexOf(own, start);
    if (start < 0) return;
    if (each < number) start += own.length;
  }
  const nodes = [text.value.slice(0, start)];
  for (const [index, word] of units[number].details.source.entries()) {
    if (words.includes(index)) {
      const node = document.createElement("mark");
      node.textContent = word.trimEnd();
      nodes.push(node, word.slice(word.trimEnd().length));
    } else {
      nodes.push(word);
    }
    start += word.length;
  }
  echo.replaceChildren(...nodes, text.value.slice(start) + "\n");
}

function point(span) {
  for (const each of output.querySelectorAll(".linked")) each.classList.remove("linked");
  if (!span) return mark([]);
  span.classList.add("linked");
  const { unit, index } = span.dataset;
  const links = units[unit].details.links.filter((link) => link[1] === Number(index));
  const words = links.map((link) => link[0]);
  mark([Number(unit), words]);
  return words.map((word) => units[unit].details.source[word].trim());
}

// Arrow keys select words as pointing with the mouse does.
function step(event) {
  const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!way || event.altKey || event.ctrlKey || event.metaKey) return;
  const words = [...output.querySelectorAll(".word")];
  const next = words[words.findIndex((word) => word.classList.contains("linked")) + way];
  if (!next) return;
  event.preventDefault();
  const from = point(next);
  say(`${next.textContent.trim()}: ${from.join(" ") || "from no single word"}`);
}

async function copy() {
  const whole = output.textContent;
  if (!whole) return;
  try {
    await navigator.clipboard.writeText(whole);
    say("Copied");
  } catch { // not a secure context, or not allowed: select the text, so that Ctrl+C copies it
    getSelection().selectAllChildren(output);
    say("Selected: press Ctrl+C to copy");
  }
}

// Sends a document, and shows links to what comes back, or the error; returns the response.
async function sendFile(status, file, fields) {
  const tell = (...nodes) => $(status).replaceChildren(...nodes);
  if (sending) sending.abort();
  sending = new AbortController();
  tell(`Working on ${file.name} …`);
  try {
    const { found, hrefs } = await backend.sendFile([["source", source.value], ["target", target.value], ["file", file], ...fields], sending.signal);
    const names = [`.${target.value}$1`, `.${target.value}.review.${$("review").value}`];
    tell(...hrefs.map((href, index) => {
      const link = document.createElement("a");
      link.href = href;
      link.download = file.name.replace(/(\.[^.]*)$/, names[index]);
      link.textContent = `Download the ${["translation", "list of the translations"][index]} of ${file.name}`;
      return link;
    }));
    return found;
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message || "The server is not responding");
    return {};
  }
}

async function translateFile() {
  const [file] = $("file").files, review = $("review").value;
  if (!file) return;
  warn("file-flags", []);
  const fields = review ? [["review", review]] : [];
  const lines = Object.entries(terms).map((term) => term.join("\t"));
  if (lines.length && obeysTerms()) fields.push(["glossary", lines.join("\n")]);
  const found = await sendFile("file-status", file, fields);
  const missed = (found.terms_missed || []).map((term) => term.join(" = "));
  warn("file-flags", [found.flags]);
  if (missed.length) $("file-status").append(`Without ${[...new Set(missed)].join(", ")}`);
  if (review && found.translatedFileUrl && !found.reviewUrl) $("file-status").append("Nothing was to translate, so there is no list");
}

async function applyList() {
  const [[file], [list]] = ["original", "reviewed"].map((id) => $(id).files);
  if (file && list) await sendFile("apply-status", file, [["reviewed", list]]);
  else $("apply-status").textContent = "Choose the document and its list";
}

async function suggest() {
  try {
    const done = await backend.suggest({ q: text.value, s: $("correction").value, source: sourceCode(), target: target.value });
    say(typeof done === "string" ? done : "Thank you for the correction");
    offer();
  } catch (error) {
    say(error.message || "The server is not responding", true);
  }
}

// Offers the corrections that the page keeps itself, as a file.
function offer() {
  const collected = backend.collected?.() || null;
  $("collected-row").hidden = !collected;
  if (!collected) return;
  URL.revokeObjectURL($("collected").href);
  $("collected").href = URL.createObjectURL(new Blob([collected.tmx], { type: "application/x-tmx+xml" }));
  $("collected").textContent = `Save the corrections on this device as a TMX file (${collected.count})`;
}

async function start() {
  setTheme(stored("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  $("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    stored("theme", theme);
    setTheme(theme);
  });
  $("key").value = stored("key");
  $("key").addEventListener("input", () => { stored("key", $("key").value); changed(); });
  for (const id of ["file", "review"]) $(id).addEventListener("change", translateFile);
  $("apply").addEventListener("click", applyList);
  text.addEventListener("input", () => changed());
  source.addEventListener("change", () => { fillTargets(); changed(0); });
  target.addEventListener("change", () => { fillTargets(); changed(0); });
  $("glossary").value = stored("glossary");
  $("glossary").addEventListener("input", () => { readTerms(); changed(); });
  $("glossary-file").addEventListener("change", readTermsFile);
  readTerms();
  $("swap").addEventListener("click", swap);
  $("copy").addEventListener("click", copy);
  $("suggest").addEventListener("click", suggest);
  $("forget").addEventListener("click", () => { backend.forget(); offer(); });
  $("clear").addEventListener("click", () => { text.value = ""; changed(0); text.focus(); });
  for (const kind of ["mouseover", "click"]) {
    output.addEventListener(kind, (event) => point(event.target.closest(".word")));
  }
  output.addEventListener("mouseleave", () => point(null));
  output.addEventListener("blur", () => point(null));
  output.addEventListener("keydown", step);
  document.addEventListener("keydown", (event) => {
    const action = { KeyS: swap, KeyC: copy }[event.code];
    if (event.altKey && !event.ctrlKey && !event.metaKey && action) {
      event.preventDefault();
      action();
    }
  });
  try {
    const { languages: listed, settings } = await backend.load(say);
    languages = listed;
    limit = Math.max(0, settings.charLimit);
    glossaries = settings.glossaryDirections;
    flags = settings.flags;
    $("documents").hidden = !settings.filesTranslation;
    $("correction-box").hidden = !settings.suggestions;
    if (backend.collected) $("correction-label").textContent = "The translation as it should be; it stays on this device until you save it";
    offer();
    $("file").accept = $("original").accept = settings.supportedFilesFormat.join(",");
    $("key-row").hidden = !settings.keyRequired;
    const codes = sources().map((language) => language.code);
    const isDetected = codes.length > 1 && settings.detects !== false;
    fill(source, isDetected ? [AUTO, ...codes] : codes, isDetected ? AUTO : codes[0]);
    fillTargets(settings.language.target.code);
    changed(0);
  } catch (error) {
    say(error.message, true);
  }
}

start();
