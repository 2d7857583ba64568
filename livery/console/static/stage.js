// The stage: draws what the room says. Data arrives as JSON by server-sent events and is only ever written
// with textContent. The mouth follows the WAV that plays; its loudness envelope where the browser holds
// playback back; and the text itself where there is no voice.
"use strict";

const body = document.body;
const $ = (id) => document.getElementById(id);
const CHAT_LINES = 14;
const ENVELOPE_S = 0.02;

// ------------------------------------------------------------------------------------------------ mouth

const mouth = { value: 0, source: "none", level: () => 0, ends: 0 };
const figure = $("figure");

function drawMouth(open) {
  if (!figure) return;
  const half = 38 - 8 * open;            // an open mouth is narrower than a smile
  const lift = 16 * (1 - open);          // corners fall as it opens
  const drop = 24 + 74 * open;
  const d = `M${300 - half} 420 Q300 ${420 + lift - 8 * open} ${300 + half} 420 Q300 ${420 + drop} ${300 - half} 420 Z`;
  $("mouth").setAttribute("d", d);
  $("mouth-clip").setAttribute("d", d);
  $("teeth").setAttribute("opacity", open > 0.18 ? "1" : "0");
  $("tongue").setAttribute("cy", String(488 - 28 * open));
  figure.setAttribute("data-mouth", open.toFixed(2));
  figure.setAttribute("data-source", mouth.source);
}

function tick() {
  const now = performance.now() / 1000;
  const target = now < mouth.ends ? Math.max(0, Math.min(1, mouth.level(now))) : 0;
  const next = mouth.value + (target - mouth.value) * (target > mouth.value ? 0.55 : 0.3);
  if (Math.abs(next - mouth.value) > 0.002 || next > 0.002) {
    mouth.value = next < 0.004 ? 0 : next;
    drawMouth(mouth.value);
  }
  requestAnimationFrame(tick);
}

/** Openness over time guessed from the text: one beat a syllable-like unit, shut at punctuation. */
function textLevel(text, seconds, started) {
  const units = text.match(/[\u3400-\u9fff]|[a-z]+?[aeiouy]+|[a-z0-9]+|[^\s\w]/gi) || ["a"];
  return (now) => {
    const place = ((now - started) / seconds) * units.length;
    const unit = units[Math.floor(place)] || "";
    if (/^[^\w\u3400-\u9fff]$/.test(unit) || unit === "") return 0;
    const strength = 0.45 + ((unit.codePointAt(0) * 7) % 50) / 100;
    return strength * Math.sin(Math.PI * (place % 1));
  };
}

/** Root mean square of each 20 ms of a decoded WAV, scaled to 0..1. */
function envelopeOf(buffer) {
  const samples = buffer.getChannelData(0);
  const step = Math.max(1, Math.round(buffer.sampleRate * ENVELOPE_S));
  const rms = new Float32Array(Math.ceil(samples.length / step));
  for (let i = 0; i < rms.length; i++) {
    const end = Math.min(samples.length, (i + 1) * step);
    let sum = 0;
    for (let k = i * step; k < end; k++) sum += samples[k] * samples[k];
    rms[i] = Math.sqrt(sum / (end - i * step));
  }
  const top = rms.reduce((a, b) => Math.max(a, b), 1e-4);
  return rms.map((v) => Math.min(1, (v / top) * 1.15));
}

// ------------------------------------------------------------------------------------------------ sound

let audio = null; // AudioContext
let playing = null; // AudioBufferSourceNode
let current = ""; // request now spoken
const muted = body.dataset.mute === "1";

function audioContext() {
  if (!audio) {
    audio = new AudioContext();
    audio.onstatechange = showSoundButton;
  }
  return audio;
}

function showSoundButton() {
  const blocked = audio !== null && audio.state === "suspended" && !muted;
  $("sound").hidden = !blocked || body.classList.contains("transparent");
}

$("sound").addEventListener("click", () => audioContext().resume());

async function play(event, elapsed) {
  const response = await fetch(body.dataset.audio + encodeURIComponent(event.audio_id));
  if (!response.ok || current !== event.request_id) return;
  const context = audioContext();
  const buffer = await context.decodeAudioData(await response.arrayBuffer());
  if (current !== event.request_id) return;
  const started = performance.now() / 1000 - elapsed;
  const envelope = envelopeOf(buffer);
  mouth.source = "envelope";
  mouth.ends = started + buffer.duration;
  mouth.level = (now) => envelope[Math.floor((now - started) / ENVELOPE_S)] || 0;
  showSoundButton();
  if (muted || elapsed > buffer.duration) return;
  if (context.state === "suspended") await Promise.race([context.resume(), new Promise((r) => setTimeout(r, 150))]);
  if (current !== event.request_id || context.state !== "running") return;
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  const node = context.createBufferSource();
  node.buffer = buffer;
  node.connect(analyser).connect(context.destination);
  const late = performance.now() / 1000 - started;
  node.start(0, Math.min(late, buffer.duration));
  playing = node;
  const wave = new Float32Array(analyser.fftSize);
  mouth.source = "analyser";
  mouth.level = () => {
    analyser.getFloatTimeDomainData(wave);
    let sum = 0;
    for (const v of wave) sum += v * v;
    return Math.sqrt(sum / wave.length) * 5;
  };
}

