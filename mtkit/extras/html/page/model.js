// The Transformer (Vaswani et al. 2017) with int8 weights, and greedy search.
//
// Integer arithmetic is that of CTranslate2: each row of a matrix is an int8 vector and a scale, and
// so is each vector that a matrix multiplies. Everything else is float32, rounded where CTranslate2
// rounds (Math.fround): a rounding elsewhere moves a value to the next integer now and then, and so may
// change a translation.

const ROUNDING = 1.5 * 2 ** 23; // adding it rounds a float32 to an integer, halves to even
const EPSILON = 1e-5; // of LayerNorm

/** Return the tensors of a safetensors file by name. */
function readTensors(buffer) {
  const size = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: [begin, end] }] of Object.entries(header)) {
    const Kind = dtype === "I8" ? Int8Array : Float32Array;
    const values = new Kind(buffer, 8 + size + begin, (end - begin) / Kind.BYTES_PER_ELEMENT);
    tensors.set(name, { values, shape });
  }
  return tensors;
}

/** x W^T + b for int8 rows W. */
class Linear {
  constructor(weight, scales, bias) {
    this.weight = weight.values;
    [this.outputs, this.inputs] = weight.shape;
    this.inverseScales = scales.values.map((scale) => 1 / scale);
    this.bias = bias?.values ?? null;
  }

  /** Return the products of `count` vectors, which lie end to end in `x`. */
  apply(x, count) {
    const { weight, inverseScales, bias, inputs, outputs } = this;
    const quantised = new Int8Array(count * inputs);
    const inputScales = quantise(x, count, inputs, quantised);
    const result = new Float32Array(count * outputs);
    // Four outputs at a time, so that each input is loaded once for four products.
    let output = 0;
    for (; output + 4 <= outputs; output += 4) {
      const row0 = output * inputs;
      const row1 = row0 + inputs;
      const row2 = row1 + inputs;
      const row3 = row2 + inputs;
      for (let vector = 0; vector < count; vector++) {
        const start = vector * inputs;
        let sum0 = 0;
        let sum1 = 0;
        let sum2 = 0;
        let sum3 = 0;
        for (let i = 0; i < inputs; i++) {
          const value = quantised[start + i];
          sum0 = (sum0 + Math.imul(value, weight[row0 + i])) | 0;
          sum1 = (sum1 + Math.imul(value, weight[row1 + i])) | 0;
          sum2 = (sum2 + Math.imul(value, weight[row2 + i])) | 0;
          sum3 = (sum3 + Math.imul(value, weight[row3 + i])) | 0;
        }
        const place = vector * outputs + output;
        result[place] = sum0;
        result[place + 1] = sum1;
        result[place + 2] = sum2;
        result[place + 3] = sum3;
      }
    }
    for (; output < outputs; output++) {
      for (let vector = 0; vector < count; vector++) {
        let sum = 0;
        for (let i = 0; i < inputs; i++) {
          sum = (sum + Math.imul(quantised[vector * inputs + i], weight[output * inputs + i])) | 0;
        }
        result[vector * outputs + output] = sum;
      }
    }
    for (let vector = 0; vector < count; vector++) {
      const place = vector * outputs;
      const inverse = Math.fround(1 / inputScales[vector]);
      for (let i = 0; i < outputs; i++) {
        const value = Math.fround(result[place + i] * Math.fround(inverse * inverseScales[i]));
        result[place + i] = bias === null ? value : value + bias[i];
      }
    }
    return result;
  }
}

/** Write `count` vectors as int8, and return their scales. */
function quantise(x, count, size, quantised) {
  const scales = new Float32Array(count);
  for (let vector = 0; vector < count; vector++) {
    const start = vector * size;
    let largest = 0;
    for (let i = start; i < start + size; i++) largest = Math.max(largest, Math.abs(x[i]));
    const scale = largest === 0 ? 1 : Math.fround(127 / largest);
    for (let i = start; i < start + size; i++) {
      quantised[i] = Math.fround(Math.fround(x[i] * scale) + ROUNDING) - ROUNDING;
    }
    scales[vector] = scale;
  }
  return scales;
}

class LayerNorm {
  constructor(gain, bias) {
    this.gain = gain.values;
    this.bias = bias.values;
  }

  apply(x, count) {
    const size = this.gain.length;
    const result = new Float32Array(count * size);
    for (let start = 0; start < count * size; start += size) {
      let sum = 0;
      for (let i = 0; i < size; i++) sum += x[start + i];
      const mean = sum / size;
      let squares = 0;
      for (let i = 0; i < size; i++) squares += (x[start + i] - mean) ** 2;
      const factor = 1 / Math.sqrt(squares / size + EPSILON);
      for (let i = 0; i < size; i++) {
        const centred = Math.fround(x[start + i] - Math.fround(mean));
        result[start + i] = centred * Math.fround(Math.fround(factor) * this.gain[i]) + this.bias[i];
      }
    }
    return result;
  }
}

