// The little the operator's pages need beyond HTMX: messages about failed requests, the drawer, scroll keeping.
"use strict";

const byId = (id) => document.getElementById(id);

function toast(text) {
  const box = document.createElement("p");
  box.className = "toast";
  box.textContent = text;
  byId("toasts").append(box);
  setTimeout(() => box.remove(), 7000);
}

/** The text of an error answer: our JSON faults, FastAPI's detail, or the plain body. */
function reasonOf(request) {
  try {
    const body = JSON.parse(request.responseText);
    if (body.errors) return body.errors.map((e) => [e.field, e.message].filter(Boolean).join(": ")).join(" · ");
    return typeof body.detail === "string" ? body.detail : `The console answered ${request.status}.`;
  } catch {
    return request.responseText.slice(0, 300) || `The console answered ${request.status}.`;
  }
}

document.addEventListener("htmx:responseError", (event) => {
  const type = event.detail.xhr.getResponseHeader("content-type") || "";
  if (!type.startsWith("text/html")) toast(reasonOf(event.detail.xhr));
});
document.addEventListener("htmx:sendError", () => toast("The console did not answer. Is livery still running?"));

function linkState(state, text) {
  byId("link-state").dataset.state = state;
  byId("link-state").textContent = text;
}
document.addEventListener("htmx:sseOpen", () => linkState("open", "live"));
document.addEventListener("htmx:sseError", () => linkState("lost", "connection lost, trying again"));

// The chat stays at its end unless the operator has scrolled up.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const box = event.target;
  if (box.dataset.stick !== undefined) box.dataset.stick = box.scrollHeight - box.scrollTop - box.clientHeight < 40 ? "end" : "no";
});
document.addEventListener("htmx:sseMessage", (event) => {
  const box = event.target;
  if (box.dataset.stick === "end") box.scrollTop = box.scrollHeight;
});

// The item list shows what is on screen, whoever put it there.
document.addEventListener("htmx:sseMessage", (event) => {
  const shown = event.target.querySelector?.("[data-on-screen]");
  const list = byId("item-select");
  if (shown && list && document.activeElement !== list) list.value = shown.dataset.onScreen;
});
for (const box of document.querySelectorAll("[data-stick]")) box.scrollTop = box.scrollHeight;

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close-drawer]")) byId("drawer").replaceChildren();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && byId("drawer")) byId("drawer").replaceChildren();
});

document.addEventListener("htmx:afterRequest", (event) => {
  const field = event.target.dataset?.reset;
  if (field && event.detail.successful) event.target.elements[field].value = "";
});

for (const list of document.querySelectorAll("[data-submit]")) list.addEventListener("change", () => list.form.submit());
byId("room-select")?.addEventListener("change", (event) => {
  location.search = new URLSearchParams({ room: event.target.value });
});

// The editor: what is typed but not yet saved is named, and the page asks before it is left with it.
const source = byId("source");
let unsaved = false;
source?.addEventListener("input", () => {
  unsaved = true;
  byId("save-state").textContent = "Typing…";
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt !== source) return;
  if (event.detail.successful) unsaved = false;
  else byId("save-state").textContent = "Not saved";
});
addEventListener("beforeunload", (event) => {
  if (unsaved) event.preventDefault();
});
source?.addEventListener("keydown", (event) => {
  if (event.key !== "Tab" || event.shiftKey) return;
  event.preventDefault();
  source.setRangeText("  ", source.selectionStart, source.selectionEnd, "end");
  source.dispatchEvent(new Event("input", { bubbles: true }));
});
