// The translator: a line goes through the text steps to the model, and back. It uses no DOM, so that a
// worker, or node, can run it.

const MAX_CACHED = 2000; // sentences that are not translated again while somebody types

class Translator {
  /** `data`: the settings, vocabularies and tables of the page; `buffer`: a file of weights. */
  constructor(data, buffer) {
    const tokenizers = data.tokenizers.map((spm) => new Tokenizer(bytesOf(spm)));
    this.data = data;
    this.source = tokenizers[0];
    this.target = tokenizers.at(-1); // the same, if both sides share a vocabulary
    this.cases = new Cases(data.titles);
    this.spelling = new Spelling(data.spelling, this.source);
    this.caser = new TrueCaser(data.decoding, this.spelling, this.cases);
    this.splitter = new SentenceSplitter(data.decoding, this.cases);
    this.spans = new Spans(data.patterns);
    this.model = new Model(data.model, readTensors(buffer));
    this.cache = new Map();
  }

  /** Return the translation of a line. `tag`: the name of a target tag, or null. */
  async translate(line, tag, pause) {
    const text = normalise(withoutSurrogates(line));
    if (isBlank(text)) return "";
    if (this.spans.isUntranslatable(text, this.spelling)) return inOneLine(withoutSurrogates(line));
    const prefix = tag === null ? [] : [this.data.tags[tag].id];
    const translation = await this.run(text, this.steps(false), prefix, pause);
    const lost = this.spans.countLost(text, translation);
    if (lost === 0) return translation;
    const other = await this.run(text, this.steps(true), prefix, pause);
    return this.spans.countLost(text, other) < lost ? other : translation;
  }

  /** Apply steps to a text, then translate it. */
  async run(text, steps, prefix, pause) {
    const [step, ...others] = steps;
    if (step === undefined) return this.translateParts(text, prefix, pause);
    const { parts, join } = step(text);
    const texts = [];
    for (const part of parts) {
      texts.push(typeof part === "string" ? await this.run(part, others, prefix, pause) : part.copied);
    }
    return join(texts);
  }

  /** The steps in the order of `mtkit/decoding/text/pipeline.py`. */
  steps(cutsAtSpans) {
    const split = (text) => {
      const sentences = this.data.decoding.sentences ? this.splitter.split(text) : [text];
      return { parts: sentences.length ? sentences : [text], join: joinTexts };
    };
    return [
      (text) => copyOuterTags(text, this.spans),
      (text) => this.spans.split(text, cutsAtSpans),
      (text) => this.caser.restore(text),
      (text) => copyVerbatim(text, this.source, this.spans),
      split,
    ];
  }

  async translateParts(text, prefix, pause) {
    const room = Math.max(1, this.data.decoding.max_length - prefix.length);
    const texts = [];
    for (const ids of encodeToFit(text, room, this.spelling, this.splitter)) {
      texts.push(await this.translateIds([...prefix, ...ids, EOS], pause));
    }
    return joinTexts(texts);
  }

  async translateIds(ids, pause) {
    const key = ids.join(" ");
    const known = this.cache.get(key);
    if (known !== undefined) return known;
    const text = await this.searchWithoutLoop(ids, pause);
    if (this.cache.size >= MAX_CACHED) this.cache.delete(this.cache.keys().next().value);
    this.cache.set(key, text);
    return text;
  }

  /** Search; a translation with a loop is searched again, as `mtkit/decoding/loops.py` does. */
  async searchWithoutLoop(ids, pause) {
    const { decoding, unreliable_flags } = this.data;
    const search = async (settings) => {
      const found = await this.model.search(ids, settings, pause);
      return { text: this.target.decode(found).replace(NONCHARACTERS, ""), found };
    };
    const hasLoopAlone = ({ text, found }) => mayHaveLoop(found) && hasLoop(text, this.source.decode(ids));
    const first = await search(decoding);
    const staysAsItIs = unreliable_flags.includes("loop") || decoding.no_repeat_ngram > 0;
    if (staysAsItIs || !hasLoopAlone(first)) return first.text;
    const second = await search({ ...decoding, no_repeat_ngram: NGRAM_IN_LOOP });
    return hasLoopAlone(second) ? first.text : second.text;
  }
}

const SLICE_MILLISECONDS = 15; // after which others may run: messages, and on a page typing

/** Translates the newest text that it was given, and posts each line as soon as it is translated. */
class Runner {
  constructor(translator, post) {
    this.translator = translator;
    this.post = post;
    this.newest = 0;
    this.sliceEnd = 0;
    this.channel = new MessageChannel();
  }

  /** Let others run: a message, because a timer would wait for at least 4 ms each time. */
  letOthersRun() {
    return new Promise((resume) => {
      this.channel.port1.onmessage = resume;
      this.channel.port2.postMessage(null);
    });
  }

  async translate({ id, lines, tag }) {
    this.newest = id;
    const pause = async () => {
      if (performance.now() > this.sliceEnd) {
        await this.letOthersRun();
        this.sliceEnd = performance.now() + SLICE_MILLISECONDS;
      }
      if (this.newest !== id) throw new Superseded();
    };
    try {
      for (let number = 0; number < lines.length; number++) {
        await pause();
        this.post({ id, number, text: await this.translator.translate(lines[number], tag, pause) });
      }
      this.post({ id, isDone: true });
    } catch (error) {
      if (!(error instanceof Superseded)) this.post({ id, error: String(error) });
    }
  }
}

class Superseded extends Error {}

/** Serve the messages of a page; the first one holds `data` and `buffer`. */
function serveWorker(scope) {
  let runner = null;
  scope.onmessage = ({ data: message }) => {
    if (runner === null) {
      const translator = new Translator(message.data, message.buffer);
      runner = new Runner(translator, (answer) => scope.postMessage(answer));
      scope.postMessage({ isReady: true });
    } else {
      runner.translate(message);
    }
  };
}
