#!/bin/sh
chmod -R u+rwX,go-w ./public
chown -R www-data:www-data /srv/www/site1/uploads
