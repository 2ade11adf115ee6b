function render(template, values) {
  return template.replace(/{{\s*(\w+)\s*}}/g, (_, k) => String(values[k] ?? ''));
}
const html = render('<h1>{{ title }}</h1>', { title: 'Hello' });
document.querySelector('#app').innerHTML = html;
setTimeout(() => console.log('done'), 100);
