// Arcs, the look: a style sheet that the view brings along, so that an exported page needs no second file.

export const STYLE = `
.arcs { --ink: var(--mt-ink, #1c2430); --soft: var(--mt-soft, #5d6878); --line: var(--mt-line, #d5dae1); --paper: var(--mt-paper, #ffffff);
  --raised: var(--mt-raised, #f3f5f8); --accent: var(--mt-accent, #0072b2); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
.dark .arcs { --ink: var(--mt-ink, #e4e9f0); --soft: var(--mt-soft, #9aa6b5); --line: var(--mt-line, #2e3643); --paper: var(--mt-paper, #14181f);
  --raised: var(--mt-raised, #1d232d); --accent: var(--mt-accent, #56b4e9); }
.arcs *, .arcs *::before { box-sizing: border-box; }
.arcs .bar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 14px; margin: 0 0 8px; }
.arcs .group { display: inline-flex; align-items: center; gap: 5px; white-space: nowrap; margin: 0; color: var(--ink); font-size: 13px; }
.arcs [hidden] { display: none !important; }
.arcs .textline textarea { flex: 1; font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 9px; padding: 8px 10px; resize: vertical; }
.arcs .end { margin-left: auto; }
.arcs .name { color: var(--soft); font-size: 12px; }
.arcs .title { font-weight: 600; }
.arcs .segs { display: inline-flex; border: 1px solid var(--line); border-radius: 7px; overflow: hidden; background: var(--raised); }
.arcs button, .arcs a.act, .arcs select { font: inherit; font-size: 13px; line-height: 1; color: var(--ink); background: var(--raised); border: 0; margin: 0;
  padding: 6px 9px; min-width: 26px; cursor: pointer; text-decoration: none; }
.arcs .segs button + button { border-left: 1px solid var(--line); }
.arcs .seg[aria-pressed="true"] { background: var(--accent); color: #fff; }
.dark .arcs .seg[aria-pressed="true"] { color: #0b0f15; }
.arcs :is(.act, .head) { background: var(--raised); }
.arcs .act, .arcs a.act, .arcs select { border: 1px solid var(--line); border-radius: 7px; }
.arcs select { appearance: auto; line-height: 1.4; padding: 4px 6px; }
.arcs .head { position: relative; border: 1px solid var(--line); border-radius: 7px; padding: 5px 8px 8px; }
.arcs .head::before { content: ""; position: absolute; left: 5px; right: 5px; bottom: 3px; border-bottom: 3px solid var(--head); }
.arcs .head[data-dash]::before { border-bottom-style: dashed; }
.arcs .head[aria-pressed="false"] { color: var(--soft); opacity: 0.45; }
.arcs :is(button, a, select, input, summary, .roll):focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.arcs input[type="range"] { width: 110px; accent-color: var(--accent); padding: 0; margin: 0; }
.arcs input[type="checkbox"] { appearance: auto; width: 15px; height: 15px; accent-color: var(--accent); margin: 0; }
.arcs output { display: inline-block; min-width: 3.6em; font-variant-numeric: tabular-nums; }
.arcs .panes { display: grid; gap: 14px; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 1180px) { .arcs .panes.two { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
.arcs .pane { min-width: 0; }
.arcs .roll { position: relative; overflow: auto; border: 1px solid var(--line); border-radius: 9px; background: var(--paper); touch-action: pan-x pan-y; }
.arcs .still { position: sticky; left: 0; top: 0; overflow: hidden; cursor: crosshair; }
.arcs canvas { position: absolute; inset: 0; width: 100%; height: 100%; }
.arcs .live { min-height: 2.9em; margin: 8px 0 2px; white-space: pre-line; font-variant-numeric: tabular-nums; }
.arcs .note:empty { display: none; }
.arcs .quiet { color: var(--soft); font-size: 12.5px; margin: 2px 0; max-width: 110ch; }
.arcs details { margin: 6px 0; }
.arcs summary { cursor: pointer; font-size: 13px; }
.arcs .rows { max-height: 320px; overflow: auto; border: 1px solid var(--line); border-radius: 9px; margin-top: 6px; }
.arcs table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
.arcs caption { text-align: left; color: var(--soft); padding: 6px 10px; }
.arcs th, .arcs td { text-align: left; padding: 3px 10px; border-top: 1px solid var(--line); }
.arcs .dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; background: var(--head); margin-right: 6px; border: 1px solid rgba(0, 0, 0, 0.45); }
`;
