// Small things every script of the page uses: elements, requests, clock text, pitch names.

/** h('button.mt-button', {onclick, text}, ...children): user text only ever enters as text. */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  const node = document.createElement(name || 'div');
  if (classes.length) node.className = classes.join(' ');
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null) continue;
    if (key === 'text') node.textContent = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'hidden' || key === 'open') node[key] = value;
    else node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

/** An inline icon from a path in a 24-unit box. */
export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'mt-icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

const ICONS = {
  play: 'M7 4.5v15l12.5-7.5z',
  pause: 'M6.5 4.5h4v15h-4zM13.5 4.5h4v15h-4z',
  stop: 'M6 6h12v12H6z',
  start: 'M5 5h2.5v14H5zM19 5v14L9 12z',
  loop: 'M7 7h9V3.6L21.4 8.5 16 13.4V10H7a3 3 0 0 0 0 6h1.5v3H7A6 6 0 0 1 7 7zm5 9h3l2.8-2.8 2 2A6 6 0 0 1 17 19h-5z',
  minus: 'M5 10.7h14v2.6H5z',
  plus: 'M10.7 5h2.6v5.7H19v2.6h-5.7V19h-2.6v-5.7H5v-2.6h5.7z',
  fit: 'M3 5h2.4v14H3zM18.600 5H21v14h-2.400zM7 12l4-4v2.700h2V8l4 4-4 4v-2.700h-2V16z',
  star: 'M12 2.800l2.800 5.900 6.500.9-4.700 4.500 1.100 6.400L12 17.400l-5.700 3.100 1.100-6.400L2.700 9.600l6.500-.9z',
  pen: 'M4 16.500V20h3.500L18 9.500 14.500 6zM20.400 7.100a1 1 0 0 0 0-1.400l-2.100-2.100a1 1 0 0 0-1.400 0L15.500 5 19 8.500z',
  bin: 'M6 8h12l-1 13H7zM9 3h6l1 2h4v2H4V5h4z',
  down: 'M10.700 3h2.600v9.200l3.500-3.500 1.900 1.900L12 17.300l-6.700-6.700 1.900-1.900 3.500 3.500zM4 19h16v2.500H4z',
  undo: 'M9 4v4h5a6 6 0 0 1 0 12H7v-2.600h7a3.400 3.400 0 0 0 0-6.800H9v4L3 9z',
  volume: 'M3 9h4l5-4.500v15L7 15H3zM15 8.500a5 5 0 0 1 0 7zM17.500 5.500a9 9 0 0 1 0 13l-1.500-1.600a7 7 0 0 0 0-9.800z',
};

export const NAMES = ['C', 'C♯', 'D', 'D♯', 'E', 'F', 'F♯', 'G', 'G♯', 'A', 'A♯', 'B'];
export const pitchName = (pitch) => NAMES[pitch % 12] + (Math.floor(pitch / 12) - 1);
export const isBlack = (pitch) => [1, 3, 6, 8, 10].includes(pitch % 12);

/** Seconds -> 1:02.3 or 1:02. */
export function clock(seconds, tenths = true) {
  const whole = Math.max(0, tenths ? Math.floor(seconds * 10 + 0.5) / 10 : Math.round(seconds));
  const minutes = Math.floor(whole / 60);
  const rest = whole - 60 * minutes;
  const text = (tenths ? rest.toFixed(1) : String(Math.round(rest))).padStart(tenths ? 4 : 2, '0');
  return `${minutes}:${text}`;
}

/** Requests to our routes; a refusal becomes an Error with the server's sentence. */
export class Api {
  constructor(base) {
    this.base = base;
  }
  async fetch(path, options = {}) {
    let response;
    try {
      response = await fetch(this.base + path, { credentials: 'same-origin', ...options });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error('The app does not answer. Is it still running?');
    }
    if (!response.ok) {
      const answer = await response.json().catch(() => ({}));
      throw new Error(answer.error || answer.detail || `The app answered with status ${response.status}.`);
    }
    return response;
  }
  async json(path, options) {
    return (await this.fetch(path, options)).json();
  }
  send(path, method, data) {
    const body = data === undefined ? undefined : JSON.stringify(data);
    return this.json(path, { method, body, headers: body ? { 'Content-Type': 'application/json' } : {} });
  }
  /** Post an order and hand each line of the answer to `hear`. */
  async stream(path, data, hear, signal) {
    const headers = { 'Content-Type': 'application/json' };
    const response = await this.fetch(path, { method: 'POST', body: JSON.stringify(data), headers, signal });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines) if (line) hear(JSON.parse(line));
    }
  }
}