/** Return x + y. */
function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

// 1 / (1 + e^-x), and the error function (Abramowitz and Stegun 1964, 7.1.26; error below 1.5e-7).
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  swish: (x) => x * sigmoid(x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
};

/** Keys and values of one attention, a vector for each position. */
class Cache {
  constructor(size) {
    this.size = size;
    this.length = 0;
    this.keys = new Float32Array(16 * size);
    this.values = new Float32Array(16 * size);
  }

  append(keys, values) {
    const used = this.length * this.size;
    if (used + keys.length > this.keys.length) {
      this.keys = longer(this.keys, 2 * (used + keys.length));
      this.values = longer(this.values, 2 * (used + keys.length));
    }
    this.keys.set(keys, used);
    this.values.set(values, used);
    this.length += keys.length / this.size;
  }
}

function longer(array, size) {
  const result = new Float32Array(size);
  result.set(array);
  return result;
}

/** softmax(Q K^T / sqrt(d_head)) V for each head, and the heads concatenated. */
function attend(queries, count, cache, heads) {
  const { size, length, keys, values } = cache;
  const width = size / heads;
  const factor = Math.fround(1 / Math.sqrt(width));
  const result = new Float32Array(count * size);
  const weights = new Float32Array(length);
  for (let query = 0; query < count; query++) {
    for (let first = 0; first < size; first += width) {
      const start = query * size + first;
      let largest = -Infinity;
      for (let position = 0; position < length; position++) {
        const key = position * size + first;
        let sum = 0;
        for (let i = 0; i < width; i++) sum = Math.fround(sum + queries[start + i] * keys[key + i]);
        weights[position] = sum * factor;
        largest = Math.max(largest, weights[position]);
      }
      let total = 0;
      for (let position = 0; position < length; position++) {
        weights[position] = Math.exp(weights[position] - largest);
        total += weights[position];
      }
      for (let position = 0; position < length; position++) {
        const weight = Math.fround(weights[position] / total);
        const value = position * size + first;
        for (let i = 0; i < width; i++) result[start + i] += weight * values[value + i];
      }
    }
  }
  return result;
}

/** An encoder or decoder layer. */
class Layer {
  constructor(model, prefix, settings, hasCross) {
    this.settings = settings;
    this.activate = ACTIVATIONS[settings.activation === "gated" ? "swish" : settings.activation];
    for (const part of ["query", "key", "value", "output"]) {
      this[part] = model.linear(`${prefix}.self_attention.${part}`);
    }
    this.norm = model.norm(`${prefix}.self_residual.norm`);
    if (hasCross) {
      this.cross = {};
      for (const part of ["query", "key", "value", "output"]) {
        this.cross[part] = model.linear(`${prefix}.cross_attention.${part}`);
      }
      this.crossNorm = model.norm(`${prefix}.cross_residual.norm`);
    }
    this.expand = model.linear(`${prefix}.feed_forward.expand`);
    this.contract = model.linear(`${prefix}.feed_forward.contract`);
    this.feedForwardNorm = model.norm(`${prefix}.feed_forward_residual.norm`);
  }

  /** Return the residual sum around a sublayer, with the norm after it, as published, or before it. */
  residual(x, count, norm, sublayer) {
    if (this.settings.norm === "pre") return add(x, sublayer(norm.apply(x, count)));
    return norm.apply(add(x, sublayer(x)), count);
  }

  /** Run `count` positions; `cache` has the positions before, `memory` the source for a decoder. */
  apply(x, count, cache, memory) {
    const { heads } = this.settings;
    x = this.residual(x, count, this.norm, (inputs) => {
      cache.append(this.key.apply(inputs, count), this.value.apply(inputs, count));
      return this.output.apply(attend(this.query.apply(inputs, count), count, cache, heads), count);
    });
    if (memory) {
      x = this.residual(x, count, this.crossNorm, (inputs) => {
        const queries = this.cross.query.apply(inputs, count);
        return this.cross.output.apply(attend(queries, count, memory, heads), count);
      });
    }
    return this.residual(x, count, this.feedForwardNorm, (inputs) => this.feedForward(inputs, count));
  }

  feedForward(inputs, count) {
    const expanded = this.expand.apply(inputs, count);
    const width = this.contract.inputs;
    const inner = new Float32Array(count * width);
    const stride = this.expand.outputs;
    for (let position = 0; position < count; position++) {
      for (let i = 0; i < width; i++) {
        const value = this.activate(expanded[position * stride + i]);
        // SwiGLU has the gates, then the values (Shazeer 2020).
        const gated = this.settings.activation === "gated" ? expanded[position * stride + width + i] : 1;
        inner[position * width + i] = Math.fround(value) * gated;
      }
    }
    return this.contract.apply(inner, count);
  }

