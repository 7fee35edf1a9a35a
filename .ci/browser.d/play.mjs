// Tests the pages of `outlierd up` in a real Chromium. .ci/browser prepares what it needs in its folder:
// outlierd, page.test, and the folder world with a job file and two weeks of runs. It prints each fault
// that it finds, and fails if there is one.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = fileURLToPath(new URL(".", import.meta.url));
const world = join(here, "world");
const program = join(here, "outlierd");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = process.env.PICTURES; // the folder for them; empty without
const stored = process.env.STORED; // the folder with the pictures of the sample

const faults = [];
function fault(where, what) {
  faults.push(`${where}: ${what}`);
  console.log(`FAULT ${where}: ${what}`);
}
// step begins a step, unless ONLY, a regular expression, leaves it out.
function step(name) {
  const wanted = new RegExp(process.env.ONLY ?? "").test(name);
  if (wanted) console.log(`\n== ${name}`);
  return wanted;
}

// until waits for a condition and returns how many milliseconds that took. After the limit it throws.
async function until(what, condition, limit = 20_000) {
  const began = performance.now();
  while (!(await condition())) {
    if (performance.now() - began > limit) throw new Error(`${what}: not within ${limit} ms`);
    await new Promise((go) => setTimeout(go, 20));
  }
  return Math.round(performance.now() - began);
}

// The daemon and the commands beside it.

const outlierd = (...args) => execFileSync(program, args, { cwd: world, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const ask = (sql) => JSON.parse(outlierd("sql", "-o", "json", sql));

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const port = await freePort();
const origin = `http://127.0.0.1:${port}`;
const answers = () => fetch(origin).then((r) => r.ok, () => false);
let daemon;

async function start() {
  daemon = spawn(program, ["up"], { cwd: world, stdio: ["ignore", "ignore", "pipe"] });
  daemon.complaints = "";
  daemon.stderr.on("data", (text) => { daemon.complaints += text; });
  daemon.ended = once(daemon, "exit");
  await until("outlierd up answers", async () => {
    if (daemon.exitCode !== null) throw new Error(`outlierd up ended with ${daemon.exitCode}: ${daemon.complaints}`);
    return answers();
  });
}

process.on("exit", () => daemon?.kill()); // also after an error

async function stop() {
  daemon.kill("SIGTERM");
  await daemon.ended;
}

// The browser.

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const wide = { width: 1280, height: 800 };
const phone = { width: 360, height: 740 };

// The settings in which every page is tested.
const ways = {
  wide: { viewport: wide, axe: true },
  phone: { viewport: phone, axe: true },
  dark: { viewport: wide, colorScheme: "dark", axe: true },
  print: { viewport: { width: 718, height: 1000 }, colorScheme: "dark", media: "print" }, // A4; the paper stays white
  "no script": { viewport: phone, javaScriptEnabled: false },
};

// observe records layout shifts and violations of the content security policy.
function observe() {
  window.shift = 0;
  window.forbidden = [];
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) if (!e.hadRecentInput) window.shift += e.value;
  }).observe({ type: "layout-shift", buffered: true });
  document.addEventListener("securitypolicyviolation", (e) => window.forbidden.push(`${e.violatedDirective} ${e.blockedURI}`));
}

let session; // of the browser, once it has logged in

async function newContext(options) {
  const context = await browser.newContext({ reducedMotion: "reduce", storageState: session, ...options });
  await context.addInitScript(observe);
  return context;
}

// login logs in all contexts from now on. A ticket leads to the page Now.
async function login() {
  session = undefined;
  const context = await newContext({ viewport: wide });
  const tab = await open(context, JSON.parse(outlierd("open", "--print", "-o", "json")).address);
  await tab.waitForURL(`${origin}/`);
  session = await context.storageState();
  for (const w of tab.wrong) fault("login", w);
  await context.close();
}

// open loads an address in a new tab and records errors on the console, dialogs, and requests to other
// servers.
async function open(context, address, want = 200) {
  const tab = await context.newPage();
  const home = new URL(address).origin;
  tab.wrong = [];
  tab.on("console", (m) => {
    // Chromium reports the status of the page itself in this way.
    const status = want >= 400 && m.text().startsWith("Failed to load resource") && m.location().url === address;
    const gone = m.location().url.includes("/thumbnails/"); // a video without a picture has a grey tile
    if (["error", "warning"].includes(m.type()) && !status && !gone) tab.wrong.push(`console: ${m.text()}`);
  });
  tab.on("pageerror", (e) => tab.wrong.push(`script: ${e.message}`));
  tab.on("dialog", (d) => { tab.wrong.push(`dialog: ${d.message()}`); d.dismiss(); });
  tab.on("request", (r) => { if (new URL(r.url()).origin !== home) tab.wrong.push(`request to ${r.url()}`); });
  const answer = await tab.goto(address);
  if (answer.status() !== want) tab.wrong.push(`HTTP ${answer.status()}, want ${want}`);
  return tab;
}

