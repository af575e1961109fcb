// The page asks while you type and shows what comes back. All that it shows of an answer goes in as text.

const PAUSE = 120; // milliseconds without a key before a question is asked
const PATIENCE = 15000; // milliseconds after which a server that says nothing is one that is gone
const LONGEST_WAIT = 4000; // milliseconds between two attempts to reach a server that is gone
const STOOD = 3000; // milliseconds after which a question keeps its own place in the browser's history
const REST = 400; // milliseconds without a question: browsers stop pages that write their address too often
const COPIED = 1500; // milliseconds that a row says so
const USUAL_K = 5;
const CHIPS = 8; // words shown for an answer; of those that matter less there is only the number
const FIGURES = ["P@1", "P@5", "PSP@5"];
const TOKEN = "laconic token"; // its name in the tab's storage

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

let model = { calibrated: false }; // what v1/model says, once it has answered
let predictions = []; // those shown
let newest = 0; // the number of the last question; what answers an older one is dropped
let underWay = new AbortController(); // the last question's
let nextAsking; // a timer: after the pause, or when trouble may be over
let failures = 0; // in a row, with no answer at all
let tokenHere = ""; // for browsers that let nothing be stored
let written = 0; // when the address was last changed by typing
let nextWriting; // a timer

start();

function start() {
  page.question.addEventListener("input", askSoon);
  page.k.addEventListener("input", () => page.k.checkValidity() && askSoon());
  page.k.addEventListener("change", () => chooseK(chosenK()));
  page.fewer.addEventListener("click", () => chooseK(chosenK() - 1));
  page.more.addEventListener("click", () => chooseK(chosenK() + 1));
  page.why.addEventListener("change", askNow);
  page.asking.addEventListener("submit", settle);
  page.entrance.addEventListener("submit", enter);
  page.answers.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  addEventListener("popstate", walkHistory);
  addEventListener("online", () => failures && askNow());
  takeAddress();
  learnModel().then(ask); // in this order, since the model says how many answers may be asked for
}

// --- Questions -------------------------------------------------------------------------------------------------------

function askSoon() {
  failures = 0;
  clearTimeout(nextAsking);
  nextAsking = setTimeout(ask, PAUSE);
}

function askNow() {
  failures = 0;
  ask();
}

async function ask() {
  const turn = ++newest;
  clearTimeout(nextAsking);
  underWay.abort();
  underWay = new AbortController();
  keepAddressSoon(question());
  if (!page.question.value.trim()) return showNothing();
  page.answers.ariaBusy = "true";
  const { text, k, why } = question();
  const options = { method: "POST", body: JSON.stringify({ text, k, explain: why }), signal: underWay.signal };
  const began = performance.now();
  const response = await send("v1/predict", options).catch(() => null);
  const body = (await response?.json().catch(() => null)) ?? {};
  if (turn !== newest) return;
  if (response) receive(response, body, performance.now() - began);
  else unreachable();
}

function question() {
  return { text: page.question.value, k: chosenK(), why: page.why.checked };
}

function send(path, { signal, ...options }) {
  const token = storedToken();
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const ends = [AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])];
  return fetch(path, { ...options, headers, cache: "no-store", signal: AbortSignal.any(ends) });
}

function receive(response, body, milliseconds) {
  failures = 0;
  const found = body.answers?.[0]?.predictions;
  if (!response.ok || !found) return refuse(response, body.error ?? {});
  page.entrance.hidden = true;
  page.latency.textContent = latency(milliseconds, response.headers.get("server-timing"));
  const unknown = body.answers[0].known_words === 0;
  if (!found.length) say("No label was found for this text.");
  else say(unknown ? "The model knows no word of this text; these labels say nothing about it." : "");
  page.announcement.textContent = found.length ? `${found.length} answers, the best is ${found[0].label}` : "";
  predictions = found;
  showAnswers(predictions, model);
  if (body.model !== model.model) learnModel(); // the server has another model by now, or we know none yet
}

