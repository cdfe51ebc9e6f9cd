"use strict";
// What app.js asks of `nmt serve`. A page of `nmt export web` has another file with the same functions.
const backend = {
  async load() {
    try {
      const [languages, settings] = await Promise.all(["languages", "frontend/settings"].map((path) => fetch(path).then((a) => a.json())));
      return { languages, settings };
    } catch {
      throw new Error("The server is not responding");
    }
  },

  async detect(q, signal) { return (await (await this._ask("detect", { q }, signal)).json())[0].language; },

  suggest(body) { return this._ask("suggest", body); },

  // The lines of a response: sentences, each with its text, alternatives and flags.
  async *translate(body, signal) {
    const reader = (await this._ask("translate", { ...body, stream: true, flags: true }, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) yield JSON.parse(line);
    }
  },

  // The response, and the addresses of the files that it names.
  async sendFile(fields, signal) {
    const form = new FormData();
    for (const [name, value] of [...fields, ["api_key", $("key").value]]) form.append(name, value);
    const answer = await fetch("translate_document", { method: "POST", body: form, signal }), found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    const hrefs = [found.translatedFileUrl, found.reviewUrl].filter(Boolean).map(async (url) => {
      const href = `download_file/${url.split("/").pop()}`;
      return $("key").value ? URL.createObjectURL(await (await fetch(href, { headers: this._authorization() })).blob()) : href;
    });
    return { found, hrefs: await Promise.all(hrefs) };
  },

  _authorization: () => ($("key").value ? { Authorization: `Bearer ${$("key").value}` } : {}),

  async _ask(path, body, signal) {
    const headers = { "Content-Type": "application/json", ...this._authorization() };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer;
  },
};
