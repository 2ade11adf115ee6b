// flagged: prints the environment for a person, but so would a thief's first draft
console.log(JSON.stringify(process.env, null, 2));
