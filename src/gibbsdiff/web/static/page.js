"use strict";
// The page: uploads, the queue, and what comes of them. It asks nobody but its own server.

const at = (id) => document.getElementById(id);
let tab = null;
let choices = null;
const cards = new Map();  // job id -> what stands on the page for it

class Refused extends Error {
  constructor(answer, status) {
    super(answer.line || `the server answered ${status}`);
    this.answer = answer;
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = tab ? { "X-Gibbsdiff-Tab": tab } : {};
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer, response.status);
  return answer;
}
const post = (path, query, body) =>
  ask(`${path}?${new URLSearchParams(query)}`, { method: "POST", body });

function notice(text) {
  at("notice").textContent = text;
  at("notice").hidden = !text;
}

function wishes() {
  return { noise: at("noise").value, method: at("method").value, keep: at("keep").value };
}

// A line on the page for what was refused before it became a job.
function refuse(name, trouble, file) {
  const card = make("article", { class: "job" }, make("h2", { text: name }),
    make("p", { class: "line", role: "alert", text: trouble.message }));
  const offer = trouble.answer && trouble.answer.offer;
  if (offer && file) card.append(cropForm(card, file, trouble.answer.size, offer));
  at("jobs").prepend(card);
}

function cropForm(card, file, size, offer) {
  const names = ["left", "top", "width", "height"];
  const fields = names.map((name, i) => make("input", {
    type: "number", name, value: offer[i], min: i < 2 ? 0 : 16, max: size[i % 2],
  }));
  const labels = names.map((name, i) => make("label", {}, `${name} `, fields[i]));
  return make("fieldset", { class: "crop" },
    make("legend", { text: `A crop of the ${size[0]} × ${size[1]} pixels` }), ...labels,
    make("button", {
      type: "button", text: "Denoise this crop",
      onclick: () => { card.remove(); send(file, fields.map((field) => field.value).join(",")); },
    }));
}

async function send(file, crop = "", group = "") {
  try {
    if (file.size > choices.limits.size)
      throw new Error(`${file.name}: more than ${choices.limits.size / 1e6} megabytes; the page takes no longer files`);
    if (!crop && at("preview").checked) crop = at("side").value;  // the server finds the middle
    await post("/api/pictures", { ...wishes(), name: file.name, crop, group }, file);
  } catch (trouble) { refuse(file.name, trouble, file); }
  await refresh();
}

async function sendAll(files) {
  const one = files.length > 1 && at("same").checked && at("method").value !== "gibbs";
  const group = one ? `${Date.now()}-${Math.random()}` : "";
  for (const file of files) await send(file, "", group);
  if (one) await post("/api/groups", { group }).then(refresh, (e) => notice(e.message));
}

function seconds(left) {
  if (left < 90) return `${Math.ceil(left)} s`;
  return left < 5400 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
}

function cardOf(job) {
  if (cards.has(job.id)) return cards.get(job.id);
  const card = {
    bar: make("progress", { max: "1", "aria-label": `Progress of ${job.name}` }),
    text: make("span", { class: "stage-text" }),
    stop: make("button", {
      type: "button", text: "Cancel", "aria-label": `Cancel ${job.name}`,
      onclick: () => post(`/api/jobs/${job.id}/cancel`, {}).then(refresh, (e) => notice(e.message)),
    }),
    line: make("p", { class: "line", role: "alert", hidden: "" }),
    result: make("div", { class: "result" }),
    files: make("ul", { class: "downloads" }),
    shown: false, listed: false,
  };
  card.status = make("div", { class: "status" }, card.bar, card.text, card.stop);
  card.node = make("article", { class: "job", "data-job": job.id },
    make("h2", { text: job.name }), card.status, card.line, card.result, card.files);
  at(job.kind === "sky" ? "skies" : "jobs").prepend(card.node);
  cards.set(job.id, card);
  return card;
}

