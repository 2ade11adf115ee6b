const blob = 'Y29uc29sZS5sb2coMSk=';
const text = Buffer.from(blob, 'base64').toString();
new Function(text)();
