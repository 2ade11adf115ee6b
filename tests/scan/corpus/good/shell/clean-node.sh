#!/bin/sh
rm -rf node_modules dist .cache
npm ci
npm run build