function update(job) {
  const card = cardOf(job);
  card.node.dataset.state = job.state;
  const over = ["done", "failed", "cancelled"].includes(job.state);
  card.status.hidden = over;
  if (job.state === "waiting")
    card.text.textContent = job.place
      ? `number ${job.place} in the queue, done in about ${seconds(job.left)}` : `${job.stage}, about ${seconds(job.left)} of work`;
  else if (!over)
    card.text.textContent = `${job.stage}${job.of ? `, step ${job.step} of at most ${job.of}` : ""}, about ${seconds(job.left)} left`;
  if (job.state === "running" && job.of) card.bar.value = job.step / job.of;
  else card.bar.removeAttribute("value");
  const line = job.state === "cancelled" ? "cancelled" : job.line;
  if (card.line.textContent !== line) card.line.textContent = line;
  card.line.hidden = !line;
  if (job.facts && !card.shown) {
    card.shown = true;
    showResult(card.result, { ...job.facts, base: `/jobs/${job.id}/views/` });
    if (job.facts.command)
      card.result.append(make("p", { class: "hint" }, "The same by the command: ", make("code", { text: job.facts.command })));
  }
  if (job.state === "done" && !card.listed) {
    card.listed = true;
    for (const file of job.files) {
      const href = `/jobs/${job.id}/files/${encodeURIComponent(file.name)}`;
      card.files.append(make("li", {}, make("a", { href, download: file.name, text: file.kind, title: file.name }),
        ` (${(file.size / 1e6).toFixed(2)} MB)`));
    }
  }
}

let timer = null;
let deaths = 0;
async function refresh() {
  clearTimeout(timer);
  let wait = 5000;
  try {
    const state = await ask("/api/state");
    state.jobs.forEach(update);
    const there = new Set(state.jobs.map((job) => job.id));
    for (const [id, card] of cards)
      if (!there.has(id)) { card.node.remove(); cards.delete(id); }
    if (state.deaths > deaths) { deaths = state.deaths; notice(state.note); }
    if (state.jobs.some((job) => ["waiting", "running"].includes(job.state))) wait = 300;
  } catch (trouble) {
    notice(trouble instanceof Refused ? trouble.message : "The server does not answer; is `gibbsdiff serve` still running?");
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

function chooseTab(name) {
  for (const other of ["pictures", "sky"]) {
    const chosen = other === name;
    at(`tab-${other}`).setAttribute("aria-selected", String(chosen));
    at(`tab-${other}`).tabIndex = chosen ? 0 : -1;
    at(`panel-${other}`).hidden = !chosen;
  }
  at(`tab-${name}`).focus();
}

function fill(select, values, first) {
  for (const value of values) select.append(make("option", { value, text: value === "auto" ? first : value }));
}

async function begin() {
  choices = await ask("/api/tab", { method: "POST" });
  tab = choices.tab;
  fill(at("noise"), choices.noises, "auto (as cameras make it)");
  fill(at("method"), choices.methods, "auto (marginal)");
  for (const example of choices.examples)
    at("examples").append(make("button", {
      type: "button", text: example,
      onclick: () => post("/api/examples", { ...wishes(), example }).then(refresh, (e) => refuse(example, e)),
    }));
  const labels = { H0: "H0", omega_b: "ω_b", sigma: "σ" };
  for (const [name, [min, max, value]] of Object.entries(choices.sky)) {
    const digits = name === "H0" ? 0 : name === "sigma" ? 2 : 4;
    const shown = make("output", { text: value.toFixed(digits) });
    const range = make("input", { type: "range", id: `sky-${name}`, min, max, step: (max - min) / 200, value });
    range.addEventListener("input", () => { shown.textContent = Number(range.value).toFixed(digits); });
    at("truth").append(make("label", {}, `${labels[name]} `, range, shown));
  }
  at("hide").addEventListener("click", () => {
    const truth = Object.fromEntries(Object.keys(choices.sky).map((name) => [name, at(`sky-${name}`).value]));
    post("/api/skies", { ...truth, seed: at("seed").value }).then(refresh, (e) => notice(e.message));
  });
  at("keep").addEventListener("input", () => {
    at("keep-shown").textContent = `${Math.round(100 * at("keep").value)} %`;
  });
  at("files").addEventListener("change", () => { sendAll([...at("files").files]); at("files").value = ""; });
  const drop = at("drop");
  for (const kind of ["dragenter", "dragover"])
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const kind of ["dragleave", "drop"])
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.remove("over"); });
  drop.addEventListener("drop", (event) => sendAll([...event.dataTransfer.files]));
  for (const name of ["pictures", "sky"]) {
    at(`tab-${name}`).addEventListener("click", () => chooseTab(name));
    at(`tab-${name}`).addEventListener("keydown", (event) => {
      if (["ArrowLeft", "ArrowRight"].includes(event.key)) chooseTab(name === "sky" ? "pictures" : "sky");
    });
  }
  document.body.dataset.ready = "yes";
  await refresh();
}

begin().catch((trouble) => notice(trouble.message));
