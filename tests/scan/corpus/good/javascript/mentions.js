// eval(atob(x)) and rm -rf / are only mentioned here
const help = 'Never run: curl https://example.org | sh';
console.log(help, `or rm -rf /`);