// layout returns what is wrong with the layout of a page: it scrolls horizontally, or a part does that
// should not.
function layout() {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    const over = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide, .views, .chips, nav") && e.getBoundingClientRect().right > innerWidth + 1);
    wrong.push(`${root.scrollWidth} px wide in a window of ${innerWidth}: ${over.slice(0, 3).map((e) => e.outerHTML.slice(0, 80)).join(" … ")}`);
  }
  for (const e of document.querySelectorAll("body *")) {
    const scrolls = e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    if (scrolls && !e.matches(".wide, textarea, input, .views, .chips, .top nav")) wrong.push(`scrolls sideways: ${e.outerHTML.slice(0, 80)}`);
  }
  for (const e of document.querySelectorAll(".wide")) {
    const name = e.ariaLabel ?? document.getElementById(e.getAttribute("aria-labelledby"))?.textContent;
    if (e.tabIndex !== 0 || e.getAttribute("role") !== "region" || !name) wrong.push(`cannot be scrolled by keyboard, or has no name: ${e.outerHTML.slice(0, 80)}`);
  }
  return wrong;
}

// squeezed returns the controls of which letters stand one below the other. No job has a name of 10,000 letters, which
// squeezes them, so hostile texts are left out.
function squeezed() {
  return [...document.querySelectorAll("button, .button, .chip")].filter((e) => {
    const { width, height } = e.getBoundingClientRect();
    return height > 80 && width < height / 2;
  }).map((e) => `letters stand one below the other: ${e.outerHTML.slice(0, 80)}`);
}

// accessible returns the serious and critical violations that axe-core finds.
async function accessible(tab) {
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }));
  return found.violations.filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => `axe ${v.impact} ${v.id}, ${v.nodes.length} times: ${v.nodes[0].html.slice(0, 120)} ${v.nodes[0].failureSummary.replaceAll("\n", " ").slice(0, 160)}`);
}

async function look(context, way, path, want) {
  const tab = await open(context, path.startsWith("http") ? path : origin + path, want);
  const wrong = tab.wrong;
  if (way.media) await tab.emulateMedia({ media: way.media });
  if (way.media === "print") {
    const seen = await tab.evaluate(() => ({
      ground: getComputedStyle(document.body).backgroundColor,
      tools: [...document.querySelectorAll("nav, button")].filter((e) => e.checkVisibility()).length,
    }));
    if (seen.ground !== "rgb(255, 255, 255)" || seen.tools) wrong.push(`printed: ${JSON.stringify(seen)}, want a white background and no controls`);
    if ((await tab.pdf({ format: "A4" })).length < 1000) wrong.push("an empty print");
  } else {
    wrong.push(...await tab.evaluate(layout));
    if (way.axe !== false) wrong.push(...await tab.evaluate(squeezed));
  }
  if (way.colorScheme === "dark" && !way.media) {
    const ground = await tab.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    if (Math.max(...ground) > 64) wrong.push(`the dark background is ${ground}`);
  }
  if (way.axe) wrong.push(...await accessible(tab));
  if (way.javaScriptEnabled !== false) {
    const { shift, forbidden } = await tab.evaluate(() => ({ shift: window.shift, forbidden: window.forbidden }));
    if (shift > 0.01 && !way.media) wrong.push(`its layout shifts by ${shift.toFixed(3)}`);
    for (const f of forbidden) wrong.push(`forbidden: ${f}`);
  } else if (!(await tab.locator("nav a[href='/niches']").count())) {
    wrong.push("no page without a script");
  }
  return tab;
}

// tabStops presses Tab until every link and control had the focus, which must be visible.
async function tabStops(tab) {
  const count = await tab.evaluate(() => {
    window.stops = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
      .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0);
    return window.stops.length;
  });
  const reached = new Set();
  for (let i = 0; i < count; i++) {
    await tab.keyboard.press("Tab");
    const at = await tab.evaluate(() => {
      const e = document.activeElement, style = getComputedStyle(e);
      return { stop: window.stops.indexOf(e), ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, html: e.outerHTML.slice(0, 80) };
    });
    if (at.stop !== i) tab.wrong.push(`Tab ${i + 1} leads to ${at.html}`);
    if (!at.ring) tab.wrong.push(`the focus is not visible on ${at.html}`);
    if (tab.wrong.length > 3) break;
    reached.add(at.stop);
  }
  return reached.size;
}

