const token = process.env.GITHUB_TOKEN;
const res = await fetch('https://api.github.com/repos/example/app/releases', {
  method: 'POST',
  headers: { Authorization: `Bearer ${token}`, Accept: 'application/vnd.github+json' },
  body: JSON.stringify({ tag_name: 'v1.2.3', draft: true }),
});
if (!res.ok) throw new Error(`${res.status} ${await res.text()}`);
console.log((await res.json()).upload_url);