function latency(milliseconds, timing) {
  const shown = (time) => `${time.toFixed(time < 10 ? 1 : 0)} ms`;
  const server = /dur=([\d.]+)/.exec(timing ?? "")?.[1];
  return shown(milliseconds) + (server ? ` · server ${shown(Number(server))}` : "");
}

function showNothing() {
  predictions = [];
  showAnswers(predictions, model);
  if (page.entrance.hidden) say("");
  page.announcement.textContent = page.latency.textContent = "";
}

async function learnModel() {
  try {
    const response = await send("v1/model", {});
    if (response.status === 401) return askForToken();
    if (!response.ok) return;
    model = await response.json();
  } catch {
    return; // the next answer brings us here again
  }
  if (!page.entrance.hidden) say("");
  page.entrance.hidden = true;
  page.k.max = model.limits.k;
  page.k.value = chosenK();
  showFacts(model);
  if (predictions.length) showAnswers(predictions, model);
}

// --- Trouble: the text stays, the answers of the last one fade -------------------------------------------------------

function refuse(response, { message, where }) {
  if (response.status === 401) return askForToken();
  if (response.status === 503) {
    const seconds = Math.min(Math.max(Number(response.headers.get("retry-after")) || 1, 1), 30);
    return trouble(`The server is busy. It is asked again in ${seconds} s.`, seconds * 1000);
  }
  const why = where ? `${where}: ${message}` : message;
  if (message && response.status < 500) return trouble(`The server cannot answer this (${why}).`);
  const request = response.headers.get("x-request-id");
  trouble(`The server gave no answer (${response.status}). ${request ? `Its log says why, at ${request}.` : ""}`);
}

function unreachable() {
  failures += 1;
  const wait = Math.min(500 * 2 ** failures, LONGEST_WAIT);
  trouble("The server cannot be reached. Your text is kept, and asked again until it is answered.", wait);
}

function trouble(message, wait) {
  fade();
  say(message, "trouble");
  if (wait) nextAsking = setTimeout(ask, wait);
}

function say(message, kind = "") {
  // What is set again unchanged would be read out again.
  if (page.message.textContent !== message) page.message.textContent = message;
  page.message.className = kind;
}

function askForToken() {
  if (storedToken()) trouble("That token was not accepted.");
  else if (page.entrance.hidden) trouble("This server answers those who have its token.");
  storeToken("");
  page.entrance.hidden = false;
  if (document.activeElement !== page.question) page.token.focus();
}

function enter(event) {
  event.preventDefault();
  storeToken(page.token.value);
  page.token.value = "";
  page.question.focus();
  learnModel();
  askNow();
}

function storedToken() {
  try {
    return sessionStorage.getItem(TOKEN) ?? tokenHere;
  } catch {
    return tokenHere;
  }
}

function storeToken(token) {
  tokenHere = token;
  try {
    if (token) sessionStorage.setItem(TOKEN, token);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // The page remembers it.
  }
}

// --- Answers: rows are kept and filled anew, so that bars move and the focus stays where it is -----------------------

function showAnswers(predictions, { calibrated }) {
  const rows = page.answers.children;
  while (rows.length < predictions.length) page.answers.append(page.answer.content.cloneNode(true));
  while (rows.length > predictions.length) drop(rows[rows.length - 1]);
  const scale = scaleOf(predictions.map(({ score }) => score), calibrated);
  predictions.forEach((prediction, place) => fill(rows[place], prediction, scale));
  makeReachable(labels().find((label) => label === document.activeElement) ?? firstLabel());
  page.answers.classList.remove("faded");
  page.answers.ariaBusy = "false";
}

// What is shown answers another text than the one that stands above it.
function fade() {
  page.answers.classList.add("faded");
  page.answers.ariaBusy = "false";
}

function firstLabel() {
  return page.answers.querySelector(".label");
}

// Goes where a key leads from a label; above the first one is the question. False where the key leads nowhere.
function moveFrom(label, key) {
  const all = labels();
  const here = all.indexOf(label);
  const places = { ArrowDown: Math.min(here + 1, all.length - 1), ArrowUp: here - 1, Home: 0, End: all.length - 1 };
  if (!(key in places)) return false;
  const target = all[places[key]] ?? page.question;
  if (target !== page.question) makeReachable(target);
  target.focus();
  return true;
}

