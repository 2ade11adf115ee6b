const port = Number(process.env.PORT || 3000);
const token = process.env.API_TOKEN;
if (!token) throw new Error('API_TOKEN is not set');
console.log(port);
