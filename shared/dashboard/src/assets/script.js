"use strict";
(() => {
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const help = document.getElementById("help");
  let version = document.body.dataset.version;

  // Ages count on without a request.
  const age = (at) => {
    const seconds = Math.max(0, Math.floor((Date.now() - at) / 1000));
    if (seconds < 60) return `${seconds}s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
    return `${Math.floor(seconds / 86400)}d`;
  };
  setInterval(() => {
    for (const time of main.querySelectorAll("time[data-at]")) {
      const text = age(Number(time.dataset.at));
      if (time.textContent !== text) time.textContent = text;
    }
  }, 1000);

  // The current page again, in place: only rows that differ are replaced.
  let loading = false;
  let stale = false;
  const refresh = async () => {
    if (loading) { stale = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.redirected || answer.status === 401) { location.reload(); return; }
      if (!answer.ok) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      version = next.body.dataset.version;
      morph(main, next.getElementById("main"));
      setLive("on");
    } catch { setLive("off"); } finally {
      loading = false;
      if (stale) { stale = false; refresh(); }
    }
  };

  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;
  const morph = (old, now) => {
    if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
    if (old.tagName === "TIME" || old === document.activeElement && /^(INPUT|SELECT)$/.test(old.tagName)) {
      if (old.dataset.at !== now.dataset.at) old.replaceWith(document.importNode(now, true));
      return;
    }
    const open = old.tagName === "DETAILS" ? old.open : null;
    const before = old.className;
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (open !== null) old.open = open;
    if (old.tagName === "TR" && before !== now.className) {
      old.classList.add("changed");
      setTimeout(() => old.classList.remove("changed"), 1700);
    }
    const news = [...now.childNodes];
    let at = old.firstChild;
    for (const child of news) {
      if (at && same(at, child)) { const next = at.nextSibling; morph(at, child); at = next; }
      else old.insertBefore(document.importNode(child, true), at);
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  };

  const setLive = (state) => {
    live.className = `live ${state}`;
    live.querySelector(".text").textContent = state === "on" ? "live" : "offline";
  };

  const changed = (next) => { setLive("on"); if (next && next !== version) refresh(); };
  if (document.body.dataset.live === "events") {
    // Only while the page is shown: a browser keeps few connections to one host.
    let events = null;
    const follow = () => {
      if (document.hidden) { events?.close(); events = null; return; }
      if (events && events.readyState !== EventSource.CLOSED) return;
      events = new EventSource("/events");
      events.addEventListener("version", (event) => changed(event.data));
      events.addEventListener("open", () => setLive("on"));
      events.addEventListener("error", () => setLive("off"));
    };
    document.addEventListener("visibilitychange", follow);
    follow();
  } else if (document.body.dataset.live === "poll") {
    const poll = async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch("/api/v1/version", { credentials: "same-origin" });
        if (answer.status === 401) location.reload();
        else if (answer.ok) changed((await answer.json()).version);
      } catch { setLive("off"); }
    };
    setInterval(poll, 5000);
    document.addEventListener("visibilitychange", poll);
    poll();
  }

  // A filter applies when it is chosen, and while it is typed.
  let typing = 0;
  const apply = async (form) => {
    const query = new URLSearchParams([...new FormData(form)].filter(([key, value]) => value !== "" && !(key === "sort" && value === "state")));
    const text = query.toString();
    history.replaceState(null, "", form.getAttribute("action") + (text && `?${text}`));
    await refresh();
  };
  document.addEventListener("change", (event) => {
    const form = event.target.closest(".filters");
    if (form && event.target.tagName === "SELECT") apply(form);
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest(".filters");
    if (!form || event.target.type !== "search") return;
    clearTimeout(typing);
    typing = setTimeout(() => apply(form), 180);
  });

  // Keys.
  const rows = () => [...main.querySelectorAll(".rowlink, .push summary, .step summary")];
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && field) { event.target.blur(); return; }
    if (field || help.open) return;
    const filter = document.getElementById("filter");
    if (Date.now() - went < 1200) {
      went = 0;
      const link = document.querySelector(`header nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === "/" && filter) { event.preventDefault(); filter.focus(); filter.select(); }
    else if (event.key === "/") { event.preventDefault(); location.href = "/objects#filter"; }
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "g") went = Date.now();
    else if (event.key === "?") help.showModal();
  });
  document.getElementById("help-open").addEventListener("click", () => help.showModal());
  if (location.hash === "#filter") document.getElementById("filter")?.focus();
})();
