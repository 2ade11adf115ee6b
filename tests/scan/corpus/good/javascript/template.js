const user = { name: 'ann' };
const page = `<h1>${user.name}</h1>`;
console.log(page.length / 2);
