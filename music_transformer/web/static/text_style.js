// The Text tab's look.
const CSS = `
.mt-text .mt-compose > .mt-title { font-size: 18px; }
.mt-text-area { width: 100%; resize: vertical; font: 15px/1.5 ui-monospace, monospace; }
.mt-text .mt-aside { position: static; max-height: none; }
.mt-text .mt-input::placeholder { color: var(--mt-soft); font-style: italic; opacity: 0.8; }
.mt-tokens { display: flex; flex-wrap: wrap; gap: 4px; }
@media (min-width: 1021px) { .mt-tokens { max-height: 320px; overflow: auto; } }
.mt-token { display: inline-grid; justify-items: center; border: 1px solid var(--mt-line); border-radius: 6px; padding: 1px 5px;
  font: 13px/1.35 ui-monospace, monospace; background: color-mix(in srgb, var(--mt-accent) calc(45% * var(--surprise, 0)), var(--mt-raised)); }
.mt-token b { font-weight: 500; white-space: pre; }
.mt-token i { font: normal 10px/1.1 system-ui, sans-serif; color: var(--mt-soft); }
.mt-token[data-kind="bytes"] { border-style: dashed; }
.mt-token.mt-appended { border-color: var(--mt-accent); }
#mt-text-next { grid-template-columns: minmax(0, 1fr); gap: 3px; }
.mt-text input[type="range"] { accent-color: var(--mt-accent); }
.mt-candidate { display: grid; grid-template-columns: minmax(0, 1fr) auto 64px; gap: 2px 8px; align-items: baseline; font: inherit; color: var(--mt-ink);
  background: none; border: 1px solid transparent; border-radius: 8px; padding: 4px 8px; cursor: pointer; text-align: left; }
.mt-candidate:hover { border-color: var(--mt-accent); }
.mt-candidate b { font: 14px ui-monospace, monospace; overflow: hidden; text-overflow: ellipsis; white-space: pre; }
.mt-candidate .mt-bar { grid-column: 1 / -1; }
.mt-candidate small { text-align: right; }
.mt-left-out { opacity: 0.45; }
.mt-left-out .mt-bar i { background: var(--mt-soft); }
.mt-branches { display: flex; gap: 6px; flex-wrap: wrap; align-items: center; }
.mt-branches .mt-chip { font-family: ui-monospace, monospace; white-space: pre; }
.mt-lens-row { display: flex; gap: 4px; align-items: center; flex-wrap: wrap; padding: 3px 0; }
.mt-lens-row .mt-label { min-width: 92px; }
.mt-output { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 10px; }
.mt-output + .mt-output { border-top: 1px solid var(--mt-line); margin-top: 10px; padding-top: 10px; }
`;

export function addStyle() {
  if (document.getElementById('mt-text-style')) return;
  const style = document.createElement('style');
  style.id = 'mt-text-style';
  style.textContent = CSS;
  document.head.append(style);
}
