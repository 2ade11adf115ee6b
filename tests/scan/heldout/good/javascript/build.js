const { execSync } = require('child_process');
const pkg = require('./package.json');
execSync('tsc -p tsconfig.build.json', { stdio: 'inherit' });
execSync('npx esbuild dist/index.js --bundle --outfile=out.js', { stdio: 'inherit' });
console.log(`built ${pkg.name}@${pkg.version}`);
