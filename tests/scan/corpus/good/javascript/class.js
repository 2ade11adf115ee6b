class Stack {
  constructor() { this.items = []; }
  push(x) { this.items.push(x); return this; }
  pop() { return this.items.pop(); }
}
console.log(new Stack().push(1).pop());
