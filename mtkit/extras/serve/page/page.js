// The page of `mtkit serve`. Text of people and of models becomes text nodes, never HTML.

const PAUSE_MILLISECONDS = 400;
const ALTERNATIVES = 3;
const AUTO = "auto"; // the language is detected

const element = (id) => document.getElementById(id);
const [source, target, text, mirror, output, status, details] = [
  "source", "target", "text", "mirror", "output", "status", "details",
].map(element);

let server = null; // what it translates, and what it allows
let answer = null; // the translation that is shown
let running = null; // aborts the request in progress
let pause = null;

// ---- talk to the server ----

async function ask(path, body, signal) {
  const isForm = body instanceof FormData; // whose type the browser adds
  const headers = isForm ? {} : { "Content-Type": "application/json" };
  if (element("key").value) {
    headers.Authorization = `Bearer ${element("key").value}`;
  }
  const method = body ? "POST" : "GET";
  const response = await fetch(path, {
    method, headers, signal, body: isForm ? body : body && JSON.stringify(body),
  });
  const record = await response.json();
  if (!response.ok) {
    throw new Error(record.error ?? `the server answers ${response.status}`);
  }
  return record;
}

async function describeServer() {
  const languages = await ask("/languages");
  const settings = await ask("/frontend/settings");
  const sources = languages.filter((language) => language.targets.length);
  return {
    names: Object.fromEntries(languages.map(({ code, name }) => [code, name])),
    targets: Object.fromEntries(sources.map(({ code, targets }) => [code, targets])),
    suffixes: settings.supportedFilesFormat,
    needsKey: settings.keyRequired,
  };
}

async function translate(lines, signal) {
  const isWanted = element("show-alternatives").checked;
  const body = {
    q: lines.join("\n"),
    source: source.value,
    target: target.value,
    alternatives: isWanted ? ALTERNATIVES : 0,
    details: true,
  };
  const record = await ask("/translate", body, signal);
  return record.details;
}

function say(message, isFailure = false) {
  status.textContent = message;
  status.classList.toggle("failed", isFailure);
}

// ---- languages ----

function fill(select, languages) {
  const before = select.value;
  select.replaceChildren(...languages.map(([code, name]) => new Option(name, code)));
  const codes = languages.map(([code]) => code);
  select.value = codes.includes(before) ? before : codes[0];
}

function named(codes) {
  return codes.map((code) => [code, server.names[code]]);
}

function targetsOf(code) {
  const all = Object.values(server.targets).flat();
  return code === AUTO ? [...new Set(all)].sort() : server.targets[code];
}

function showLanguages() {
  const sources = named(Object.keys(server.targets));
  const detected = sources.length > 1 ? [[AUTO, "Detect"]] : [];
  fill(source, [...detected, ...sources]);
  fill(target, named(targetsOf(source.value)));
}

function swap() {
  const from = source.value === AUTO ? answer?.languages[0] : source.value;
  const to = target.value;
  if (!from || !server.targets[to]?.includes(from)) {
    say(`This server does not translate from ${server.names[to]} back.`, true);
    return;
  }
  source.value = to;
  fill(target, named(targetsOf(to)));
  target.value = from;
  if (answer) {
    text.value = answer.lines.map((line) => line.text).join("\n");
  }
  textChanged();
}

// ---- translate what is typed ----

function textChanged() {
  const count = [...text.value].length;
  element("count").textContent = count ? `${count.toLocaleString("en")} characters` : "";
  answer = null;
  showMirror();
  clearTimeout(pause);
  pause = setTimeout(translateTyped, PAUSE_MILLISECONDS);
}

async function translateTyped() {
  clearTimeout(pause);
  running?.abort();
  if (!text.value.trim()) {
    answer = null;
    showAnswer();
    say("");
    return;
  }
  const request = new AbortController();
  running = request;
  output.setAttribute("aria-busy", "true");
  try {
    const record = await translate(text.value.split("\n"), request.signal);
    if (running !== request) {
      return; // a later text is being translated
    }
    answer = record;
    showAnswer();
    showMirror();
    say(describeWay(record));
  } catch (failure) {
    if (running === request && failure.name !== "AbortError") {
      say(`Not translated: ${failure.message}`, true);
    }
  } finally {
    if (running === request) {
      output.setAttribute("aria-busy", "false");
    }
  }
}

function describeWay(record) {
  const [from, ...others] = record.languages.map((code) => server.names[code]);
  const detected = source.value === AUTO ? ` from ${from}` : "";
  const pivot = others.length > 1 ? ` through ${others[0]}` : "";
  return detected || pivot ? `Translated${detected}${pivot}` : "";
}

// ---- show texts as words that can light up ----

// Words are numbered as mtkit numbers them: between white space.
function words(line, lineNumber, side) {
  let number = 0;
  return line.split(/(\s+)/u).filter(Boolean).map((part) => {
    if (/^\s/u.test(part)) {
      return part;
    }
    const span = document.createElement("span");
    span.textContent = part;
    Object.assign(span.dataset, { side, line: lineNumber, word: number });
    number += 1;
    return span;
  });
}

function showAnswer() {
  const lines = answer?.lines ?? [];
  const shown = lines.map((line, number) => {
    const block = document.createElement("div");
    block.className = "line";
    block.append(...words(line.text, number, "target"));
    return block;
  });
  output.replaceChildren(...shown);
  output.lang = target.value;
  element("copy").disabled = !lines.length;
  showDetails();
}