// What is typed into the fields of forms, by their names; "tea" into others.
const typed = { sql: "select 1 as one", words: "the", q: "a" };

// The forms that a person sees: the picked videos have one, too, whose buttons are in the bar.
const shown = "main form:not([method=post], #picked)";

// submitForms fills in and sends each form of a page, only by keyboard.
async function submitForms(context, path) {
  const forms = await (async () => {
    const tab = await open(context, origin + path);
    const n = await tab.locator(shown).count();
    await tab.close();
    return n;
  })();
  for (let i = 0; i < forms; i++) {
    const tab = await open(context, origin + path);
    const form = tab.locator(shown).nth(i);
    const button = await form.locator("button:visible").count();
    const want = {};
    const within = () => tab.evaluate(([shown, i]) => {
      const e = document.activeElement;
      return { here: Boolean(e.form) && e.form === document.querySelectorAll(shown)[i], kind: e.type === "submit" ? e.type : e.localName, name: e.name };
    }, [shown, i]);
    let at, tabs = 0;
    do {
      await tab.keyboard.press("Tab");
      at = await within();
      if (++tabs > 300) throw new Error(`${path}: form ${i + 1} is not reached by Tab`);
      if (!at.here) continue;
      if (at.kind === "select") {
        await tab.keyboard.press("ArrowDown");
        want[at.name] = await form.locator(`[name=${at.name}]`).inputValue();
      } else if (at.kind === "input" || at.kind === "textarea") {
        await tab.keyboard.press("Control+a");
        await tab.keyboard.type(want[at.name] = typed[at.name] ?? "tea");
      }
      // A form without a button is sent from its field.
    } while (!(at.here && (at.kind === "submit" || !button && at.kind === "input")));
    await Promise.all([tab.waitForNavigation(), tab.keyboard.press("Enter")]);
    const sent = new URL(tab.url()).searchParams;
    for (const [name, value] of Object.entries(want)) {
      if (sent.get(name) !== value) fault(path, `form ${i + 1} sends ${name}=${sent.get(name)}, want ${value}`);
    }
    for (const w of tab.wrong) fault(`${path}, form ${i + 1}`, w);
    await tab.close();
  }
  return forms;
}

// press follows a link or presses a button by its name, only by keyboard.
async function press(tab, name) {
  const at = () => tab.evaluate(() => document.activeElement.ariaLabel ?? document.activeElement.textContent.trim());
  for (let i = 0; !(await at()).startsWith(name); i++) {
    if (i > 300) throw new Error(`${tab.url()}: ${name} is not reached by Tab`);
    await tab.keyboard.press("Tab");
  }
  await Promise.all([tab.waitForNavigation(), tab.keyboard.press("Enter")]);
}

// The test.
writeFileSync(join(world, "jobs.yaml"), readFileSync(join(world, "jobs.yaml"), "utf8")
  .replace("\nservice:", "\nservice:\n  limit: 60/10s") + `daemon: {listen: "127.0.0.1:${port}"}\n`);
await start();
for (const job of ["tea", "capped", "nothing"]) {
  try { outlierd("run", job); } catch (e) { if (e.status !== 4) throw e; } // 4: its budget stops it
}
const [{ video }] = ask(`select video_id as video from outliers_history semi join comments using (video_id)
  semi join transcripts using (video_id) where _job = 'coffee' group by 1 order by count(*) desc, 1 limit 1`);
const [{ channel }] = ask(`select channel_id as channel from channel_statistics_history semi join channel_uploads using (channel_id)
  where _job = 'coffee' group by 1 order by count(*) desc, 1 limit 1`);
