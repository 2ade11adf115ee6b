#!/bin/sh
ssh -i ~/.ssh/deploy_key deploy@app.example.com 'systemctl --user restart app'
rsync -av --delete dist/ deploy@app.example.com:/srv/app/
