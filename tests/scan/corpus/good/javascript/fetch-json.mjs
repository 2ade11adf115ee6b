const r = await fetch('https://api.example.com/items');
const items = await r.json();
console.log(items.map((i) => i.name).join(', '));