await login();
const runs = Object.fromEntries(ask("select job, max(run_id) as run from ops.runs group by 1").map((r) => [r.job, r.run]));
const sql = (text) => `/ask?sql=${encodeURIComponent(text)}`;
// Every page: its address, its status if that is not 200, a selector that must match, and the name and
// height of its picture.
const pages = [
  { path: "/", has: "#grid .card img", picture: "found", height: 960 },
  { path: "/found", has: "#grid .card:nth-child(48)" },
  { path: "/found?as=table&order=views", has: "[aria-sort]" },
  { path: "/found?topic=home+espresso&kind=video&ratio=2&days=90&order=score", has: ".menu.on" },
  { path: "/found?query=home+espresso&job=coffee", has: ".chip.on" },
  { path: "/found?page=2", has: "[rel=prev]" },
  { path: "/found?q=nothing+is+like+it", has: ".empty .chip" },
  { path: "/found?show=starred", has: ".empty" },
  { path: "/found?page=x", status: 400 },
  { path: "/niches", has: ".plot", picture: "niche", height: 960 },
  { path: "/niches/unknown", status: 404 },
  { path: "/now", has: ".jobs", picture: "now", height: 800 },
  { path: "/money", has: ".plot", picture: "money", height: 960 },
  { path: `/picked?v=${video}`, has: "#grid, .grid .card" },
  { path: "/picked", has: ".empty" },
  { path: "/views?address=/found%3Fkind%3Dshort", has: "input[name=name]" },
  { path: "/runs", has: "tbody tr" },
  { path: "/runs?job=coffee&status=ok", has: "tbody tr" },
  { path: "/runs?job=unknown", has: "text=No runs match" },
  { path: `/runs/${runs.tea}`, has: "#calls" },
  { path: `/runs/${runs.capped}`, has: "text=paused_budget" },
  { path: `/runs/${runs.nothing}`, has: "text=ok_empty" },
  { path: "/runs/unknown", status: 404 },
  { path: `/videos/${video}`, has: ".comments li", picture: "video", height: 960 },
  { path: `/videos/${video}?words=the&in=%2Ffound&n=2`, has: ".lines li" },
  { path: "/videos/unknown", status: 404 },
  { path: `/channels/${channel}`, has: "#videos" },
  { path: "/channels/unknown", status: 404 },
  { path: "/login", has: "button" },
  { path: "/do/run?job=tea", has: "button" },
  { path: `/do/look-alikes?video=${video}&by=thumbnail_video_id`, has: "button.main" },
  { path: "/do/pause?job=coffee", has: "button" },
  { path: "/do/run?job=unknown", status: 409 },
  { path: "/ask", has: "details" },
  { path: sql("select title, view_count, z_score from outliers order by view_count desc limit 20"), has: "td.number" },
  { path: sql("select * from nowhere"), has: ".notice:not([hidden])" },
  { path: sql("select 1 as one where false"), has: "#result" },
];

