// Search, sorting, themes, shortcuts, SASS below a source line, downloads: the page is complete without them.
// No network access, no storage; text is only ever inserted as text, never as HTML.
(() => {
  "use strict";

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // As texts.visible in Python: controls and what reorders or hides text are shown as a replacement character.
  const HIDDEN = /(?![\n\t\uFE00-\uFE0F])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

  const make = (tag, text = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = String(text).replace(HIDDEN, "\uFFFD");
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  const button = (text, key, act) => {
    const element = make("button", text, { type: "button" });
    if (key) element.append(make("kbd", key));
    element.addEventListener("click", act);
    return element;
  };

  // ------------------------------------------------------------------------------------------ theme

  const THEMES = ["auto", "light", "dark"];
  let theme = 0;
  const themeButton = button("", "t", () => turnTheme());
  const themeName = document.createTextNode("Theme: auto");
  themeButton.prepend(themeName);

  function turnTheme() {
    theme = (theme + 1) % THEMES.length;
    if (theme) document.documentElement.dataset.theme = THEMES[theme];
    else delete document.documentElement.dataset.theme;
    themeName.data = `Theme: ${THEMES[theme]}`;
  }

  // ---------------------------------------------------------------------------------------- folding

  const folds = () => all("main details");
  const foldButton = button("", "e", () => turnFolds());
  const foldName = document.createTextNode("Expand all");
  foldButton.prepend(foldName);
  let unfolded = false;

  function turnFolds() {
    unfolded = !unfolded;
    for (const part of folds()) part.open = unfolded;
    for (const box of all(".gap input")) box.checked = unfolded;
    foldName.data = unfolded ? "Collapse all" : "Expand all";
  }

  function reveal(element) {
    for (let part = element.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    const section = element.closest("section");
    if (section?.matches(".shut")) toggle(section);
    const box = element.closest("tbody")?.previousElementSibling?.querySelector(".gap input");
    if (box) box.checked = true;
  }

  // A click on a section's heading hides the section, or shows it again.
  function toggle(section) {
    const shut = section.classList.toggle("shut");
    section.querySelector("h2 > button").setAttribute("aria-expanded", String(!shut));
  }

  function makeCollapsible(section) {
    const heading = section.querySelector(":scope > h2");
    if (!heading) return;
    const press = make("button", "", { type: "button", "aria-expanded": "true" });
    press.append(...heading.childNodes);
    press.addEventListener("click", () => toggle(section));
    heading.append(press);
  }

  // --------------------------------------------------------------------------------------- hot lines

  const hotLines = () => {
    const excess = all(".source td.hot");
    const cells = excess.length ? excess : all('.source td[style*="--warm:1"]');
    return [...new Set(cells.map((cell) => cell.closest("tr")))];
  };
  let hot = -1;

  function jump(step) {
    const lines = hotLines();
    if (!lines.length) return;
    hot = hot < 0 && step < 0 ? lines.length - 1 : (hot + step + lines.length) % lines.length;
    const line = lines[hot];
    reveal(line);
    location.replace(`#${line.id}`);
    line.tabIndex = -1;
    line.focus({ preventScroll: true });
  }

  // -------------------------------------------------------------------------------------------- sort

  // A cell's number, in its unit; a factor (× or ÷) as its ratio. Null for anything else, such as "unknown".
  function number(text) {
    const plain = text.trim().replaceAll(",", "").replaceAll("−", "-").replace(/^(\+|at least )/, "");
    if (plain === "same") return 0;
    if (/^0x[0-9a-f]+$/i.test(plain)) return parseInt(plain, 16);
    const value = parseFloat(plain.replace(/^[×÷]\s*/, ""));
    if (Number.isNaN(value)) return null;
    return plain.startsWith("÷") ? 1 / value : value;
  }

  const textOf = (row, column) => row.cells[column]?.textContent.trim() ?? "";

  // Numbers sort largest first, text from A; a second click reverses the order. Unknown values stay last.
  function sort(table, head) {
    const column = [...head.parentElement.cells].indexOf(head);
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: textOf(row, column), number: null }));
    const words = head.matches(".name, .text");
    for (const entry of rows) entry.number = words ? null : number(entry.text);
    const numeric = rows.some((entry) => entry.number !== null);
    const before = head.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric;
    const turn = descending ? -1 : 1;
    rows.sort((a, b) => {
      if (!numeric) return turn * a.text.localeCompare(b.text, "en", { numeric: true });
      if (a.number === null || b.number === null) return (a.number === null) - (b.number === null);
      return turn * (a.number - b.number);
    });
    table.tBodies[0].append(...rows.map((entry) => entry.row));
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  function makeSortable(table) {
    for (const head of table.tHead.rows[table.tHead.rows.length - 1].cells) {
      if (!head.textContent.trim()) continue;
      const press = make("button", "", { type: "button", title: "Sort by this column" });
      press.append(...head.childNodes);
      head.append(press);
      press.addEventListener("click", () => sort(table, head));
    }
  }

  // ------------------------------------------------------------------------------------------ search

  function makeSearchable(region) {
    const noun = region.dataset.search;
    const box = make("div", "", { class: "search" });
    const field = make("input", "", { type: "search", placeholder: `Search ${noun}`, "aria-label": `Search ${noun}` });
    const status = make("span", "", { role: "status" });
    box.append(field, status);
    region.before(box);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...region.querySelector("table").tBodies[0].rows];
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      const left = rows.filter((row) => !row.hidden).length;
      status.textContent = words.length ? `${grouped(left)} of ${grouped(rows.length)}` : "";
    });
  }

  // The search of the section in view; elsewhere that of the raw metrics, the last on the page.
  function find() {
    const fields = all(".search input");
    const inView = (field) => {
      const { top, bottom } = (field.closest("section") ?? field).getBoundingClientRect();
      return top < innerHeight / 2 && bottom > innerHeight / 4;
    };
    const field = fields.find(inView) ?? fields.at(-1);
    if (!field) return;
    reveal(field);
    field.focus();
    field.scrollIntoView({ block: "center" });
  }

  // ------------------------------------------------------------------------------------ the profiles

  const canUnpack = "DecompressionStream" in window; // browsers before 2023 may lack it
  const stored = canUnpack ? all('script[type="application/gzip"]') : [];
  const parsed = new Map();

  // A saved profile as it was saved: a blob of JSON.
  function unpacked(script) {
    const packed = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream, { headers: { "content-type": "application/json" } }).blob();
  }

  // A saved profile by its label (behind its section's prefix if the page has several kernels); null if this page
  // does not embed it or it cannot be parsed.
  async function load(label) {
    if (parsed.has(label)) return;
    const match = stored.find((script) => JSON.parse(script.dataset.key) === label);
    try {
      parsed.set(label, match ? JSON.parse(await (await unpacked(match)).text()) : null);
    } catch {
      parsed.set(label, null);
    }
  }

  const profile = (label) => parsed.get(label);

  async function download(script) {
    const address = URL.createObjectURL(await unpacked(script));
    const link = make("a", "", { href: address, download: script.dataset.file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  function makeDownloads() {
    const buttons = document.querySelector("#data .data");
    if (!buttons) return;
    for (const script of stored) buttons.append(button(`Download ${script.dataset.file}`, "", () => download(script)));
  }

  // ---------------------------------------------------------------------------- the SASS of a line

  const sites = new Map();

  // A profile's instructions by "file:line"; a line includes everything inlined into it.
  function bySite(label) {
    if (!sites.has(label)) {
      const byLine = new Map();
      const table = profile(label)?.instructions;
      const at = table && table.columns.indexOf("stack");
      for (const row of table?.rows ?? []) {
        for (const line of new Set((table.stacks[row[at]] ?? []).map(([file, number]) => `${file}:${number}`))) {
          if (!byLine.has(line)) byLine.set(line, []);
          byLine.get(line).push(row);
        }
      }
      sites.set(label, byLine);
    }
    return sites.get(label);
  }

  const grouped = (value) => (value === null ? "" : String(value).replace(/\B(?=(\d{3})+$)/g, ","));

  function listing(key, label, rows) {
    const { columns } = profile(key).instructions;
    const value = (row, name) => row[columns.indexOf(name)];
    const start = Math.min(...profile(key).instructions.rows.map((row) => value(row, "pc")));
    const table = make("table");
    table.append(make("caption", `${label}: ${grouped(rows.length)} instructions`));
    const head = table.createTHead().insertRow();
    for (const [title, kind] of [["Offset", "num"], ["SASS", "text"], ["Executed", "num"], ["Wavefronts", "num"],
      ["Ideal", "num"], ["Samples", "num"]]) head.append(make("th", title, { scope: "col", class: kind }));
    const body = table.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      const samples = Object.values(value(row, "samples")).reduce((sum, count) => sum + count, 0);
      line.append(make("td", `0x${(value(row, "pc") - start).toString(16).padStart(4, "0")}`, { class: "num" }));
      const code = make("td", "", { class: "text" });
      code.append(make("code", value(row, "sass")));
      line.append(code);
      for (const count of [value(row, "executed"), value(row, "wavefronts"), value(row, "ideal"), samples]) {
        line.append(make("td", grouped(count), { class: "num" }));
      }
    }
    return table;
  }

  async function unfold(press, row, panel) {
    const open = press.getAttribute("aria-expanded") === "true";
    press.setAttribute("aria-expanded", String(!open));
    if (open) {
      if (row.nextElementSibling?.matches(".under")) row.nextElementSibling.remove();
      return;
    }
    const keys = JSON.parse(panel.dataset.labels).map((label) => panel.dataset.prefix + label);
    await Promise.all(keys.map(load));
    if (press.getAttribute("aria-expanded") === "false" || row.nextElementSibling?.matches(".under")) return;
    const below = make("tr", "", { class: "under" });
    const cell = make("td", "", { colspan: 99 });
    const sides = make("div", "", { class: "sides" });
    const path = JSON.parse(panel.dataset.source);
    const numbers = row.dataset.lines && JSON.parse(row.dataset.lines);
    for (const [side, label] of JSON.parse(panel.dataset.labels).entries()) {
      const key = panel.dataset.prefix + label; // labels repeat on a page of several kernels
      const rows = bySite(key).get(`${path}:${numbers ? numbers[side] : press.textContent}`);
      if (rows) sides.append(listing(key, label, rows));
    }
    if (!sides.children.length) sides.append(make("p", canUnpack ? "This page does not embed the instructions of this line." : "This browser cannot unpack them."));
    cell.append(sides);
    below.append(cell);
    row.after(below);
  }

  function makeUnfoldable(panel) {
    for (const row of all("tr[id]", panel)) {
      const head = row.cells[0];
      const press = make("button", head.textContent, { type: "button", "aria-expanded": "false", title: "Show its SASS" });
      head.replaceChildren(press);
      press.addEventListener("click", () => unfold(press, row, panel));
    }
  }

  // ------------------------------------------------------------------------------------------- start

  const KEYS = { n: () => jump(1), p: () => jump(-1), t: turnTheme, e: turnFolds, "/": find };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  const tools = make("div", "", { class: "tools" });
  if (hotLines().length) tools.append(button("Next hot line", "n", () => jump(1)), button("Previous", "p", () => jump(-1)));
  tools.append(foldButton, button("Search", "/", find), themeButton);
  document.querySelector("header").append(tools);
  all("table.sortable").forEach(makeSortable);
  all("section:not(#data)").forEach(makeCollapsible);
  all("[data-search]").forEach(makeSearchable);
  all(".panel[data-labels]").forEach(makeUnfoldable);
  for (const panel of all(".panel:first-of-type")) {
    const note = panel.parentElement.querySelector(":scope > .note");
    note?.append(make("span", " Click a line number for its SASS.", { class: "by-script" }));
  }
  makeDownloads();
  // A link into a folded part opens it, also in browsers that do not do so themselves.
  const toTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target) reveal(target);
  };
  addEventListener("hashchange", toTarget);
  toTarget();
})();