async function copyLabel(label) {
  makeReachable(label);
  const copied = navigator.clipboard?.writeText(label.textContent).then(() => true, () => false);
  if (!(await copied) && !copySelected(label)) return false;
  const row = label.closest("li");
  row.classList.add("copied-now");
  setTimeout(() => row.classList.remove("copied-now"), COPIED);
  return true;
}

// Browsers give no clipboard to a page that came from another machine without encryption.
function copySelected(label) {
  getSelection().selectAllChildren(label);
  const copied = document.execCommand("copy");
  getSelection().removeAllRanges();
  return copied;
}

function labels() {
  return [...page.answers.querySelectorAll(".label")];
}

// One label is on the way of the Tab key, not all of them.
function makeReachable(reachable) {
  for (const label of labels()) label.tabIndex = label === reachable ? 0 : -1;
}

function drop(row) {
  const before = row.previousElementSibling?.querySelector(".label");
  if (row.contains(document.activeElement)) (before ?? page.question).focus();
  row.remove();
}

// Probabilities are shown as such; other scores, of any size, beside the best one.
function scaleOf(scores, calibrated) {
  if (calibrated) return { lowest: 0, highest: 1, shown: percentage, shownShare: (share) => (100 * share).toFixed(0) };
  const highest = Math.max(...scores);
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(highest) || 1)), 0), 8);
  const shown = (score) => score.toFixed(decimals);
  const shownShare = (share) => share.toFixed(Math.max(decimals - 1, 0));
  return { lowest: Math.min(0, ...scores), highest, shown, shownShare };
}

function percentage(score) {
  return score > 0 && score < 0.0005 ? "<0.1 %" : `${(100 * score).toFixed(1)} %`;
}

function fill(row, { label, score, text, words }, scale) {
  const [name, bar] = [row.querySelector(".label"), row.querySelector(".bar")];
  if (name.textContent !== label) row.classList.remove("copied-now");
  name.textContent = label;
  row.querySelector(".score").textContent = bar.ariaValueText = scale.shown(score);
  [bar.ariaValueMin, bar.ariaValueMax, bar.ariaValueNow] = [scale.lowest, scale.highest, score];
  const part = scale.highest > scale.lowest ? (score - scale.lowest) / (scale.highest - scale.lowest) : 1;
  bar.style.setProperty("--part", Math.min(Math.max(part, 0), 1));
  row.querySelector(".text").textContent = text && text !== label ? text : "";
  row.querySelector(".words").replaceChildren(...chips(words ?? [], score, scale));
}

function chips(words, score, scale) {
  const strongest = [...words].sort((one, other) => Math.abs(other.share) - Math.abs(one.share)).slice(0, CHIPS);
  const shown = words.filter((word) => strongest.includes(word)).map((word) => chip(word, score, scale));
  return words.length > CHIPS ? [...shown, item(`and ${words.length - CHIPS} more`, "rest")] : shown;
}

function chip({ word, share }, score, scale) {
  const chip = item(word, share < 0 ? "against" : "for");
  const worth = document.createElement("span");
  const size = scale.shownShare(Math.abs(share));
  worth.textContent = Number(size) ? `${share < 0 ? "−" : "+"}${size}` : "0";
  chip.append(" ", worth);
  // The root tells words that matter a little from words that do not matter.
  chip.style.setProperty("--weight", Math.sqrt(Math.min(Math.abs(share / score) || 0, 1)));
  return chip;
}

function item(text, kind) {
  const element = document.createElement("li");
  element.textContent = text;
  element.className = kind;
  element.dir = "auto";
  return element;
}

// --- The model -------------------------------------------------------------------------------------------------------