function hush() {
  if (playing) playing.stop();
  playing = null;
  current = "";
  mouth.ends = 0;
  mouth.source = "none";
}

// ----------------------------------------------------------------------------------------------- events

function setState(state) { body.dataset.state = state; }

function subtitle(text) {
  const p = $("subtitle");
  if (!p) return;
  p.textContent = text;
  p.dataset.length = text.length > 120 || (text.match(/[\u3400-\u9fff]/g) || []).length > 60 ? "long" : "short";
  p.hidden = text === "";
}

let captionOnly = false;
let reading = 0;

function speak(event, elapsed = 0) {
  hush();
  clearTimeout(reading);
  captionOnly = !event.audio_id && !event.audio_s;
  current = event.request_id;
  setState("speaking");
  subtitle(event.text);
  mark(event.messages, true);
  const now = performance.now() / 1000;
  const seconds = event.audio_s || event.seconds;
  mouth.source = "text";
  mouth.ends = now + Math.max(0, seconds - elapsed);
  mouth.level = textLevel(event.text, seconds, now - elapsed);
  if (event.audio_id) play(event, elapsed).catch((error) => console.warn("audio:", error.message));
}

function spoken(event) {
  if (current && event.request_id !== current) return;
  const left = mouth.ends - performance.now() / 1000;
  if (captionOnly && !event.interrupted && left > 0) {
    // Without a voice the room is done at once; viewers still need the time to read.
    clearTimeout(reading);
    reading = setTimeout(() => spoken({ request_id: event.request_id, interrupted: true }), left * 1000);
    return;
  }
  hush();
  setState("idle");
  subtitle("");
  for (const line of document.querySelectorAll(".chat .answering")) line.classList.remove("answering");
}

function addMessage(message) {
  const list = $("chat");
  if (!list || list.querySelector(`[data-id="${CSS.escape(message.id)}"]`)) return;
  const line = document.createElement("li");
  line.dataset.id = message.id;
  line.dataset.by = message.by;
  line.dataset.kind = message.kind;
  const name = document.createElement("b");
  name.textContent = message.name;
  line.append(name);
  if (message.amount) {
    const amount = document.createElement("span");
    amount.className = "amount";
    amount.textContent = message.amount;
    line.append(amount);
  }
  line.append(document.createTextNode(message.text));
  list.append(line);
  while (list.childElementCount > CHAT_LINES) list.firstElementChild.remove();
}

function mark(ids, on) {
  for (const id of ids || []) {
    const line = document.querySelector(`.chat [data-id="${CSS.escape(id)}"]`);
    if (line) line.classList.toggle("answering", on);
  }
}

function removeMessages(gone) {
  for (const line of document.querySelectorAll(".chat [data-id]")) {
    if (gone.everything || line.dataset.id === gone.id || (gone.by && line.dataset.by === gone.by)) line.remove();
  }
}

function showItem(card) {
  const box = $("item");
  if (!box) return;
  box.hidden = !card;
  if (!card) return;
  $("item-link").textContent = card.link;
  $("item-name").textContent = card.name;
  $("item-now").textContent = card.now;
  $("item-was").textContent = card.was;
  $("item-was").hidden = card.was === "";
  $("item-offer").textContent = card.offer;
  $("item-stock").textContent = card.stock;
  $("item-stock").dataset.level = card.stock_level;
}

const handlers = {
  snapshot(data) {
    $("ai-label").lastChild.textContent = data.label;
    const list = $("chat");
    if (list) list.replaceChildren();
    data.messages.forEach(addMessage);
    showItem(data.item);
    if (data.speaking) { if (current !== data.speaking.request_id) speak(data.speaking, data.speaking.elapsed_s); }
    else spoken({ request_id: current, interrupted: false });
  },
  message: addMessage,
  removed: removeMessages,
  thinking: () => { if (!current) setState("thinking"); },
  ended: () => { if (!current) setState("idle"); },
  speaking: (data) => speak(data),
  spoken,
  item: (data) => showItem(data.card),
};

function connect() {
  // EventSource reconnects by itself and sends Last-Event-ID; only a refused connection ends it.
  const source = new EventSource(body.dataset.events);
  for (const [kind, handle] of Object.entries(handlers)) {
    source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
  }
  source.onopen = () => { body.dataset.connected = "1"; };
  source.onerror = () => {
    body.dataset.connected = "0";
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

requestAnimationFrame(tick);
connect();
