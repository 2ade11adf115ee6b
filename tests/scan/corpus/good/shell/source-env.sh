#!/bin/sh
. ./config.env
. "$HOME/.profile.d/project"
echo "$PROJECT"
