// The page: what is typed goes to the translator, in a worker where the browser allows one.
"use strict";

(() => {
  const DELAY_MILLISECONDS = 120; // of a translation after the last key
  const element = (id) => document.getElementById(id);
  const source = element("source");
  const target = element("target");
  const status = element("status");
  const tag = element("tag");
  const copy = element("copy");
  const data = JSON.parse(element("data").textContent);
  let send = () => {};
  let newest = 0;
  let lines = [];
  let known = new Map(); // translations of the lines of the newest text
  let timer = 0;
  let frame = 0;

  function showModel() {
    const [from, into] = data.languages;
    const [fromCode, intoCode] = data.codes;
    element("name").textContent = data.name;
    if (from) element("source-label").textContent = from;
    if (into) element("target-label").textContent = into;
    if (fromCode) source.lang = fromCode;
    if (intoCode) target.lang = intoCode;
    const tags = Object.entries(data.tags);
    tag.append(...tags.map(([name, { label }]) => new Option(label, name, false, name === data.decoding.tag)));
    element("tag").hidden = element("tag-label").hidden = tags.length === 0;
  }

  /** Start a worker; if the browser refuses, translate here, in slices. */
  function start() {
    try {
      const code = `${element("engine").textContent}\nserveWorker(self);`;
      const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
      worker.onmessage = ({ data: answer }) => receive(answer);
      worker.onerror = (event) => {
        event.preventDefault();
        worker.terminate();
        startHere();
      };
      const { buffer } = bytesOf(element("weights").textContent);
      worker.postMessage({ data, buffer }, [buffer]);
      send = (message) => worker.postMessage(message);
    } catch {
      startHere();
    }
  }

  function startHere() {
    const runner = new Runner(new Translator(data, bytesOf(element("weights").textContent).buffer), receive);
    send = (message) => runner.translate(message);
    receive({ isReady: true });
    translate();
  }

  const keyOf = (line) => `${tag.value}\n${line}`;

  function translate() {
    newest += 1;
    lines = source.value.split("\n");
    known = new Map(lines.map(keyOf).flatMap((key) => (known.has(key) ? [[key, known.get(key)]] : [])));
    // A screen reader waits until the translation is complete.
    target.setAttribute("aria-busy", "true");
    status.textContent = source.value.trim() ? "Translating…" : "Ready";
    show();
    send({ id: newest, lines, tag: tag.value || null });
  }

  /** Show translations before the next picture: a long text would be drawn again for each line. */
  function showSoon() {
    if (frame === 0) frame = requestAnimationFrame(show);
  }

  function show() {
    frame = 0;
    target.textContent = lines.map((line) => known.get(keyOf(line)) ?? (line.trim() ? "…" : "")).join("\n");
  }

  function receive(answer) {
    if (answer.isReady) {
      status.textContent = "Ready";
      return;
    }
    if (answer.id !== newest) return;
    if (answer.error !== undefined) {
      status.textContent = `This text cannot be translated: ${answer.error}`;
      target.removeAttribute("aria-busy");
    } else if (answer.isDone) {
      show();
      status.textContent = "Ready";
      target.removeAttribute("aria-busy");
      copy.disabled = !target.textContent.trim();
    } else {
      known.set(keyOf(lines[answer.number]), answer.text);
      showSoon();
    }
  }

  async function copyTranslation() {
    try {
      await navigator.clipboard.writeText(target.textContent);
      status.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(target);
      status.textContent = "Selected: copy with the keyboard";
    }
  }

  source.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(translate, DELAY_MILLISECONDS);
  });
  tag.addEventListener("change", translate);
  copy.addEventListener("click", copyTranslation);
  showModel();
  start();
  if (source.value) translate(); // a browser may restore text when it opens the page again
})();