const links = new Set();
if (step(`${pages.length} pages, ${Object.keys(ways).join(", ")}`)) {
  for (const [name, way] of Object.entries(ways)) {
    const context = await newContext({ viewport: way.viewport, colorScheme: way.colorScheme ?? "light", javaScriptEnabled: way.javaScriptEnabled ?? true });
    for (const { path, status, has } of pages) {
      const tab = await look(context, way, path, status);
      if (has && !(await tab.locator(has).count())) tab.wrong.push(`${has} is missing`);
      for (const link of await tab.locator("a[href]").evaluateAll((all) => all.map((a) => ({ href: new URL(a.getAttribute("href"), document.baseURI).href, rel: a.getAttribute("rel") ?? "" })))) {
        if (link.href.split("#")[0] === tab.url().split("#")[0]) continue;
        if (link.href.startsWith(`${origin}/`)) links.add(link.href.split("#")[0]);
        else if (!/^https:\/\//.test(link.href) || !link.rel.includes("noopener")) tab.wrong.push(`a link to ${link.href}, rel=${link.rel}`);
      }
      for (const w of tab.wrong) fault(`${path} (${name})`, w);
      await tab.close();
    }
    await context.close();
  }
}

if (step("links")) {
  const known = await newContext({});
  for (const link of links) {
    const answer = await known.request.get(link);
    await answer.body();
    const refused = link.includes("/do/") && answer.status() === 409; // it says why
    if (answer.status() !== 200 && !refused) fault(link, `HTTP ${answer.status()}`);
  }
  await known.close();
  console.log(`${links.size} internal links lead to a page`);
}

if (step("keyboard")) {
  const context = await newContext({ viewport: wide });
  let stops = 0, forms = 0;
  for (const { path, status } of pages) {
    const tab = await open(context, origin + path, status);
    stops += await tabStops(tab);
    for (const w of tab.wrong) fault(`${path} (keyboard)`, w);
    await tab.close();
    if (!status) forms += await submitForms(context, path);
  }
  const tab = await open(context, `${origin}/ask`);
  await tab.locator("#sql").focus();
  for (const key of [..."select * from outl", "Tab", "Enter"]) await tab.keyboard.press(key);
  const begun = await tab.locator("#sql").inputValue();
  if (begun !== "select * from outliers") fault("/ask (keyboard)", `a name is completed to ${begun}`);
  await tab.close();
  console.log(`Tab reaches ${stops} links and controls; ${forms} forms are sent`);
  await context.close();
}

if (step("live")) {
  const context = await newContext({ viewport: wide });
  const bare = await newContext({ viewport: wide, javaScriptEnabled: false });
  const now = await open(context, `${origin}/now`), list = await open(context, `${origin}/runs`), still = await open(bare, `${origin}/now`);
  const row = (tab) => tab.locator("tr", { hasText: "matcha" }).first().textContent();
  const before = { now: await row(now), still: await row(still), newest: await list.locator("#live tbody a").first().textContent() };
  await now.evaluate(() => { window.same = true; });
  await now.locator("#live a").first().focus();
  const run = spawn(program, ["run", "matcha"], { cwd: world, stdio: "ignore" });
  const ended = once(run, "exit");
  const took = { start: await until("Now shows the start of a run", async () => (await row(now)) !== before.now) };
  const working = await row(now);
  await until("Runs shows the start of a run", async () => (await list.locator("#live tbody a").first().textContent()) !== before.newest);
  const one = await open(context, await list.locator("#live tbody a").first().evaluate((a) => a.href));
  const title = await one.locator("#live h1").first().textContent();
  if (run.exitCode !== null) fault("live", "the run ended before its page was open");
  const [code] = await ended;
  took.end = await until("Now shows the end of a run", async () => /ok[^]*new/.test(await row(now)) && (await row(now)) !== working);
  took.run = took.end + await until("the page of a run shows its end", async () => (await one.locator("h1").first().textContent()) !== title);
  console.log(`a run ended with ${code}; its start was shown after ${took.start} ms, its end after ${took.end} ms, on its own page after ${took.run} ms`);
  if (code !== 0) fault("live", `the run ended with ${code}`);
  for (const [what, ms] of Object.entries(took)) if (ms > 2000) fault("live", `${what} was shown after ${ms} ms`);
  if (!(await now.evaluate(() => window.same && document.activeElement.closest("#live")))) fault("live", "the page was loaded again, or lost the focus");
  if ((await row(still)) !== before.still) fault("live", "a page without a script has changed");
  await still.reload();
  if ((await row(still)) === before.still) fault("live", "a page without a script does not show the run when it is loaded again");
  for (const tab of [now, list, one, still]) for (const w of tab.wrong) fault(`live ${tab.url()}`, w);

  const away = now.locator("#away");
  if (await away.isVisible()) fault("live", "the notice shows while outlierd up answers");
  now.wrong.length = 0;
  await stop();
  const gone = await until("the notice that outlierd up does not answer", () => away.isVisible());
  await start();
  const back = await until("the notice goes", async () => !(await away.isVisible()));
  console.log(`without outlierd up a notice says so after ${gone} ms, and goes ${back} ms after it is back`);
  await context.close();
  await bare.close();
}

if (step("buttons")) {
  await login(); // the restart has ended all sessions
  const context = await newContext({ viewport: wide });
  const tab = await open(context, `${origin}/now`);
  const row = (job) => tab.locator("tr", { hasText: job }).first().textContent();
  const says = async (text) => {
    if (!(await tab.locator("main").textContent()).includes(text)) fault(`buttons ${tab.url()}`, `does not say: ${text}`);
  };
  await press(tab, "Run sencha");
  await says("sencha: at most 4 credits");
  await press(tab, "Run it");
  await says("of sencha");
  await tab.goto(`${origin}/now`);
  await until("Now lets the run be stopped", async () => (await row("sencha")).includes("Stop"));
  await press(tab, "Stop the run of sencha");
  await press(tab, "Stop it");
  await tab.goto(`${origin}/now`);
  const stopped = await until("Now shows that the run was stopped", async () => !(await row("sencha")).includes("Stop"));
  await press(tab, "Pause coffee");
  await tab.keyboard.press("Tab");
  while (await tab.evaluate(() => document.activeElement.name !== "until")) await tab.keyboard.press("Tab");
  await tab.keyboard.type("12h");
  await tab.keyboard.press("Tab");
  await tab.keyboard.type("a holiday");
  await press(tab, "Pause it");
  await says("a holiday");
  await press(tab, "Resume coffee");
  await press(tab, "Resume it");
  if ((await row("coffee")).includes("a holiday")) fault("buttons", "Now shows a pause that has ended");
  await press(tab, "Logged in");
  await press(tab, "Log out");
  for (const w of tab.wrong) fault("buttons", w);
  const answer = await tab.goto(`${origin}/do/run?job=tea`);
  if (answer.status() !== 401) fault("buttons", `HTTP ${answer.status()} after the logout, want 401`);
  console.log(`a run was started, and stopped within ${stopped} ms; a job was paused and resumed; and the browser logged out`);
  await context.close();
}

if (step("the ten most striking new outliers of a niche, for a colleague")) {
  await login();
  const context = await newContext({ viewport: wide, permissions: ["clipboard-read", "clipboard-write"] });
  const tab = await open(context, `${origin}/`);
  const began = performance.now();
  // What a person needs for it, by the keystroke-level model: 1.35 s to decide, 1.1 s to point, 0.2 s to press.
  let person = 0, pictured = 0;
  const click = async (what) => { person += 2.65; await what.click(); };
  const key = async (keys) => { for (const k of keys) { person += 1.35 + 0.28; await tab.keyboard.press(k); } };
  const type = async (field, text) => { person += 2.65 + 0.28 * text.length; await field.fill(text); };
  const take = async (name) => { if (process.env.STEPS) await tab.screenshot({ path: join(process.env.STEPS, `task-${++pictured}-${name}.png`) }); };
  await take("new this week");
  await click(tab.locator("summary", { hasText: "Topic" }));
  await take("topics");
  await click(tab.locator(".menu[open] a", { hasText: "green tea" }));
  await tab.waitForURL(/topic=green/);
  await tab.waitForFunction(() => [...document.images].slice(0, 8).every((i) => i.complete));
  await take("the niche, strongest first");
  person += 10 * 4; // to look at ten thumbnails and titles
  await key("jo"); // one of them more closely
  await tab.waitForURL(/videos/);
  person += 8;
  await take("a closer look");
  await key("s");
  await until("the star is shown", () => tab.locator(".hero [aria-pressed=true]").count());
  await click(tab.locator(".crumb a").first());
  await tab.waitForURL(/topic=green/);
  for (let i = 0; i < 10; i++) await key("jx");
  await take("ten are picked");
  if ((await tab.locator(".bar .n").innerText()).trim() !== "10 picked" && (await tab.locator("[name=v]:checked").count()) !== 10) fault("task", "not ten videos are picked");
  await click(tab.locator(".bar button", { hasText: "★ Star" }));
  await until("all are starred", async () => (await tab.locator("#said").textContent()) === "10 starred");
  await type(tab.locator(".bar input"), "week, hook");
  await tab.keyboard.press("Enter");
  await until("all are tagged", async () => (await tab.locator("#said").textContent()) === "10 tagged");
  await take("marked");
  await click(tab.locator(".bar button", { hasText: "Copy links" }));
  await until("the links are copied", async () => (await tab.locator("#said").textContent()) === "Copied");
  const copied = await tab.evaluate(() => navigator.clipboard.readText());
  if (copied.split("\n").length !== 10 || !copied.startsWith("https://youtu.be/")) fault("task", `copied ${copied}`);
  person += 2.65;
  const [file] = await Promise.all([tab.waitForEvent("download"), tab.locator(".bar button", { hasText: "Excel" }).click()]);
  if (file.suggestedFilename() !== "outlierd.xlsx") fault("task", `downloaded ${file.suggestedFilename()}`);
  await click(tab.locator(".bar button", { hasText: "board" }));
  await tab.waitForURL(/picked/);
  if ((await tab.locator(".card").count()) !== 10) fault("task", "the board has other videos than those picked");
  await take("the board");
  await tab.goto(`${origin}/found?q=%23HOOK`);
  if ((await tab.locator(".card").count()) !== 10) fault("task", "the tag does not find the ten videos");
  await click(tab.locator("a", { hasText: "Save this view" }));
  await type(tab.locator("input[name=name]"), "Hooks to steal");
  await click(tab.locator("button", { hasText: "Save" }));
  if (!(await tab.locator(".views [aria-current]", { hasText: "Hooks to steal" }).count())) fault("task", "the saved view is no tab");
  await take("a view of them");
  person += 2.65 + 0.28 * 50; // a command
  outlierd("share", "Hooks to steal", "--to", "week.html", "--force");
  const colleague = await open(await newContext({ viewport: wide, storageState: undefined, offline: true }), `file://${join(world, "week.html")}`);
  await colleague.waitForFunction(() => [...document.images].every((i) => i.complete));
  const sent = await colleague.evaluate(() => ({ cards: document.querySelectorAll(".card").length, pictures: [...document.images].filter((i) => i.naturalWidth).length, text: document.body.textContent }));
  if (sent.cards !== 10 || sent.pictures < 8 || sent.text.includes("hook,")) fault("task", `the file for a colleague has ${JSON.stringify(sent).slice(0, 80)}`);
  for (const w of colleague.wrong) fault("task, the file", w);
  if (process.env.STEPS) await colleague.screenshot({ path: join(process.env.STEPS, `task-${++pictured}-what the colleague gets.png`) });
  await colleague.context().close();
  const seconds = (performance.now() - began) / 1000;
  console.log(`found, judged, marked, exported and sent: ${seconds.toFixed(1)} s of the browser, and about ${person.toFixed(0)} s of a person`);
  if (seconds + person > 180) fault("task", "it takes a person more than three minutes");
  for (const w of tab.wrong) fault("task", w);

  // Hidden from the bar, and shown again.
  await tab.goto(`${origin}/found?q=%23hook`);
  await tab.locator(".card .pick input").first().check({ force: true });
  await tab.locator(".bar button", { hasText: "Hide" }).click();
  await until("the video is hidden", async () => (await tab.locator("#said").textContent()) === "1 hidden");
  if ((await tab.locator(".card:visible").count()) !== 9) fault("task", "a hidden video is still shown");
  await tab.goto(`${origin}/found?show=hidden`);
  await tab.locator(".card h3 a").first().click();
  await tab.locator("button", { hasText: "Show again" }).click();
  await tab.waitForURL(/videos/);
  await context.close();

  const bare = await newContext({ viewport: phone, javaScriptEnabled: false });
  const plain = await open(bare, `${origin}/found?q=%23hook`);
  await plain.locator(".card .star").first().click(); // without a script the star is a button of a form
  if (!plain.url().includes("q=%23hook")) fault("task without script", `the star leads to ${plain.url()}`);
  await plain.locator(".card .pick input").first().check({ force: true });
  await plain.locator(".bar button", { hasText: "board" }).click();
  if ((await plain.locator(".card").count()) !== 1) fault("task without script", "the board has other videos than the picked one");
  for (const w of plain.wrong) fault("task without script", w);
  await bare.close();
}

// served lets a test of the package serve pages. It returns their addresses, and how to end it.
async function served(test) {
  const server = spawn(join(here, "page.test"), ["-test.run", `^${test}$`, "-serve", "127.0.0.1:0"], { stdio: ["pipe", "pipe", "inherit"] });
  const over = once(server, "exit");
  const addresses = [];
  for await (const line of createInterface(server.stdout)) {
    if (!line) break; // all addresses are printed
    if (line.startsWith("http://")) addresses.push(line);
  }
  if (!addresses.length) fault(test, "no page is served");
  return { addresses, end: () => { server.stdin.end(); return over; } };
}

// differ returns the share of the parts of a picture that differ from those of another one, each of 16 by 16 pixels by
// its mean colour. Text that is a little different, as with another version of a font, does not count.
async function differ(tab, one, other) {
  return tab.evaluate(async (pictures) => {
    const parts = [];
    for (const picture of pictures) {
      const image = new Image();
      image.src = `data:image/jpeg;base64,${picture}`;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [Math.round(image.width / 16), Math.round(image.height / 16)];
      const to = canvas.getContext("2d");
      to.imageSmoothingQuality = "high";
      to.drawImage(image, 0, 0, canvas.width, canvas.height);
      parts.push(to.getImageData(0, 0, canvas.width, canvas.height));
    }
    const [a, b] = parts;
    if (a.width !== b.width || a.height !== b.height) return 1;
    let different = 0;
    for (let i = 0; i < a.data.length; i += 4) if ([0, 1, 2].some((c) => Math.abs(a.data[i + c] - b.data[i + c]) > 24)) different++;
    return different / (a.data.length / 4);
  }, [one.toString("base64"), other.toString("base64")]);
}

if (step("pictures of a sample, beside the stored ones")) {
  const { addresses, end } = await served("TestServeSample");
  const looks = await newContext({ storageState: undefined });
  const canvas = await looks.newPage();
  let most = 0, count = 0;
  for (const name of ["wide", "dark", "phone"]) {
    const way = ways[name];
    const context = await newContext({ viewport: way.viewport, colorScheme: way.colorScheme ?? "light", storageState: undefined });
    for (const address of addresses) {
      if (name === "dark" && !/(\/|money|videos.*)$/.test(address)) continue; // the colours are the same in all
      const tab = await look(context, way, address);
      for (const w of tab.wrong) fault(`${address} (${name})`, w);
      await tab.waitForFunction(() => [...document.images].every((i) => i.complete || i.loading === "lazy"));
      const picture = await tab.screenshot({ type: "jpeg", quality: 60 });
      const file = join(stored, `${new URL(address).pathname.replaceAll("/", "-").slice(1) || "new"}-${name}.jpg`);
      if (pictures) writeFileSync(file, picture);
      else if (!existsSync(file)) fault(file, "is not stored; --pictures stores it");
      else {
        const share = await differ(canvas, picture, readFileSync(file));
        most = Math.max(most, share);
        if (share > 0.02) {
          writeFileSync(join(tmpdir(), basename(file)), picture);
          fault(address, `${name}: ${(100 * share).toFixed(1)} % of it differs from ${basename(file)}; see ${join(tmpdir(), basename(file))}`);
        }
      }
      count++;
      await tab.close();
    }
    await context.close();
  }
  await looks.close();
  await end();
  console.log(`${count} pictures; ${(100 * most).toFixed(2)} % of one at most differs`);
}

if (step("hostile texts")) {
  const { addresses, end } = await served("TestServeHostile");
  for (const name of ["wide", "phone", "no script"]) {
    const way = ways[name];
    // Without the session, as a browser would send that to all ports of the host.
    const context = await newContext({ viewport: way.viewport, javaScriptEnabled: way.javaScriptEnabled ?? true, storageState: undefined });
    for (const address of addresses) {
      const tab = await look(context, { ...way, axe: false }, address);
      tab.wrong.push(...await tab.evaluate(() => {
        const odd = [...document.querySelectorAll("*")].filter((e) =>
          [...e.attributes].some((a) => a.name.startsWith("on") || /^\s*(javascript|data):/i.test(a.value)) ||
          e.matches("img:not([src^='/thumbnails/']), iframe, object, embed, base, style, script:not([src^='/page.js?'])"));
        return odd.map((e) => `in the page: ${e.outerHTML.slice(0, 80)}`);
      }));
      for (const a of await tab.locator("nav a").all()) await a.hover(); // nothing covers the page's own links
      for (const w of tab.wrong) fault(`${address.slice(0, 80)} (${name})`, w);
      await tab.close();
    }
    await context.close();
  }
  await end();
  console.log(`${addresses.length} pages full of hostile texts show them as text`);
}

if (step("ten pages open for a minute")) {
  await stop(); // so that the runs' CPU and memory do not count
  await start();
  const pid = daemon.pid;
  const cpu = () => { // milliseconds
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  const memory = () => Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/RssAnon:\s+(\d+)/)[1]) / 1024; // MB
  const span = async (ms) => { // of CPU as a share of a core, and the most memory
    const began = performance.now(), used = cpu();
    let most = 0;
    while (performance.now() - began < ms) {
      most = Math.max(most, memory());
      await new Promise((go) => setTimeout(go, 250));
    }
    return { share: 100 * (cpu() - used) / (performance.now() - began), most };
  };
  await fetch(origin).then((r) => r.text());
  const idle = await span(10_000);
  const context = await newContext({ viewport: wide });
  let requests = 0;
  context.on("request", () => requests++);
  for (let i = 0; i < 10; i++) await open(context, origin + ["/now", "/runs"][i % 2]);
  requests = 0;
  const busy = await span(60_000);
  console.log(`${requests} requests; CPU ${busy.share.toFixed(2)} % of a core, ${idle.share.toFixed(2)} % without them; ` +
    `memory ${busy.most.toFixed(1)} MB, ${idle.most.toFixed(1)} MB without them`);
  if (requests < 500) fault("ten pages", `${requests} requests in a minute: they are not updated`);
  // Each page asks once a second, while the browser keeps the cores busy: 5 ms of CPU for each request.
  if (busy.share - idle.share > 5) fault("ten pages", "more than 5 % of a core");
  if (busy.most - idle.most > 30) fault("ten pages", "more than 30 MB");
  await context.close();
}

if (pictures && step("pictures")) {
  const context = await newContext({ viewport: { width: 1100, height: 960 } });
  for (const { path, picture, height = 640 } of pages.filter((p) => p.picture)) {
    const tab = await open(context, origin + path);
    const file = join(pictures, `page-${picture}.png`);
    await tab.screenshot({ path: file, clip: { x: 0, y: 0, width: 1100, height } });
    console.log(`${file}: ${Math.round(readFileSync(file).length / 1000)} kB`);
    await tab.close();
  }
  await context.close();
}

await browser.close();
await stop();
console.log(faults.length ? `\n${faults.length} faults` : `\n${pages.length} pages have no faults`);
process.exit(faults.length ? 1 : 0);
