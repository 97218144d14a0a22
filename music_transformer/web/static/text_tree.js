// A tree of tokens appended by hand: append by id, undo, go to any branch. Node 0 is the prompt. Mirrors gpt_core.text.explore.Tree.

export class TokenTree {
  constructor() {
    this.nodes = [{ id: -1, parent: -1, label: '' }];
    this.at = 0;
  }

  /** Go to the child with this id, making it if it is new. */
  append(id, label) {
    let found = this.nodes.findIndex((n) => n.parent === this.at && n.id === id);
    if (found < 0) found = this.nodes.push({ id, parent: this.at, label }) - 1;
    this.at = found;
    return found;
  }

  undo() {
    this.at = Math.max(0, this.nodes[this.at].parent);
    return this.at;
  }

  go(node) {
    if (node in this.nodes) this.at = node;
  }

  leaves() {
    const parents = new Set(this.nodes.map((n) => n.parent));
    return this.nodes.map((_, n) => n).filter((n) => !parents.has(n));
  }

  path(node = this.at) {
    const out = [];
    for (let at = node; at > 0; at = this.nodes[at].parent) out.unshift(at);
    return out;
  }

  ids(node = this.at) {
    return this.path(node).map((n) => this.nodes[n].id);
  }

  label(node) {
    const text = this.path(node).map((n) => this.nodes[n].label).join('');
    return text.length > 24 ? `…${text.slice(-24)}` : text || 'the text';
  }
}
