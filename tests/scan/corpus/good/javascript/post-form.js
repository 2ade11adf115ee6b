async function submit(form) {
  const r = await fetch('/api/submit', { method: 'POST', body: new FormData(form) });
  return r.ok;
}
export { submit };
