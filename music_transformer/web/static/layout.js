// The Compose page's elements: built once, handed to the page by name.

import { h, icon } from './dom.js';

const HELP = 'Space plays. Left and right move, with Shift further; N and P go from note to note. Plus, minus and 0 zoom. '
  + 'Left and right bracket mark a region. C continues from the playhead. Escape clears.';

export function button(label, props, ...inner) {
  return h('button.mt-button', { type: 'button', 'aria-label': label, title: label, ...props }, ...inner);
}

/** A closed card that opens to `inner`; `opened` is told each time it does. */
export function drawer(title, opened, ...inner) {
  return h('details.mt-card.mt-drawer', { ontoggle: (e) => e.target.open && opened() }, h('summary', { text: title }), ...inner);
}

/** Build everything below `page.root`; `acts` are the page's methods the elements call. */
export function build(page) {
  const el = {};
  const stage = h('section.mt-card.mt-stage', { 'aria-label': 'Piano roll and transport' }, rollBox(el), transport(page, el));
  el.notice = h('div.mt-notice', { role: 'alert', hidden: true });
  el.downloads = h('div.mt-downloads');
  el.drawers = h('div.mt-drawers');
  el.aside = h('aside.mt-aside.mt-card', { 'aria-label': 'Your takes' });
  el.foot = h('p.mt-foot', { text: 'Waking the instrument' });
  const main = h('div.mt-main', {}, head(page, el), el.notice, stage, composeBox(page, el), el.downloads, el.drawers);
  page.root.replaceChildren(h('div.mt-layout', {}, main, el.aside), el.foot);
  return el;
}

function head(page, el) {
  el.title = h('h1.mt-title');
  el.summary = h('summary');
  el.lines = h('ul');
  el.report = h('details.mt-report', {}, el.summary, el.lines);
  el.file = h('input', { type: 'file', accept: '.mid,.midi,.rmi,audio/midi', hidden: true, id: 'mt-file', onchange: () => page.bring(el.file.files[0]) });
  el.samples = h('select.mt-select', { id: 'mt-samples', 'aria-label': 'Sample pieces', onchange: () => page.sample(el.samples.value) },
    h('option', { value: '', text: 'Samples' }), ...Object.entries(page.config.samples).map(([value, text]) => h('option', { value, text })));
  const source = h('div.mt-source', {}, el.file, button('Open a MIDI file', { onclick: () => el.file.click() }, 'Open a MIDI file'), el.samples,
    button('Start from nothing', { onclick: () => page.choose(null) }, 'Start from nothing'));
  return h('header.mt-head', {}, h('div.mt-head-text', {}, el.title, el.report), source);
}

function rollBox(el) {
  el.welcome = h('div.mt-welcome', {}, h('p', { text: 'Drop a MIDI file here, and hear it go on.' }), h('p.mt-soft', { text: 'Or press Compose, and a piece begins from nothing.' }));
  el.roll = h('div.mt-roll', { role: 'application', 'aria-label': 'Piano roll', 'aria-describedby': 'mt-roll-help' });
  return [el.roll, h('p.mt-visually-hidden', { id: 'mt-roll-help', text: HELP })];
}

function transport(page, el) {
  el.play = button('Play', { id: 'mt-play', onclick: () => page.toggle() }, icon('play'));
  el.loop = button('Loop the marked region', { 'aria-pressed': 'false', onclick: () => page.setLoop(!page.player.loop) }, icon('loop'));
  el.time = h('output.mt-time', { text: '0:00.0 / 0:00.0' });
  el.chips = h('div.mt-chips', { role: 'radiogroup', 'aria-label': 'Takes of this composition' });
  el.other = h('button.mt-chip', { type: 'button', hidden: true, title: 'Compare with the piece shown before, from the same second (X)', onclick: () => page.compareBack() });
  el.ruler = h('button.mt-link', { type: 'button', text: 'bars', title: 'Ruler in bars or seconds', onclick: () => page.switchRuler() });
  const volume = h('input', { type: 'range', min: 0, max: 1, step: 0.01, value: 0.8, 'aria-label': 'Volume', oninput: (e) => (page.player.volume = Number(e.target.value)) });
  const zoom = (label, name, act) => button(label, { onclick: act }, icon(name));
  return h('div.mt-transport', {},
    button('Back to the start', { onclick: () => page.seek(0) }, icon('start')), el.play, el.loop, el.time, el.chips, el.other, h('span.mt-space'), el.ruler,
    zoom('Zoom out', 'minus', () => page.roll.zoom(1 / 1.5)), zoom('Show all', 'fit', () => page.roll.fit()), zoom('Zoom in', 'plus', () => page.roll.zoom(1.5)),
    h('span.mt-volume', {}, icon('volume'), volume));
}

function composeBox(page, el) {
  el.go = button('Compose', { id: 'mt-go', onclick: () => page.composer.press() });
  el.go.classList.add('mt-go');
  el.place = h('button.mt-chip', { type: 'button', hidden: true, text: 'from the end instead', onclick: () => page.roll.setPlace(null) });
  el.rewrite = h('button.mt-chip', { type: 'button', id: 'mt-rewrite', hidden: true, title: 'Compose the marked region anew and keep what stands around it', onclick: () => page.composer.rewrite() });
  el.progress = h('div.mt-progress', { role: 'status', 'aria-live': 'polite' });
  el.bar = h('i');
  const more = h('details.mt-more', {}, h('summary', { text: 'Advanced' }), page.form.advancedNode);
  return h('section.mt-card.mt-compose', { 'aria-label': 'Compose' },
    h('div.mt-compose-row', {}, page.form.node, h('div.mt-go-box', {}, el.go, el.place, el.rewrite)), h('div.mt-bar', {}, el.bar), el.progress, more);
}