function showFacts(model) {
  page.summary.textContent = `${number.format(model.labels)} labels, ${model.method}`;
  const known = factsOf(model).filter(([, value]) => value);
  page.facts.replaceChildren(...known.flatMap(([name, value]) => pair(name, value)));
  page.card.hidden = !model.card;
  page.card.querySelector("pre").textContent = model.card ?? "";
}

function factsOf({ method, labels, words, calibrated, bytes, created, model, laconic, metrics }) {
  const measured = FIGURES.filter((name) => metrics?.metrics?.[name] !== undefined);
  return [
    ["Method", method],
    ["Labels", number.format(labels)],
    ["Words", words && number.format(words)],
    ["Scores", calibrated ? "probabilities" : "for ranking only"],
    ...measured.map((name) => [`${name}, ${metrics.split}`, `${metrics.metrics[name].toFixed(1)} %`]),
    ["Size", bytes && size(bytes)],
    ["Created", created?.slice(0, 10)],
    ["Version", model],
    ["laconic", laconic],
  ];
}

function size(bytes) {
  return bytes < 1e6 ? `${number.format(bytes / 1e3)} kB` : `${number.format(bytes / 1e6)} MB`;
}

function pair(name, value) {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value;
  return [term, description];
}

// --- Number of answers, and keys -------------------------------------------------------------------------------------

function chosenK() {
  return within(page.k.valueAsNumber);
}

function chooseK(k) {
  page.k.value = within(k);
  askNow();
}

// The nearest number of answers that may be asked for.
function within(k) {
  return Number.isNaN(k) ? USUAL_K : Math.min(Math.max(Math.round(k), 1), Number(page.k.max));
}

function onKey(event) {
  const combined = event.isComposing || event.ctrlKey || event.metaKey || event.altKey;
  if (!combined && heeded(event)) event.preventDefault();
}

function heeded({ key, target }) {
  if (target.matches(".label") && moveFrom(target, key)) return true;
  if (key === "ArrowDown" && target === page.question) firstLabel()?.focus();
  else if (key === "/" && target !== page.question && target !== page.token) page.question.select();
  else if (key === "Escape" && target !== page.token) clear();
  else return false;
  return true;
}

function clear() {
  page.question.value = "";
  page.question.focus();
  askNow();
}

async function onClick(event) {
  if (!event.target.matches(".label")) return;
  const label = event.target.textContent;
  const copied = await copyLabel(event.target);
  if (copied) page.announcement.textContent = `Copied ${label}`;
  else say("This browser does not let the page copy.");
}

// --- The address: #q=text&k=5 is a question that can be shared, and that the history leads back to -------------------

function settle(event) {
  event.preventDefault();
  settleAddress(question());
  askNow();
}

function walkHistory() {
  takeAddress();
  askNow();
}

function takeAddress() {
  const { text, k, why } = readAddress();
  page.question.value = text;
  if (k) page.k.value = within(k);
  page.why.checked = why;
  // As we would have written it ourselves, in the place that the history has for it.
  keepAddress(question(), "replaceState");
}

function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  written = 0;
  return { text: fields.get("q") ?? "", k: Number(fields.get("k")), why: fields.get("why") !== "0" };
}

function keepAddressSoon(question) {
  clearTimeout(nextWriting);
  nextWriting = setTimeout(() => keepAddress(question, placeInHistory()), REST);
}

// The question is the one that was meant: whatever is typed next gets a place of its own.
function settleAddress(question) {
  keepAddress(question, placeInHistory());
  written = 0;
}

// how: "pushState" or "replaceState", the history's two ways.
function keepAddress({ text, k, why }, how) {
  clearTimeout(nextWriting);
  const asked = text.trim();
  const fields = new URLSearchParams({ q: text, k, ...(!why && { why: 0 }) });
  const place = location.pathname + location.search;
  const address = asked ? `${place}#${fields}` : place;
  document.title = asked ? `${asked} – laconic` : "laconic";
  if (address === place + location.hash) return;
  history[how](null, "", address);
  if (how === "pushState" || written) written = Date.now();
}

function placeInHistory() {
  return Date.now() - written > STOOD ? "pushState" : "replaceState";
}