  /** Return the keys and values of the source. */
  remember(states, count) {
    const memory = new Cache(this.cross.key.outputs);
    memory.append(this.cross.key.apply(states, count), this.cross.value.apply(states, count));
    return memory;
  }
}

class Model {
  constructor(settings, tensors) {
    this.settings = settings;
    this.tensors = tensors;
    const { encoder, decoder } = settings;
    const layers = (side, count, hasCross) =>
      Array.from({ length: count }, (_, i) => new Layer(this, `${side}.layers.${i}`, settings[side], hasCross));
    this.encoderLayers = layers("encoder", encoder.layers, false);
    this.decoderLayers = layers("decoder", decoder.layers, true);
    this.encoderNorm = tensors.has("encoder_norm.weight") ? this.norm("encoder_norm") : null;
    this.decoderNorm = tensors.has("decoder_norm.weight") ? this.norm("decoder_norm") : null;
    // A tied matrix has only one name.
    const output = tensors.has("output.weight") ? "output" : "target_embedding";
    this.projection = this.linear(output, "output_bias");
    this.embeddings = {
      encoder: tensors.has("source_embedding.weight") ? "source_embedding" : "target_embedding",
      decoder: "target_embedding",
    };
  }

  tensor(name) {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) throw new Error(`the page has no weights ${name}`);
    return tensor;
  }

  linear(name, bias = `${name}.bias`) {
    const weight = this.tensor(`${name}.weight`);
    return new Linear(weight, this.tensor(`${name}.weight.scales`), this.tensors.get(bias));
  }

  norm(name) {
    return new LayerNorm(this.tensor(`${name}.weight`), this.tensor(`${name}.bias`));
  }

  /** Return the embedded subwords with their positional encodings; the first has the position `start`. */
  embed(side, ids, start) {
    const table = this.tensor(`${this.embeddings[side]}.weight`).values;
    const scales = this.tensor(`${this.embeddings[side]}.weight.scales`).values;
    const size = this.settings.d_model;
    const factor = Math.fround(Math.sqrt(size));
    const hasPositions = this.settings[side].positions === "sinusoidal";
    const x = new Float32Array(ids.length * size);
    ids.forEach((id, number) => {
      const place = number * size;
      for (let i = 0; i < size; i++) {
        x[place + i] = Math.fround(Math.fround(table[id * size + i] / scales[id]) * factor);
      }
      for (let i = 0; hasPositions && i < size / 2; i++) {
        const angle = (start + number) * Math.exp(2 * i * (-Math.log(10000) / size));
        x[place + i] += Math.fround(Math.sin(angle));
        x[place + size / 2 + i] += Math.fround(Math.cos(angle));
      }
    });
    return x;
  }

  /** Return for each decoder layer the keys and values of a source. */
  encode(ids) {
    const count = ids.length;
    let x = this.embed("encoder", ids, 0);
    for (const layer of this.encoderLayers) x = layer.apply(x, count, new Cache(this.settings.d_model), null);
    if (this.encoderNorm) x = this.encoderNorm.apply(x, count);
    return this.decoderLayers.map((layer) => layer.remember(x, count));
  }

  /** Return the logits after one more subword. */
  step(id, position, caches, memories) {
    let x = this.embed("decoder", [id], position);
    this.decoderLayers.forEach((layer, i) => {
      x = layer.apply(x, 1, caches[i], memories[i]);
    });
    if (this.decoderNorm) x = this.decoderNorm.apply(x, 1);
    return this.projection.apply(x, 1);
  }

  /** Greedy search. `pause` is awaited before each step, so that it can cancel or delay the search. */
  async search(ids, decoding, pause) {
    const memories = this.encode(ids);
    const caches = this.decoderLayers.map(() => new Cache(this.settings.d_model));
    const found = [];
    while (found.length < decoding.max_length) {
      await pause();
      const logits = this.step(found.at(-1) ?? BOS, found.length, caches, memories);
      constrain(logits, found, decoding);
      let best = 0;
      for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id;
      if (best === EOS) break;
      found.push(best);
    }
    return found;
  }
}

/** Change logits as the settings say: forbidden symbols, repetition, shortest length. */
function constrain(logits, found, decoding) {
  const { min_length, no_repeat_ngram, repetition_penalty, forbidden } = decoding;
  if (repetition_penalty !== 1) {
    for (const id of new Set(found)) logits[id] *= logits[id] < 0 ? repetition_penalty : 1 / repetition_penalty;
  }
  const last = no_repeat_ngram - 1;
  for (let i = 0; last >= 0 && i + last < found.length; i++) {
    const isRepeated = found.slice(i, i + last).every((id, k) => id === found[found.length - last + k]);
    if (isRepeated) logits[found[i + last]] = -Infinity;
  }
  for (const id of forbidden) logits[id] = -Infinity;
  if (found.length < min_length) logits[EOS] = -Infinity;
}
