#!/bin/sh
env | sort | grep '^CI_'
printenv PATH
