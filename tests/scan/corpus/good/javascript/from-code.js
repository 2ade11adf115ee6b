const letters = [];
for (let i = 0; i < 26; i++) letters.push(String.fromCharCode(97 + i));
console.log(letters.join(''));
