// Lets the page work offline. Files of the model have their checksum in their address, so they are taken from the cache;
// all others come from the network while there is one, so that a new version of the page is seen at once.
const CACHE = `nmt ${registration.scope}`;

// What the page has loaded before it has this service worker; the model is loaded through it.
const PAGE = ["./", "style.css", "app.js", "backend.js", "nmt.js", "icon.svg", "app.webmanifest"];

addEventListener("install", (event) => event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGE)).catch(() => {}).then(skipWaiting)));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

async function keep(cache, request, response) {
  const { pathname, href } = new URL(request.url);
  try {
    await cache.put(request, response);
    for (const old of await cache.keys()) if (new URL(old.url).pathname === pathname && old.url !== href) await cache.delete(old);
  } catch { /* the storage is full: the page goes on, but not offline */ }
}

async function answer(request, event) {
  const cache = await caches.open(CACHE), { search } = new URL(request.url);
  const kept = search && (await cache.match(request));
  if (kept) return kept;
  try {
    const response = await fetch(request);
    if (response.ok) event.waitUntil(keep(cache, request, response.clone()));
    return response;
  } catch (error) {
    const known = await cache.match(request);
    if (known) return known;
    throw error;
  }
}

addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(registration.scope)) event.respondWith(answer(event.request, event));
});