function showMirror() {
  const lines = text.value.split("\n");
  const shown = lines.flatMap((line, number) => [
    ...(answer ? words(line, number, "source") : [line]),
    "\n",
  ]);
  mirror.replaceChildren(...shown, "\u200b");
}

function light(word) {
  for (const lit of document.querySelectorAll(".lit")) {
    lit.classList.remove("lit");
  }
  if (!word || !answer) {
    return;
  }
  const { side, line, word: number } = word.dataset;
  const [own, other] = side === "source" ? [0, 1] : [1, 0];
  const otherSide = side === "source" ? "target" : "source";
  const links = answer.lines[line]?.links ?? [];
  const linked = links.filter((link) => link[own] === Number(number));
  if (!linked.length) {
    return;
  }
  word.classList.add("lit");
  for (const link of linked) {
    const selector = `[data-side="${otherSide}"][data-line="${line}"][data-word="${link[other]}"]`;
    document.querySelector(selector)?.classList.add("lit");
  }
}

function lightAtPointer(event) {
  const below = document.elementsFromPoint(event.clientX, event.clientY);
  light(below.find((each) => each.dataset.word));
}

function lightAtCaret() {
  if (document.activeElement !== text || text.selectionStart !== text.selectionEnd) {
    return;
  }
  const before = text.value.slice(0, text.selectionStart).split("\n");
  const beginning = before.at(-1);
  const number = (beginning.match(/\S+/gu) ?? []).length - (/\S$/u.test(beginning) ? 1 : 0);
  const selector = `[data-line="${before.length - 1}"][data-word="${number}"]`;
  light(mirror.querySelector(selector));
}

// ---- other translations, confidence, warnings ----

function paragraph(content, className = "") {
  const shown = document.createElement("p");
  shown.textContent = content;
  shown.className = className;
  return shown;
}

function list(items) {
  const shown = document.createElement("ul");
  shown.append(...items.map((item) => {
    const entry = document.createElement("li");
    entry.textContent = item;
    entry.lang = target.value;
    entry.dir = "auto";
    return entry;
  }));
  return shown;
}

function describeLine(line) {
  const entry = document.createElement("li");
  const heading = paragraph(line.text, "heading");
  heading.lang = target.value;
  heading.dir = "auto";
  entry.append(heading);
  if (element("show-estimates").checked) {
    const isKnown = line.confidence !== null;
    const confidence = isKnown ? `${Math.round(100 * line.confidence)} %` : "not known";
    entry.append(paragraph(`Confidence: ${confidence}`));
    entry.append(...line.flags.map((flag) => paragraph(`Warning: ${flag}`, "warnings")));
  }
  if (element("show-alternatives").checked) {
    const has = line.alternatives.length > 0;
    entry.append(paragraph(has ? "Other translations:" : "There is no other translation."));
    entry.append(...(has ? [list(line.alternatives)] : []));
  }
  return entry;
}

function showDetails() {
  const isWanted = element("show-alternatives").checked || element("show-estimates").checked;
  const lines = (answer?.lines ?? []).filter((line) => line.text);
  details.hidden = !isWanted || !lines.length;
  details.replaceChildren(...(details.hidden ? [] : lines.map(describeLine)));
}

// ---- files ----

async function translateFile(file) {
  running?.abort();
  const request = new AbortController();
  running = request;
  const save = element("save");
  save.hidden = true;
  const form = new FormData();
  form.append("file", file);
  form.append("source", source.value);
  form.append("target", target.value);
  try {
    say(`${file.name} is being translated`);
    const record = await ask("/translate_file", form, request.signal);
    save.href = new URL(record.translatedFileUrl).pathname;
    save.textContent = "Save the translation";
    save.hidden = false;
    say(`${file.name} is translated`);
    save.focus();
  } catch (failure) {
    const isStopped = failure.name === "AbortError";
    say(`${file.name}: ${isStopped ? "stopped" : failure.message}`, !isStopped);
  }
}

function watchDrops() {
  const pane = text.closest(".pane");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    pane.classList.add("target-of-drop");
  });
  document.addEventListener("dragleave", () => pane.classList.remove("target-of-drop"));
  document.addEventListener("drop", (event) => {
    pane.classList.remove("target-of-drop");
    const [file] = event.dataTransfer.files;
    if (file) {
      event.preventDefault();
      translateFile(file);
    }
  });
}

// ---- start ----

async function start() {
  server = await describeServer();
  element("key-row").hidden = !server.needsKey;
  element("file").accept = server.suffixes.join();
  showLanguages();
  source.addEventListener("change", () => {
    fill(target, named(targetsOf(source.value)));
    translateTyped();
  });
  target.addEventListener("change", translateTyped);
  text.addEventListener("input", textChanged);
  element("key").addEventListener("change", translateTyped);
  element("swap").addEventListener("click", swap);
  element("copy").addEventListener("click", async () => {
    const lines = [...output.children].map((line) => line.textContent);
    await navigator.clipboard.writeText(lines.join("\n"));
    say("The translation is copied");
  });
  element("open").addEventListener("click", () => element("file").click());
  element("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) {
      translateFile(file);
      event.target.value = "";
    }
  });
  element("show-alternatives").addEventListener("change", (event) => {
    showDetails();
    if (event.target.checked) {
      translateTyped();
    }
  });
  element("show-estimates").addEventListener("change", showDetails);
  document.addEventListener("pointermove", lightAtPointer);
  document.addEventListener("selectionchange", lightAtCaret);
  watchDrops();
  if (text.value) {
    textChanged(); // the browser has kept it from the last visit
  }
}

start().catch((failure) => say(`The page cannot start: ${failure.message}`, true));
