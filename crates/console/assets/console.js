// The console's only script. Every page works without it: it shows times in the browser's time zone,
// replaces the live parts of a page when they change, adds shortcuts, and copies text.

/** Pause between two updates of a page, in milliseconds. */
const UPDATE_INTERVAL = 1000;
/** Pause before a broken event stream is opened again, in milliseconds. */
const RECONNECT_INTERVAL = 3000;

const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Shows the times below `root` in the browser's time zone. */
function localizeTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (!Number.isNaN(date.valueOf())) {
      time.title = time.dateTime;
      time.textContent = timeFormat.format(date);
    }
  }
}

/** Returns whether the user is typing in `element`, or has opened something that an update would close. */
function isInUse(element) {
  const focused = document.activeElement;
  const isTyping = element.contains(focused) && focused.matches("input, select, textarea");
  return isTyping || element.querySelector("details[open]:not([id])") !== null;
}

/** Opens in `update` what the user has opened in `part`. */
function keepOpen(part, update) {
  for (const { id } of part.querySelectorAll("details[open][id]")) {
    update.querySelector(`details[id="${CSS.escape(id)}"]`)?.setAttribute("open", "");
  }
}

/** Loads the page again and replaces those of its parts that have changed. */
async function updatePage() {
  const response = await fetch(location.href, { headers: { "x-requested-with": "console.js" } });
  if (response.redirected || response.status === 401) {
    location.reload();
    return;
  }
  if (!response.ok) {
    throw new Error(`status ${response.status}`);
  }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  localizeTimes(page);
  for (const part of document.querySelectorAll("[data-live-part]")) {
    const update = page.getElementById(part.id);
    if (update !== null) keepOpen(part, update);
    if (update !== null && update.innerHTML !== part.innerHTML && !isInUse(part)) {
      part.replaceChildren(...update.childNodes);
    }
  }
}

/** Listens to the changes that the page shows, and updates the page after each. */
function followChanges(url) {
  const notice = document.getElementById("offline");
  let isUpdating = false;
  let isStale = false;
  /** Number of errors since the stream was last open. */
  let errors = 0;
  async function update() {
    isStale = true;
    if (isUpdating) return;
    isUpdating = true;
    while (isStale) {
      isStale = false;
      try {
        await updatePage();
        notice.hidden = true;
      } catch {
        notice.hidden = false;
      }
      await new Promise((resolve) => setTimeout(resolve, UPDATE_INTERVAL));
    }
    isUpdating = false;
  }
  function open() {
    const events = new EventSource(url);
    events.addEventListener("change", update);
    // An application that forwards the console's requests may switch live updates off.
    events.addEventListener("off", () => events.close());
    events.onopen = () => {
      if (errors > 0 || !notice.hidden) update();
      errors = 0;
      notice.hidden = true;
    };
    events.onerror = () => {
      // The first error is not shown, because such an application limits the duration of streams.
      errors += 1;
      if (errors > 1) notice.hidden = false;
      if (events.readyState === EventSource.CLOSED) setTimeout(open, RECONNECT_INTERVAL);
    };
    addEventListener("pagehide", () => events.close(), { once: true });
  }
  open();
}

/** Moves the selection among the rows that have a shortcut target. */
function moveSelection(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) return;
  const current = rows.findIndex((row) => row.hasAttribute("data-selected"));
  const next = Math.min(Math.max(current + step, 0), rows.length - 1);
  rows[current]?.removeAttribute("data-selected");
  rows[next].setAttribute("data-selected", "");
  rows[next].querySelector("a")?.focus();
}

/** Keys that focus a button or a field, or follow a link. A key never presses a button. */
const SHORTCUTS = { a: "[data-key=a]", d: "[data-key=d]", e: "[data-key=e]", "/": "[data-key='/']" };

function handleKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") {
    moveSelection(event.key === "j" ? 1 : -1);
    return;
  }
  const target = document.querySelector(SHORTCUTS[event.key] ?? "[data-key='']");
  if (target !== null) {
    event.preventDefault();
    target.focus();
    if (target.matches("a")) target.click();
  }
}

/** Copies the text of the element that the button names. */
async function copyText(button) {
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.textContent);
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1500);
}

localizeTimes(document);
document.addEventListener("keydown", handleKey);
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button !== null) copyText(button);
});
const live = document.querySelector("[data-live]");
if (live !== null) followChanges(live.dataset.live);
